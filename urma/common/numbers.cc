// SPDX-License-Identifier: MIT
#include <strings.h>

#include <cerrno>
#include <charconv>
#include <limits>
#include <string_view>
#include <type_traits>

#include "urma/common/common.h"

namespace {

// Removes the base prefix of a number.
int base_of(std::string_view* digits) {
  if (digits->starts_with("0x") || digits->starts_with("0X")) {
    digits->remove_prefix(2);
    return 16;
  }
  return digits->size() > 1 && digits->front() == '0' ? 8 : 10;
}

template <typename Number>
int parse(const char* text, Number* value) {
  if (text == nullptr || value == nullptr) return -EINVAL;
  std::string_view digits = text;
  const bool negative = std::is_signed_v<Number> && digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  const int base = base_of(&digits);
  uint64_t size = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, size, base);
  if (error == std::errc::invalid_argument || stop != end) return -EINVAL;
  const uint64_t most = uint64_t{std::numeric_limits<Number>::max()} + (negative ? 1 : 0);
  if (error == std::errc::result_out_of_range || size > most) return -ERANGE;
  *value = static_cast<Number>(negative ? -size : size);
  return 0;
}

}  // namespace

int ub_str_to_bool(const char* text, bool* value) {
  if (text == nullptr || value == nullptr) return -EINVAL;
  for (const char* yes : {"true", "yes", "on", "1"}) {
    if (::strcasecmp(text, yes) == 0) return *value = true, 0;
  }
  for (const char* no : {"false", "no", "off", "0"}) {
    if (::strcasecmp(text, no) == 0) return *value = false, 0;
  }
  return -EINVAL;
}

int ub_str_to_int(const char* text, int* value) { return parse(text, value); }

int ub_str_to_u8(const char* text, uint8_t* value) { return parse(text, value); }

int ub_str_to_u16(const char* text, uint16_t* value) { return parse(text, value); }

int ub_str_to_u32(const char* text, uint32_t* value) { return parse(text, value); }

int ub_str_to_u64(const char* text, uint64_t* value) { return parse(text, value); }
