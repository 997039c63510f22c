// SPDX-License-Identifier: MIT
#ifndef URMA_BASE_RANDOM_H_
#define URMA_BASE_RANDOM_H_

#include <sys/random.h>

#include "urma/base/error.h"

namespace urma {

// Bits that nobody can guess. Throws Error.
template <typename Value>
Value random_value() {
  Value value;
  if (::getrandom(&value, sizeof(value), 0) != static_cast<ssize_t>(sizeof(value))) {
    fail_errno(URMA_FAIL, "asking for a random number");
  }
  return value;
}

}  // namespace urma

#endif  // URMA_BASE_RANDOM_H_
