// SPDX-License-Identifier: MIT
//
// What the headers and the compiler of this machine expect of glibc, and older ones lack.

#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "third_party/glibc/stat.h"

// Each library and program has its own.
#pragma GCC visibility push(hidden)

// glibc 2.32: whether atomic operations can be left out.
char __libc_single_threaded = 0;

// glibc 2.33. fstat() is alone: tools/run/preload defines these.
int stat(const char* path, struct stat* out) { return __xstat(kStatLayout, path, out); }
int lstat(const char* path, struct stat* out) { return __lxstat(kStatLayout, path, out); }
int fstatat(int fd, const char* path, struct stat* out, int flags) {
  return __fxstatat(kStatLayout, fd, path, out, flags);
}
int mknod(const char* path, mode_t mode, dev_t device) { return __xmknod(0, path, mode, &device); }

// The layout is the same where files of any size are the default.
int stat64(const char*, struct stat64*) __attribute__((alias("stat")));
int lstat64(const char*, struct stat64*) __attribute__((alias("lstat")));
int fstatat64(int, const char*, struct stat64*, int) __attribute__((alias("fstatat")));

// glibc 2.34. Linux knows the call since 5.9.
void closefrom(int first) {
  if (syscall(SYS_close_range, first, ~0U, 0) == 0) return;
  struct rlimit limit = {0};
  getrlimit(RLIMIT_NOFILE, &limit);
  for (rlim_t fd = first; fd < limit.rlim_cur; ++fd) close(fd);
}

// glibc 2.36.
uint32_t arc4random(void) {
  uint32_t value;
  if (getrandom(&value, sizeof value, 0) != sizeof value) abort();
  return value;
}
