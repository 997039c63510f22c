// SPDX-License-Identifier: MIT
//
// Every URMA_* setting, in one table. Values come from the environment and from configuration
// files, at each urma_init (log settings also when the library is loaded); a set-user-id program
// ignores them all.
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
  const char* fallback;  // the value if the variable is not set
  const char* range;     // "a|b|c" for a choice, "min-max" for a number, else ""
  const char* help;
};

// The whole table, for the tools and the manual.
std::span<const SettingRow> setting_rows();

// The values that are in force.
class Settings {
 public:
  virtual ~Settings() = default;
  // The text of the value: from the environment or a file if valid, else from the table. The name
  // must be in the table.
  virtual std::string text(const char* name) const = 0;
  virtual uint64_t number(const char* name) const = 0;
  virtual bool flag(const char* name) const = 0;
};

}  // namespace urma

#endif  // URMA_BASE_SETTINGS_H_
