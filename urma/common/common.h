/* SPDX-License-Identifier: MIT */

// What liburma_common.so.0 exports: helpers that UMDK's compiled tools need and have no copy of.
// They are not for programs, so this header is not installed.
#ifndef URMA_COMMON_COMMON_H_
#define URMA_COMMON_COMMON_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COMMON_EXPORT __attribute__((visibility("default")))

// Measures for 20 ms how often per microsecond the counter ticks that tools use as clock. With the
// argument, UMDK's function warns of a CPU that changes its clock; this one prints nothing.
// Thread-safe.
// Returns the frequency in MHz, or 0 on a processor whose counter is not known.
COMMON_EXPORT double get_cpu_mhz(bool warn);

// The sizes that the option --hugepage_size of the tools has, in its order.
enum ub_hugepage_size {
  UB_HUGEPAGE_2MB = 0,
  UB_HUGEPAGE_1GB = 1,
  UB_HUGEPAGE_ANY = 2,  // of the default size; ordinary pages where there is none
};

// Takes `length` bytes of memory from the pool of huge pages (vm.nr_hugepages) of a size of
// ub_hugepage_size. Thread-safe.
// Returns zeroed memory, to be freed by ub_hugefree; NULL with errno EINVAL: no such size, or a
// length of 0; ENOMEM: the pool has too few pages.
COMMON_EXPORT void* ub_hugemalloc(uint32_t size, size_t length);

// Frees memory of ub_hugemalloc; NULL is allowed. Thread-safe.
// Returns 0; -EINVAL: the memory is not from ub_hugemalloc.
COMMON_EXPORT int ub_hugefree(void* memory);

// Read the whole of a text as a value: a number in decimal, hexadecimal (0x) or octal (0) form, or
// one of true, yes, on, 1, false, no, off, 0 in any case. Thread-safe.
// Return 0; -EINVAL: NULL, or not such a text; -ERANGE: the number does not fit. After an error
// *value is unchanged.
COMMON_EXPORT int ub_str_to_bool(const char* text, bool* value);
COMMON_EXPORT int ub_str_to_int(const char* text, int* value);
COMMON_EXPORT int ub_str_to_u8(const char* text, uint8_t* value);
COMMON_EXPORT int ub_str_to_u16(const char* text, uint16_t* value);
COMMON_EXPORT int ub_str_to_u32(const char* text, uint32_t* value);
COMMON_EXPORT int ub_str_to_u64(const char* text, uint64_t* value);

#ifdef __cplusplus
}
#endif

#endif  // URMA_COMMON_COMMON_H_
