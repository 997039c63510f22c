// SPDX-License-Identifier: MIT
//
// SIGINT and SIGTERM, as something to wait for.
#ifndef TOOLS_PING_SIGNALS_H_
#define TOOLS_PING_SIGNALS_H_

#include <vector>

#include "tools/ping/settings.h"

namespace ping {

// Takes the signals from the process. Made before the library starts its threads, which else would
// be ended by them.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

  // Whether one of them has come.
  bool raised();
  // Waits until one of them comes, one of the descriptors becomes readable, or time is over.
  void wait(const std::vector<int>& fds, Clock::time_point until) const;

 private:
  int fd_;
  bool raised_ = false;
};

}  // namespace ping

#endif  // TOOLS_PING_SIGNALS_H_
