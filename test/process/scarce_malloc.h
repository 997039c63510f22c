// SPDX-License-Identifier: MIT
//
// Replaces malloc in programs of tests: one allocation fails.
#ifndef TEST_PROCESS_SCARCE_MALLOC_H_
#define TEST_PROCESS_SCARCE_MALLOC_H_

#include <atomic>

namespace urma_test {

// The allocation of this number from now on, of any thread, fails; 0: none. Below 0 once it has, if
// threads allocate at once.
extern std::atomic<int> until_one_fails;

}  // namespace urma_test

#endif  // TEST_PROCESS_SCARCE_MALLOC_H_
