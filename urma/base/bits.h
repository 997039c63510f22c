// SPDX-License-Identifier: MIT
#ifndef URMA_BASE_BITS_H_
#define URMA_BASE_BITS_H_

#include <cstdint>
#include <cstring>

namespace urma {

// The bits of an enum that a caller filled in: reading a value that is not an enumerator as its
// enum would be undefined.
template <typename Enum>
uint32_t bits_of(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(uint32_t));
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace urma

#endif  // URMA_BASE_BITS_H_
