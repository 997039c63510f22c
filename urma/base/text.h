// SPDX-License-Identifier: MIT
#ifndef URMA_BASE_TEXT_H_
#define URMA_BASE_TEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace urma {

// Copies into a field of a public struct: cut if longer, padded with zeros.
template <size_t Bytes>
void copy_text(char (&field)[Bytes], std::string_view text) {
  const size_t length = std::min(text.size(), Bytes - 1);
  std::memcpy(field, text.data(), length);
  std::memset(field + length, 0, Bytes - length);
}

}  // namespace urma

#endif  // URMA_BASE_TEXT_H_
