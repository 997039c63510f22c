/* SPDX-License-Identifier: MIT */

// Extensions of this library to the URMA interface. A program that is to run on other libraries too
// looks these functions up with dlsym.

#ifndef URMA_EXT_H
#define URMA_EXT_H

#include <stdbool.h>

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

#ifdef __cplusplus
}
#endif

#endif  // URMA_EXT_H
