// SPDX-License-Identifier: MIT
//
// Functions of glibc without a declaration today: before 2.33, programs passed the number of the
// layout that they were compiled with.

#ifndef THIRD_PARTY_GLIBC_STAT_H_
#define THIRD_PARTY_GLIBC_STAT_H_

#include <sys/stat.h>

#ifdef __x86_64__
enum { kStatLayout = 1 };
#else
enum { kStatLayout = 0 };
#endif

int __xstat(int layout, const char* path, struct stat* out);
int __lxstat(int layout, const char* path, struct stat* out);
int __fxstat(int layout, int fd, struct stat* out);
int __fxstatat(int layout, int fd, const char* path, struct stat* out, int flags);
int __xmknod(int layout, const char* path, mode_t mode, dev_t* device);

#endif  // THIRD_PARTY_GLIBC_STAT_H_
