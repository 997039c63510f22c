// SPDX-License-Identifier: MIT
//
// The asking side.
#ifndef TOOLS_PING_PINGER_H_
#define TOOLS_PING_PINGER_H_

#include <string>

#include "tools/ping/port.h"
#include "tools/ping/settings.h"
#include "tools/ping/signals.h"
#include "tools/ping/summary.h"

namespace ping {

// Sends numbered messages to the responder of one EID, one at a time.
class Pinger {
 public:
  Pinger(const Settings& settings, const Place& place, Signals* signals);

  // Pings until the count, the deadline or a signal is reached. Returns the exit status.
  int run();

 private:
  void ping_once();
  bool try_send();
  void take_records();
  void take_reply(const urma_cr_t& record);
  void take_sent(const urma_cr_t& record);
  void fail(int cr_status);
  void sleep(Clock::time_point until);
  bool ended() { return signals_->raised() || Clock::now() >= end_; }

  const Settings& settings_;
  Signals* const signals_;
  Port port_;
  Target target_;
  bool target_failed_ = false;  // replaced once nothing is in flight to it
  uint32_t under_way_ = 0;
  const std::string destination_;
  const Clock::time_point end_;
  Summary summary_;

  uint32_t seq_ = 0;  // of the packet that awaits a reply
  Clock::time_point sent_;
  bool is_sent_ = false;
  bool is_over_ = false;
};

}  // namespace ping

#endif  // TOOLS_PING_PINGER_H_
