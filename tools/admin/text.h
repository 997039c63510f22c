// SPDX-License-Identifier: MIT
//
// Text for people: columns, lists of words, bits with names.
#ifndef TOOLS_ADMIN_TEXT_H_
#define TOOLS_ADMIN_TEXT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "urma_types.h"

namespace admin {

// Lines of cells under a header; each column is as wide as its widest cell.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  std::string text() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

// The text in a struct from another process: it may lack its end, and may contain terminal escapes.
std::string printable(const char* text, size_t room);

std::string eid_text(const urma_eid_t& eid);

// The names of the bits that are set in `value`, lowest first.
std::vector<std::string> bit_names(uint32_t value, const std::function<const char*(uint8_t)>& name);

std::string joined(const std::vector<std::string>& words, const char* separator);

}  // namespace admin

#endif  // TOOLS_ADMIN_TEXT_H_
