/* SPDX-License-Identifier: MIT */

#include "ofi/random.h"

#include <random>

namespace urma_fi {

uint64_t random_number() {
  static thread_local std::random_device device;
  const uint64_t high = device();
  return high << 32 | device();
}

}  // namespace urma_fi
