// SPDX-License-Identifier: MIT
//
// The libhsa-runtime64 of the tests: agents, pools, signals and copies of ordinary memory, with the
// worst behaviour of a runtime. Memory of its GPUs is out of the CPU's reach, as without a large
// BAR: an access raises a signal.
//
// Set at start by environment variables: FAKE_HSA_<NAME>=<number>.
#ifndef TEST_ROCM_FAKE_HSA_H_
#define TEST_ROCM_FAKE_HSA_H_

#include <cstddef>

extern "C" {

// GPUS           agents that are GPUs; 1
// BAR            1: the CPU reaches the fine-grained memory of GPUs
// DMABUF         0: no dma-bufs are exported; 1
// ENGINES        mask of the engines for copies; 3
// DELAY_US       how long each copy takes
// HOLD           1: copies begin only once it is 0 again
// LET            this many begin nevertheless
// REORDER        1: the last executable copy runs first
// FAIL_COPIES    this many of the next copies fail
// REFUSE_COPIES  this many of the next are refused
// HANG_MS        how long an attach takes; less if lowered meanwhile
// SHORT_ATTACH   1: attached memory is shorter than requested
// FAIL_LOCK      1: no memory can be locked
// POOL_MIB       size of each pool; 4096
// AT             the address of memory out of the CPU's reach, which the program keeps mapped, also
//                when it is freed; 0: the kernel chooses
// INIT_STATUS    what hsa_init returns
__attribute__((visibility("default"))) void fake_hsa_set(const char* name, long value);

// Also COPIES, CHAINED (behind others), ON_ENGINES, BY_ENGINE_1, BY_ENGINE_2, UNDER_WAY, LOADS (of
// signals, by the 64), SIGNALS (that stand), HANDLERS (ever asked for), ALLOCATIONS, ATTACHES
// (begun, of memory and of signals), ATTACHED, DETACHED (ever, also of signals), LOCKED, LOCKS
// (ever).
__attribute__((visibility("default"))) long fake_hsa_get(const char* name);

// Between memory of any agent and that of the caller. False if there is none.
__attribute__((visibility("default"))) bool fake_hsa_read(const void* from, void* to, size_t bytes);
__attribute__((visibility("default"))) bool fake_hsa_write(void* to, const void* from,
                                                           size_t bytes);
}

#endif  // TEST_ROCM_FAKE_HSA_H_
