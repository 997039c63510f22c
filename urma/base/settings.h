// SPDX-License-Identifier: MIT
//
// Every URMA_* setting, in one table. Values come from the environment and from the files of
// operators, at each urma_init (log settings also when the library is loaded); a set-user-id
// program ignores them all.
#ifndef URMA_BASE_SETTINGS_H_
#define URMA_BASE_SETTINGS_H_

#include <cstdint>
#include <span>
#include <string>

namespace urma {

enum class SettingType { kString, kChoice, kNumber, kBool };

// One row of the table.
struct SettingRow {
  const char* name;
  SettingType type;
  const char* fallback;  // the value where the variable is not set
  const char* range;     // "a|b|c" for a choice, "min-max" for a number, else ""
  const char* help;
};

// The whole table, for the tools and the manual.
std::span<const SettingRow> setting_rows();

// The values that are in force.
class Settings {
 public:
  virtual ~Settings() = default;
  // The value's text: what the environment or a file says where it is valid, else the table's. The
  // name must stand in the table.
  virtual std::string text(const char* name) const = 0;
  virtual uint64_t number(const char* name) const = 0;
  virtual bool flag(const char* name) const = 0;
};

}  // namespace urma

#endif  // URMA_BASE_SETTINGS_H_
