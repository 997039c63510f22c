/* SPDX-License-Identifier: MIT */
#include "tools/run/preload/shown.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct entry {
  const char* folder;
  const char* name;
};

static const struct entry kEntries[] = {{"/sys/class", "ubcore"}, {"/dev", "uburma"}};
enum { kEntryCount = sizeof kEntries / sizeof kEntries[0] };

/* In place of functions that glibc has since 2.33. The structures are those of the kernel. */
static int stat_by_kernel(const char* path, struct stat* info) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, 0);
}
static int lstat_by_kernel(const char* path, struct stat* info) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW);
}
static int fstatat_by_kernel(int dirfd, const char* path, struct stat* info, int flags) {
  return (int)syscall(SYS_newfstatat, dirfd, path, info, flags);
}

static const struct {
  const char* name;
  void* function;
} kByKernel[] = {
    {"stat", (void*)stat_by_kernel},       {"stat64", (void*)stat_by_kernel},
    {"lstat", (void*)lstat_by_kernel},     {"lstat64", (void*)lstat_by_kernel},
    {"fstatat", (void*)fstatat_by_kernel}, {"fstatat64", (void*)fstatat_by_kernel},
};

void* next_function(void** place, const char* name) {
  void* next = __atomic_load_n(place, __ATOMIC_SEQ_CST);
  if (next != NULL) return next;
  next = dlsym(RTLD_NEXT, name);
  for (size_t i = 0; next == NULL && i < sizeof kByKernel / sizeof kByKernel[0]; ++i) {
    if (strcmp(name, kByKernel[i].name) == 0) next = kByKernel[i].function;
  }
  __atomic_store_n(place, next, __ATOMIC_SEQ_CST);
  return next;
}

static bool same(const struct stat* a, const struct stat* b) {
  return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

static const char* view(void) {
  const char* path = getenv("URMA_RUN_VIEW");
  return path != NULL && path[0] == '/' ? path : NULL;
}

/* Whether this text, with what stands twice or for nothing left out, is this folder: for one that
 * does not exist, as /sys/class in some containers. */
static bool spells(const char* text, const char* folder) {
  if (*text != '/') return false;
  for (;;) {
    while (text[0] == '/' || (text[0] == '.' && (text[1] == '/' || text[1] == '\0'))) ++text;
    if (*folder == '\0') return *text == '\0';
    ++folder;
    const size_t length = strcspn(folder, "/");
    if (strncmp(text, folder, length) != 0 || (text[length] != '/' && text[length] != '\0')) {
      return false;
    }
    text += length;
    folder += length;
  }
}

/* Whether the text is a path of the entry's folder. The kernel finds its way through links. */
static bool leads_to_folder(int dirfd, const char* text, const struct entry* entry) {
  struct stat here, folder;
  if (NEXT(stat)(entry->folder, &folder) != 0) return spells(text, entry->folder);
  return NEXT(fstatat)(dirfd, *text == '\0' ? "." : text, &here, 0) == 0 && same(&here, &folder);
}

/* Whether the path is one of the entry, whose name is at `at`. */
static bool is_shown(int dirfd, const char* path, const char* at, const struct entry* entry) {
  const size_t length = strlen(entry->name), before = (size_t)(at - path);
  if ((at[length] != '/' && at[length] != '\0') || (before > 0 && at[-1] != '/')) return false;
  char folder[PATH_MAX];
  if (before >= sizeof folder) return false;
  memcpy(folder, path, before);
  folder[before] = '\0';
  return leads_to_folder(dirfd, folder, entry);
}

const char* added_entry(const struct stat* folder) {
  if (view() == NULL) return NULL;
  for (int i = 0; i < kEntryCount; ++i) {
    struct stat there;
    if (NEXT(stat)(kEntries[i].folder, &there) == 0 && same(&there, folder)) {
      return kEntries[i].name;
    }
  }
  return NULL;
}

const char* shown(int dirfd, const char* path, char buffer[PATH_MAX]) {
  if (path == NULL || view() == NULL) return path;
  const int code = errno;
  const char* result = path;
  for (int i = 0; i < kEntryCount && result == path; ++i) {
    const struct entry* entry = &kEntries[i];
    const size_t length = strlen(entry->name);
    for (const char* at = path; (at = strstr(at, entry->name)) != NULL; at += length) {
      if (!is_shown(dirfd, path, at, entry)) continue;
      /* The dot follows the link that the folder may be. */
      const int made = snprintf(buffer, PATH_MAX, "%s/%s/.%s", view(), entry->name, at + length);
      if (made < PATH_MAX) result = buffer;
      break;
    }
  }
  errno = code;
  return result;
}

void hide(char* path) {
  const int code = errno;
  for (int i = 0; i < kEntryCount && view() != NULL; ++i) {
    char place[PATH_MAX], real[PATH_MAX], known[PATH_MAX];
    snprintf(place, sizeof place, "%s/%s", view(), kEntries[i].name);
    if (NEXT(realpath)(place, real) == NULL) continue;
    const size_t length = strlen(real);
    if (strncmp(path, real, length) != 0 || (path[length] != '/' && path[length] != '\0')) continue;
    const int made = snprintf(known, sizeof known, "%s/%s%s", kEntries[i].folder, kEntries[i].name,
                              path + length);
    if (made < PATH_MAX) memcpy(path, known, (size_t)made + 1);
    break;
  }
  errno = code;
}
