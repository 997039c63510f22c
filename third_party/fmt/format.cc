// SPDX-License-Identifier: MIT
//
// The only file with fmt's own code, so that nothing needs libfmt at run time.
#define FMT_HEADER_ONLY
#include "third_party/fmt/format.h"

#include <fmt/format.h>

#include <algorithm>

namespace urma {

std::string format_args(fmt::string_view format, fmt::format_args args) {
  return fmt::vformat(format, args);
}

size_t format_into(std::span<char> text, fmt::string_view format, fmt::format_args args) {
  const auto end = fmt::vformat_to_n(text.data(), text.size(), format, args);
  return std::min(end.size, text.size());
}

}  // namespace urma
