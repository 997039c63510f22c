// SPDX-License-Identifier: MIT
//
// fmt::format, implemented in one file: compiling it in each file that logs takes several times as
// long as the file itself.
#ifndef THIRD_PARTY_FMT_FORMAT_H_
#define THIRD_PARTY_FMT_FORMAT_H_

#include <fmt/core.h>

#include <span>
#include <string>

namespace urma {

std::string format_args(fmt::string_view format, fmt::format_args args);
// Into memory of the caller, without an ending zero. Returns the bytes written: what does not fit
// is cut off.
size_t format_into(std::span<char> text, fmt::string_view format, fmt::format_args args);

template <typename... Args>
std::string format(fmt::format_string<Args...> format, Args&&... args) {
  return format_args(format, fmt::make_format_args(args...));
}

}  // namespace urma

#endif  // THIRD_PARTY_FMT_FORMAT_H_
