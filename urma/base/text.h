// SPDX-License-Identifier: MIT
#ifndef URMA_BASE_TEXT_H_
#define URMA_BASE_TEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

namespace urma {

// Copies into a field of a public struct: cut if longer, padded with zeros.
template <size_t Bytes>
void copy_text(char (&field)[Bytes], std::string_view text) {
  const size_t length = std::min(text.size(), Bytes - 1);
  std::memcpy(field, text.data(), length);
  std::memset(field + length, 0, Bytes - length);
}

// At least one part, which may be empty.
inline std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    parts.push_back(text.substr(0, text.find(',')));
    if (parts.back().size() == text.size()) return parts;
    text.remove_prefix(parts.back().size() + 1);
  }
}

}  // namespace urma

#endif  // URMA_BASE_TEXT_H_
