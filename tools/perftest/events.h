// SPDX-License-Identifier: MIT
//
// Sleeping until completions come (-e).
#ifndef TOOLS_PERFTEST_EVENTS_H_
#define TOOLS_PERFTEST_EVENTS_H_

#include <vector>

#include "tools/perftest/config.h"
#include "tools/perftest/queues.h"
#include "tools/perftest/watch.h"

namespace perftest {

class Sleeper {
 public:
  Sleeper(const Config& config, const Queues& queues, Watch& watch)
      : config_(config), queues_(queues), watch_(watch) {}

  bool enabled() const { return config_.events; }

  // The queues were made anew.
  void forget() { unarmed_.clear(); }

  // The following sleeps end with completions of this queue.
  void watch(urma_jfc_t* jfc) { unarmed_.push_back(jfc); }

  // Sleeps until a queue has completions, and acknowledges the event; poll it then. False: stop
  // waiting, see Watch. Throws RunError if no event comes within --wait_jfc_timeout.
  bool sleep();

 private:
  void arm();

  const Config& config_;
  const Queues& queues_;
  Watch& watch_;
  // Armed only before sleeping: completions found by polling cost no event.
  std::vector<urma_jfc_t*> unarmed_;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_EVENTS_H_
