/* SPDX-License-Identifier: MIT
 *
 * Calls of libc that list folders. One more entry comes behind the last of a folder to which one is
 * added.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/run/preload/shown.h"

/* Both forms of an entry are the same here, so one list serves the functions of both names. */
_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "one form of entries");
_Static_assert(offsetof(struct dirent, d_name) == offsetof(struct dirent64, d_name),
               "one form of entries");

/* Folders whose additional entry was returned. With more of them open at once, the others show
 * none: nothing is allocated here, since a child of a fork may be listing. */
enum { kMostListed = 256 };
static struct listed {
  DIR* folder;
  struct dirent entry;
} listed[kMostListed];

static struct listed* find(DIR* folder) {
  for (int i = 0; i < kMostListed; ++i) {
    if (__atomic_load_n(&listed[i].folder, __ATOMIC_SEQ_CST) == folder) return &listed[i];
  }
  return NULL;
}

static void forget(DIR* folder) {
  struct listed* place = find(folder);
  if (place != NULL) __atomic_store_n(&place->folder, NULL, __ATOMIC_SEQ_CST);
}

static struct listed* take(DIR* folder) {
  for (int i = 0; i < kMostListed; ++i) {
    DIR* none = NULL;
    if (__atomic_compare_exchange_n(&listed[i].folder, &none, folder, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST)) {
      return &listed[i];
    }
  }
  return NULL;
}

/* The entry to return at the end of a folder, or NULL. errno stays. */
static struct dirent* one_more(DIR* folder) {
  const int code = errno;
  struct stat info, there;
  struct dirent* entry = NULL;
  const int fd = dirfd(folder);
  const char* name = fd >= 0 && fstat(fd, &info) == 0 ? added_entry(&info) : NULL;
  /* A real entry was listed already. */
  if (name != NULL && find(folder) == NULL && NEXT(fstatat)(fd, name, &there, 0) != 0) {
    struct listed* place = take(folder);
    if (place != NULL) {
      entry = &place->entry;
      memset(entry, 0, sizeof *entry);
      entry->d_ino = 1;
      entry->d_reclen = sizeof *entry;
      entry->d_type = DT_DIR;
      strcpy(entry->d_name, name);
    }
  }
  errno = code;
  return entry;
}

URMA_RUN_EXPORT DIR* opendir(const char* path) {
  char buffer[PATH_MAX];
  return NEXT(opendir)(shown(AT_FDCWD, path, buffer));
}

URMA_RUN_EXPORT struct dirent* readdir(DIR* folder) {
  const int code = errno;
  errno = 0;
  struct dirent* entry = NEXT(readdir)(folder);
  if (entry == NULL && errno == 0) entry = one_more(folder);
  if (errno == 0) errno = code;
  return entry;
}

URMA_RUN_EXPORT struct dirent64* readdir64(DIR* folder) {
  return (struct dirent64*)readdir(folder);
}

/* Old programs call these two. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
URMA_RUN_EXPORT int readdir_r(DIR* folder, struct dirent* entry, struct dirent** result) {
  const int status = NEXT(readdir_r)(folder, entry, result);
  if (status != 0 || *result != NULL) return status;
  const struct dirent* more = one_more(folder);
  if (more != NULL) *result = memcpy(entry, more, sizeof *entry);
  return 0;
}

URMA_RUN_EXPORT int readdir64_r(DIR* folder, struct dirent64* entry, struct dirent64** result) {
  return readdir_r(folder, (struct dirent*)entry, (struct dirent**)result);
}

URMA_RUN_EXPORT void rewinddir(DIR* folder) {
  forget(folder);
  NEXT(rewinddir)(folder);
}

URMA_RUN_EXPORT int closedir(DIR* folder) {
  forget(folder);
  return NEXT(closedir)(folder);
}

typedef int (*filter_t)(const struct dirent*);
typedef int (*order_t)(const struct dirent**, const struct dirent**);

static int compare(const void* a, const void* b, void* order) {
  return (*(order_t*)order)((const struct dirent**)a, (const struct dirent**)b);
}

struct names {
  struct dirent** entries;
  size_t count, room;
};

static bool append(struct names* names, const struct dirent* entry) {
  if (names->count == names->room) {
    const size_t room = names->room == 0 ? 16 : names->room * 2;
    struct dirent** more = realloc(names->entries, room * sizeof *more);
    if (more == NULL) return false;
    names->entries = more;
    names->room = room;
  }
  const size_t size = offsetof(struct dirent, d_name) + strlen(entry->d_name) + 1;
  struct dirent* copy = malloc(size);
  if (copy == NULL) return false;
  names->entries[names->count++] = memcpy(copy, entry, size);
  return true;
}

static bool collect(DIR* folder, filter_t filter, struct names* names) {
  const struct dirent* entry;
  while (errno = 0, (entry = readdir(folder)) != NULL) {
    if ((filter == NULL || filter(entry) != 0) && !append(names, entry)) return false;
  }
  return errno == 0;
}

URMA_RUN_EXPORT int scandirat(int dirfd, const char* path, struct dirent*** list, filter_t filter,
                              order_t order) {
  const int code = errno;
  const int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* folder = fd < 0 ? NULL : fdopendir(fd);
  if (folder == NULL) {
    if (fd >= 0) close(fd);
    return -1;
  }
  struct names names = {NULL, 0, 0};
  const bool complete = collect(folder, filter, &names);
  const int failed = errno;
  closedir(folder);
  if (!complete) {
    while (names.count > 0) free(names.entries[--names.count]);
    free(names.entries);
    errno = failed;
    return -1;
  }
  if (order != NULL && names.count > 1) {
    qsort_r(names.entries, names.count, sizeof *names.entries, compare, &order);
  }
  errno = code;
  *list = names.entries;
  return (int)names.count;
}

URMA_RUN_EXPORT int scandir(const char* path, struct dirent*** list, filter_t filter,
                            order_t order) {
  return scandirat(AT_FDCWD, path, list, filter, order);
}

typedef int (*filter64_t)(const struct dirent64*);
typedef int (*order64_t)(const struct dirent64**, const struct dirent64**);

URMA_RUN_EXPORT int scandirat64(int dirfd, const char* path, struct dirent64*** list,
                                filter64_t filter, order64_t order) {
  return scandirat(dirfd, path, (struct dirent***)list, (filter_t)filter, (order_t)order);
}

URMA_RUN_EXPORT int scandir64(const char* path, struct dirent64*** list, filter64_t filter,
                              order64_t order) {
  return scandirat64(AT_FDCWD, path, list, filter, order);
}

/* glob() takes functions to call in place of its own. */
static void* open_for_glob(const char* path) { return opendir(path); }
static struct dirent* read_for_glob(void* folder) { return readdir(folder); }
static void close_for_glob(void* folder) { closedir(folder); }

URMA_RUN_EXPORT int glob(const char* pattern, int flags, int (*failed)(const char*, int),
                         glob_t* found) {
  if ((flags & GLOB_ALTDIRFUNC) == 0) {
    found->gl_opendir = open_for_glob;
    found->gl_readdir = read_for_glob;
    found->gl_closedir = close_for_glob;
    found->gl_stat = stat;
    found->gl_lstat = lstat;
  }
  return NEXT(glob)(pattern, flags | GLOB_ALTDIRFUNC, failed, found);
}

URMA_RUN_EXPORT int glob64(const char* pattern, int flags, int (*failed)(const char*, int),
                           glob64_t* found) {
  return glob(pattern, flags, failed, (glob_t*)found);
}
