// SPDX-License-Identifier: MIT
//
// As in compatible.c.

#define _GNU_SOURCE
#include "third_party/glibc/stat.h"

#pragma GCC visibility push(hidden)

int fstat(int fd, struct stat* out) { return __fxstat(kStatLayout, fd, out); }
int fstat64(int, struct stat64*) __attribute__((alias("fstat")));
