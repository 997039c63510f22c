// SPDX-License-Identifier: MIT
//
// What else ends a wait: Ctrl-C, and a peer that is gone or has finished.
#ifndef TOOLS_PERFTEST_WATCH_H_
#define TOOLS_PERFTEST_WATCH_H_

#include <cstdint>
#include <random>

#include "tools/perftest/config.h"
#include "tools/perftest/exchange.h"

namespace perftest {

class Watch {
 public:
  Watch(const Config& config, Exchange& exchange);

  // Whether the peer's next message may be a quit notice.
  void expect_quit(bool expect) { quit_may_come_ = expect; }

  // Whether the peer continues the exchange only after its part of the measurement: if it does, and
  // nothing more arrives, it has stopped early.
  void expect_peer_to_finish(bool expect) { peer_finishes_ = expect; }

  // Whether waits end once a user has ended the test.
  void heed_users(bool heed) { heeds_users_ = heed; }

  // Call after an empty poll; checks now and then. True: stop waiting. Throws RunError if the peer
  // has vanished.
  bool idle() { return idle_for(1); }
  // The same after that many empty polls.
  bool idle_for(uint32_t polls) {
    idle_ += polls;
    if (one_processor_ && idle_ % kTurn < polls) [[unlikely]]
      maybe_give_way();
    return idle_ % kPolls < polls && look();
  }
  // Call after a poll that was not empty.
  void busy() {
    idle_ = 0;
    finished_since_ns_ = 0;
    idle_since_ns_ = 0;
  }
  // Allows any wait for the next arrival.
  void be_patient() { idle_since_ns_ = 0; }

  // The same after spins() reads of memory, which are cheap: fewer if they keep the peer from
  // running.
  bool idle_after_spins() { return idle_for(one_processor_ ? kTurn : spins()); }
  uint32_t spins() const { return one_processor_ ? 2048 : 2 * kPolls; }

  // The check itself, for callers with their own rhythm: like idle(), but on every call.
  bool look();
  // The same between two messages: only the user can end the test there.
  bool look_for_stop() {
    (void)look();
    return stopped_;
  }

  // Whether the user ended the test, here or at the peer.
  bool stopped() const { return stopped_; }

 private:
  static constexpr uint32_t kPolls = 4096;
  static constexpr uint32_t kTurn = 32;  // polls

  void maybe_give_way();
  bool peer_has_finished();
  void check_stall();

  Exchange& exchange_;
  bool quit_may_come_;
  const bool patient_;
  // While this process polls, nothing arrives until the kernel preempts it.
  const bool one_processor_;
  std::minstd_rand random_;
  bool peer_finishes_ = false;
  uint32_t idle_ = 0;
  uint64_t finished_since_ns_ = 0;
  uint64_t idle_since_ns_ = 0;
  bool stopped_ = false;
  bool heeds_users_ = true;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_WATCH_H_
