/* SPDX-License-Identifier: MIT */

// Extensions of this library to the URMA interface. A program that is to run on other libraries too
// looks these functions up with dlsym.

#ifndef URMA_EXT_H
#define URMA_EXT_H

#include <stdbool.h>
#include <stdint.h>

#include "urma_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// Tells the version of the library, as "major.minor.patch". Thread-safe, also before urma_init.
// Returns a constant string that belongs to the library.
// Specification: none, an extension.
const char* urma_ext_version(void);

// Writes a line to the log, as the library itself does: with the level, the thread tag, `function`
// and `line`, and the text made from the printf `format`. Lines above the level in effect, see
// urma_log_get_level, are dropped; long ones are cut. The strings stay the caller's. Thread-safe,
// also before urma_init.
// Specification: none, offered for programs that log next to the library.
void urma_log(const char* function, int line, urma_vlog_level_t level, const char* format, ...)
    __attribute__((format(printf, 4, 5)));

// Tells whether urma_log would drop a line of this level, so that the caller need not prepare it.
// Thread-safe, also before urma_init.
// Returns true: dropped, false: written.
// Specification: none, offered for programs that log next to the library.
bool urma_log_drop(urma_vlog_level_t level);

// The ways in which bytes of a registered segment are reached, best first.
typedef enum urma_ext_path {
  URMA_EXT_PATH_MAPPED = 0,  // mapped by the importer: plain loads and stores
  URMA_EXT_PATH_COPIED = 1,  // copied by the kernel, between the programs' own buffers
  URMA_EXT_PATH_STAGED = 2,  // copied by the owner's library, through an area of its own
} urma_ext_path_t;

// Why bytes are not mapped.
typedef enum urma_ext_reason {
  URMA_EXT_REASON_NONE = 0,          // they are
  URMA_EXT_REASON_NOT_IMPORTED = 1,  // nobody has imported the segment yet: pages move then
  URMA_EXT_REASON_OFF = 2,           // URMA_SHM_INPLACE=0
  URMA_EXT_REASON_RAGGED = 3,        // of a page that the segment does not cover whole
  URMA_EXT_REASON_NO_FREEZE = 4,     // no userfaultfd: other threads could lose writes
  URMA_EXT_REASON_FILE = 5,          // pages of a file, or of .data
  URMA_EXT_REASON_SHARED = 6,        // memory that the program shares itself
  URMA_EXT_REASON_HUGETLB = 7,       // of the pool of huge pages
  URMA_EXT_REASON_PINNED = 8,        // a device or a child process holds the pages
  URMA_EXT_REASON_SEALED = 9,        // mseal or guard pages
  URMA_EXT_REASON_PROTECTED = 10,    // not readable and writable, executable, or behind a key
  URMA_EXT_REASON_WIPED = 11,        // wiped in a child (MADV_WIPEONFORK)
  URMA_EXT_REASON_WATCHED = 12,      // the program has a userfaultfd on them
  URMA_EXT_REASON_LIMIT = 13,        // a limit of the process: files, descriptors, mappings, memory
  URMA_EXT_REASON_OTHER_TOKEN = 14,  // shared already, under another token or other rights
  URMA_EXT_REASON_STACK = 15,        // of a stack
  URMA_EXT_REASON_KERNEL = 16,       // the kernel is too old, or refuses
  URMA_EXT_REASON_UNMAPPED = 17,     // no memory is there any more
  URMA_EXT_REASON_PART = 18,         // only a part of what urma_ext_alloc returned was registered
  URMA_EXT_REASON_PEER = 19,         // the importer could not map them
} urma_ext_reason_t;

// A part of a segment.
typedef struct urma_ext_part {
  uint64_t va;  // in the owner's address space
  uint64_t len;
  urma_ext_path_t path;
  urma_ext_reason_t reason;
} urma_ext_part_t;

// Tells how the parts of a segment are reached. `tseg` was registered here, and the answer says
// what the owner can hand out; or it was imported, and the answer says which way a work request of
// this process takes. At most *count parts are written to `parts`, which may be NULL where *count
// is 0; *count becomes the number that there are. They cover the segment in ascending order.
// Thread-safe; the segment must stand.
// Returns URMA_SUCCESS, or URMA_EINVAL: an argument is NULL, or the segment belongs to a provider
// that cannot tell.
// Specification: none, an extension.
urma_status_t urma_ext_query_segment(const urma_target_seg_t* tseg, urma_ext_part_t* parts,
                                     uint32_t* count);

// Tells what a reason means, as a constant text that belongs to the library. Thread-safe.
// Specification: none, an extension.
const char* urma_ext_reason_text(urma_ext_reason_t reason);

// Huge pages, where the machine has some; else as without.
#define URMA_EXT_ALLOC_HUGE 1U

// Allocates `bytes` bytes of zeroed memory, on a page boundary, that can be mapped by peers without
// being moved first: also where private memory cannot be shared in place. Register all of it as one
// segment. Thread-safe, between urma_init and urma_uninit.
// Returns the memory, to be freed with urma_ext_free, or NULL with errno: EINVAL (bytes is 0, or
// unknown flags), ENOMEM.
// Specification: none, an extension.
void* urma_ext_alloc(uint64_t bytes, uint32_t flags);

// Frees what urma_ext_alloc returned; NULL is ignored. It must not be registered any more.
// Thread-safe.
// Returns URMA_SUCCESS, or URMA_EINVAL: the memory is not from urma_ext_alloc.
// Specification: none, an extension.
urma_status_t urma_ext_free(void* memory);

#ifdef __cplusplus
}
#endif

#endif  // URMA_EXT_H
