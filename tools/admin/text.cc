// SPDX-License-Identifier: MIT
#include "tools/admin/text.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>

#include "third_party/fmt/format.h"

namespace admin {

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const auto& cell : header_) widths.push_back(cell.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += urma::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line(header_);
  std::vector<std::string> dashes;
  dashes.reserve(widths.size());
  for (const size_t width : widths) dashes.emplace_back(width, '-');
  add_line(dashes);
  for (const auto& row : rows_) add_line(row);
  return text;
}

std::string printable(const char* text, size_t room) {
  std::string result(text, ::strnlen(text, room));
  std::replace_if(
      result.begin(), result.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
  return result;
}

std::string eid_text(const urma_eid_t& eid) {
  char text[URMA_EID_STR_LEN + 1];
  std::snprintf(text, sizeof text, EID_FMT, EID_ARGS(eid));
  return text;
}

std::vector<std::string> bit_names(uint32_t value,
                                   const std::function<const char*(uint8_t)>& name) {
  std::vector<std::string> names;
  for (uint8_t bit = 0; bit < 32; ++bit) {
    if ((value >> bit & 1) != 0) names.emplace_back(name(bit));
  }
  return names;
}

std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const auto& word : words) {
    if (&word != &words.front()) text += separator;
    text += word;
  }
  return text;
}

}  // namespace admin
