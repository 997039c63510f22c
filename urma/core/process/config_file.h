// SPDX-License-Identifier: MIT
//
// Files with settings: the operator's /etc/urma.conf, and the user's own.
#ifndef URMA_CORE_PROCESS_CONFIG_FILE_H_
#define URMA_CORE_PROCESS_CONFIG_FILE_H_

#include <string>
#include <vector>

namespace urma::core {

inline constexpr char kSystemConfig[] = "/etc/urma.conf";

// $XDG_CONFIG_HOME/urma.conf, else $HOME/.config/urma.conf; "" if neither variable has an absolute
// path.
std::string user_config_path();

struct ConfigLine {
  std::string name;
  std::string value;
  std::string place;  // path and number of the line, for people
};

struct ConfigFile {
  std::vector<ConfigLine> lines;
  std::vector<std::string> complaints;  // one for each line that is not a setting
};

// Reads lines NAME=value; skips blank lines and those that begin with #. A missing file, or the
// path "", has no lines. A file that others could have written (its owner is neither root nor this
// user, or all may write to it) is not read, with a complaint.
ConfigFile read_config_file(const std::string& path);

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_CONFIG_FILE_H_
