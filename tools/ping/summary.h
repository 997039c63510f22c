// SPDX-License-Identifier: MIT
//
// The counts while pinging, and their summary.
#ifndef TOOLS_PING_SUMMARY_H_
#define TOOLS_PING_SUMMARY_H_

#include <cstdint>
#include <map>
#include <string>

#include "tools/ping/settings.h"

namespace ping {

class Summary {
 public:
  void add_sent() { ++transmitted_; }
  void add_reply(double ms);
  void add_timeout() { ++timeouts_; }
  void add_error(int cr_status) { ++errors_[cr_status]; }

  uint32_t received() const { return received_; }

  // The lines of UMDK's tool. Those about round trips appear only if there was one.
  std::string text() const;
  std::string json(const Settings& settings, const std::string& local) const;

 private:
  double loss() const;
  double elapsed_ms() const;
  double average() const { return sum_ / received_; }
  double deviation() const;

  const Clock::time_point start_ = Clock::now();
  uint32_t transmitted_ = 0;
  uint32_t received_ = 0;
  uint32_t timeouts_ = 0;
  std::map<int, uint32_t> errors_;
  double min_ = 0;
  double max_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
};

}  // namespace ping

#endif  // TOOLS_PING_SUMMARY_H_
