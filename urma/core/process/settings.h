// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_SETTINGS_H_
#define URMA_CORE_PROCESS_SETTINGS_H_

#include <string>
#include <vector>

#include "urma/base/mutex.h"
#include "urma/base/settings.h"
#include "urma_ext.h"

namespace urma::core {

// The settings as the environment and the files of operators gave them at the last load().
class EnvSettings final : public Settings {
 public:
  EnvSettings();

  // Reads the environment, then the user's file, then the system's: the first that names a setting
  // counts. Returns one line for each value that is not allowed, whose setting then has its
  // fallback, and for each fault of a file.
  std::vector<std::string> load();

  // Makes the next load() read another file instead of kSystemConfig.
  void read_system_config(std::string path) { system_config_ = std::move(path); }

  // Sets the value in force instead of the requested one, until the next load().
  void put_in_force(const char* name, const std::string& text);

  std::string text(const char* name) const override;
  uint64_t number(const char* name) const override;
  bool flag(const char* name) const override;

  // One for each row of the table.
  std::vector<urma_ext_setting_t> report() const;

 private:
  struct Value {
    std::string text;  // in the form that is compared
    urma_ext_origin_t origin = URMA_EXT_ORIGIN_DEFAULT;
    std::string refused;  // a given value that is not allowed
  };
  struct Source;

  static std::vector<Source> read_files(const std::string& system_config,
                                        std::vector<std::string>* complaints);
  static Value decide(const SettingRow& row, const std::vector<Source>& files,
                      std::vector<std::string>* complaints);

  std::string system_config_;
  mutable Mutex mutex_;
  std::vector<Value> values_ URMA_GUARDED_BY(mutex_);  // one for each row of the table
};

// The settings of the process.
EnvSettings& settings();

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_SETTINGS_H_
