/* SPDX-License-Identifier: MIT
 *
 * Calls of libc that take the path of a file. Calls that libc makes itself do not come by here, so
 * that each of its functions with a path has one of its own. Each name stands for an ABI of its
 * own, in programs that were compiled earlier.
 */
/* glibc's checks would define some of the functions that are defined here. */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tools/run/preload/shown.h"

/* Defines `type name(parameters)`, which calls the next function of that name. The arguments have
 * `shown_path` in place of `path`, which is relative to `dirfd`. */
#define CALL_AT(type, name, dirfd, parameters, arguments)      \
  URMA_RUN_EXPORT type name parameters {                       \
    char buffer[PATH_MAX];                                     \
    const char* const shown_path = shown(dirfd, path, buffer); \
    return NEXT(name) arguments;                               \
  }
#define CALL(type, name, parameters, arguments) CALL_AT(type, name, AT_FDCWD, parameters, arguments)

/* The mode of a call that may create a file. */
static mode_t mode_of(int flags, va_list arguments) {
  const bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return makes ? va_arg(arguments, mode_t) : 0;
}

#define OPEN(name)                                                 \
  URMA_RUN_EXPORT int name(const char* path, int flags, ...) {     \
    va_list arguments;                                             \
    va_start(arguments, flags);                                    \
    const mode_t mode = mode_of(flags, arguments);                 \
    va_end(arguments);                                             \
    char buffer[PATH_MAX];                                         \
    return NEXT(name)(shown(AT_FDCWD, path, buffer), flags, mode); \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                      \
  URMA_RUN_EXPORT int name(int dirfd, const char* path, int flags, ...) { \
    va_list arguments;                                                    \
    va_start(arguments, flags);                                           \
    const mode_t mode = mode_of(flags, arguments);                        \
    va_end(arguments);                                                    \
    char buffer[PATH_MAX];                                                \
    return NEXT(name)(dirfd, shown(dirfd, path, buffer), flags, mode);    \
  }
OPENAT(openat)
OPENAT(openat64)

/* Their names under _FORTIFY_SOURCE. */
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int dirfd, const char* path, int flags);
int __openat64_2(int dirfd, const char* path, int flags);
ssize_t __readlink_chk(const char* path, char* text, size_t size, size_t room);
ssize_t __readlinkat_chk(int dirfd, const char* path, char* text, size_t size, size_t room);
char* __realpath_chk(const char* path, char* resolved, size_t room);
CALL(int, __open_2, (const char* path, int flags), (shown_path, flags))
CALL(int, __open64_2, (const char* path, int flags), (shown_path, flags))
CALL_AT(int, __openat_2, dirfd, (int dirfd, const char* path, int flags),
        (dirfd, shown_path, flags))
CALL_AT(int, __openat64_2, dirfd, (int dirfd, const char* path, int flags),
        (dirfd, shown_path, flags))
CALL(ssize_t, __readlink_chk, (const char* path, char* text, size_t size, size_t room),
     (shown_path, text, size, room))
CALL_AT(ssize_t, __readlinkat_chk, dirfd,
        (int dirfd, const char* path, char* text, size_t size, size_t room),
        (dirfd, shown_path, text, size, room))

CALL(FILE*, fopen, (const char* path, const char* mode), (shown_path, mode))
CALL(FILE*, fopen64, (const char* path, const char* mode), (shown_path, mode))
CALL(FILE*, freopen, (const char* path, const char* mode, FILE* file), (shown_path, mode, file))
CALL(FILE*, freopen64, (const char* path, const char* mode, FILE* file), (shown_path, mode, file))

CALL(int, stat, (const char* path, struct stat* info), (shown_path, info))
CALL(int, stat64, (const char* path, struct stat64* info), (shown_path, info))
CALL(int, lstat, (const char* path, struct stat* info), (shown_path, info))
CALL(int, lstat64, (const char* path, struct stat64* info), (shown_path, info))
CALL_AT(int, fstatat, dirfd, (int dirfd, const char* path, struct stat* info, int flags),
        (dirfd, shown_path, info, flags))
CALL_AT(int, fstatat64, dirfd, (int dirfd, const char* path, struct stat64* info, int flags),
        (dirfd, shown_path, info, flags))
CALL_AT(int, statx, dirfd,
        (int dirfd, const char* path, int flags, unsigned mask, struct statx* info),
        (dirfd, shown_path, flags, mask, info))

/* Programs that were linked with a glibc before 2.33 call these. Their version is the kernel's. */
#define OLD_STAT(name, now, type)                                       \
  int name(int version, const char* path, type* info);                  \
  URMA_RUN_EXPORT int name(int version, const char* path, type* info) { \
    (void)version;                                                      \
    return now(path, info);                                             \
  }
OLD_STAT(__xstat, stat, struct stat)
OLD_STAT(__xstat64, stat64, struct stat64)
OLD_STAT(__lxstat, lstat, struct stat)
OLD_STAT(__lxstat64, lstat64, struct stat64)

#define OLD_FSTATAT(name, now, type)                                                          \
  int name(int version, int dirfd, const char* path, type* info, int flags);                  \
  URMA_RUN_EXPORT int name(int version, int dirfd, const char* path, type* info, int flags) { \
    (void)version;                                                                            \
    return now(dirfd, path, info, flags);                                                     \
  }
OLD_FSTATAT(__fxstatat, fstatat, struct stat)
OLD_FSTATAT(__fxstatat64, fstatat64, struct stat64)

CALL(int, statfs, (const char* path, struct statfs* info), (shown_path, info))
CALL(int, statfs64, (const char* path, struct statfs64* info), (shown_path, info))
CALL(int, statvfs, (const char* path, struct statvfs* info), (shown_path, info))
CALL(int, statvfs64, (const char* path, struct statvfs64* info), (shown_path, info))

CALL(int, access, (const char* path, int mode), (shown_path, mode))
CALL(int, eaccess, (const char* path, int mode), (shown_path, mode))
CALL(int, euidaccess, (const char* path, int mode), (shown_path, mode))
CALL_AT(int, faccessat, dirfd, (int dirfd, const char* path, int mode, int flags),
        (dirfd, shown_path, mode, flags))
CALL(ssize_t, readlink, (const char* path, char* text, size_t size), (shown_path, text, size))
CALL_AT(ssize_t, readlinkat, dirfd, (int dirfd, const char* path, char* text, size_t size),
        (dirfd, shown_path, text, size))
CALL(int, chdir, (const char* path), (shown_path))
CALL(ssize_t, getxattr, (const char* path, const char* name, void* value, size_t size),
     (shown_path, name, value, size))
CALL(ssize_t, lgetxattr, (const char* path, const char* name, void* value, size_t size),
     (shown_path, name, value, size))
CALL(ssize_t, listxattr, (const char* path, char* list, size_t size), (shown_path, list, size))
CALL(ssize_t, llistxattr, (const char* path, char* list, size_t size), (shown_path, list, size))
CALL(int, inotify_add_watch, (int fd, const char* path, uint32_t mask), (fd, shown_path, mask))

/* A path to a shown folder is returned as the program knows it. */
URMA_RUN_EXPORT char* realpath(const char* path, char* resolved) {
  char buffer[PATH_MAX], real[PATH_MAX];
  if (NEXT(realpath)(shown(AT_FDCWD, path, buffer), real) == NULL) return NULL;
  hide(real);
  return resolved == NULL ? strdup(real) : strcpy(resolved, real);
}

/* A buffer that is too small ends the program, as it does without this library. */
URMA_RUN_EXPORT char* __realpath_chk(const char* path, char* resolved, size_t room) {
  if (room < PATH_MAX) return NEXT(__realpath_chk)(path, resolved, room);
  return realpath(path, resolved);
}

URMA_RUN_EXPORT char* canonicalize_file_name(const char* path) { return realpath(path, NULL); }
