/* SPDX-License-Identifier: MIT
 *
 * What the preloaded library shows: the folders ubcore and uburma of the folder that URMA_RUN_VIEW
 * names, as entries of /sys/class and /dev.
 */
#ifndef TOOLS_RUN_PRELOAD_SHOWN_H_
#define TOOLS_RUN_PRELOAD_SHOWN_H_

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#define URMA_RUN_EXPORT __attribute__((visibility("default")))

/* The next function of this name, after this library. */
#define NEXT(name)                                         \
  ({                                                       \
    static void* next_##name;                              \
    (__typeof__(&name))next_function(&next_##name, #name); \
  })
void* next_function(void** place, const char* name);

/* The entry added to the folder with this status, or NULL. */
const char* added_entry(const struct stat* folder);

/* The path to use instead of one that leads to a shown folder, made in `buffer`; else the path
 * itself. A relative path belongs to `dirfd`. errno stays. */
const char* shown(int dirfd, const char* path, char buffer[PATH_MAX]);

/* Turns a path of a shown folder back into the one that the program knows, in place, in a buffer of
 * PATH_MAX. */
void hide(char* path);

#endif /* TOOLS_RUN_PRELOAD_SHOWN_H_ */
