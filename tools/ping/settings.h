// SPDX-License-Identifier: MIT
//
// The command line.
#ifndef TOOLS_PING_SETTINGS_H_
#define TOOLS_PING_SETTINGS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <variant>

#include "urma_api.h"

namespace ping {

using Clock = std::chrono::steady_clock;

inline constexpr uint32_t kMaxSize = 4096;

struct Settings {
  bool listen = false;
  urma_eid_t destination = {};  // unless listen
  std::optional<urma_eid_t> local;
  uint32_t count = UINT32_MAX;
  uint32_t size = 4;
  Clock::duration interval = std::chrono::seconds(1);
  Clock::duration deadline = {};                            // of the whole run; 0: none
  Clock::duration reply_timeout = std::chrono::seconds(1);  // 0: none
  bool quiet = false;
  bool verbose = false;
  bool json = false;
};

// Reads the command line. Returns an exit status if help or the version was requested, after
// printing it. Throws WrongInput.
std::variant<Settings, int> parse_settings(int argc, char** argv);

}  // namespace ping

#endif  // TOOLS_PING_SETTINGS_H_
