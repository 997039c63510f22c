// SPDX-License-Identifier: MIT
#include "test/process/scarce_malloc.h"

#include <errno.h>
#include <stdlib.h>

extern "C" void* __libc_malloc(size_t size);

namespace urma_test {

std::atomic<int> until_one_fails{0};

}  // namespace urma_test

extern "C" void* malloc(size_t size) {
  using urma_test::until_one_fails;
  if (until_one_fails.load() > 0 && until_one_fails.fetch_sub(1) == 1) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(size);
}
