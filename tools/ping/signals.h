// SPDX-License-Identifier: MIT
//
// SIGINT and SIGTERM as events to wait for.
#ifndef TOOLS_PING_SIGNALS_H_
#define TOOLS_PING_SIGNALS_H_

#include <vector>

#include "tools/ping/settings.h"

namespace ping {

// Takes the signals from the process. Construct it before the library starts its threads, which the
// signals would otherwise end.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

  // Whether one of them has come.
  bool raised();
  // Waits until a signal comes, a descriptor becomes readable, or time is up.
  void wait(const std::vector<int>& fds, Clock::time_point until) const;

 private:
  int fd_;
  bool raised_ = false;
};

}  // namespace ping

#endif  // TOOLS_PING_SIGNALS_H_
