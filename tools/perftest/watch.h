// SPDX-License-Identifier: MIT
//
// What ends a wait, apart from what is waited for: Ctrl-C, and a peer that has gone or has
// finished.
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

  // Whether the next that the peer says may be that its user wants to stop.
  void expect_quit(bool expect) { quit_may_come_ = expect; }

  // Whether the peer goes on in the exchange only after its part of the measurement: where it does
  // so and nothing arrives any more, it has stopped early.
  void expect_peer_to_finish(bool expect) { peer_finishes_ = expect; }

  // To be called when a poll was empty; looks around now and then. True: stop waiting. Throws
  // RunError where the peer has vanished.
  bool idle() { return idle_for(1); }
  // The same after so many of them.
  bool idle_for(uint32_t polls) {
    idle_ += polls;
    if (one_processor_ && idle_ % kTurn < polls) [[unlikely]]
      maybe_give_way();
    return idle_ % kPolls < polls && look();
  }
  // To be called when one was not.
  void busy() {
    idle_ = 0;
    finished_since_ns_ = 0;
    idle_since_ns_ = 0;
  }
  // Nothing need come for as long as it likes.
  void be_patient() { idle_since_ns_ = 0; }

  // The same after spins() looks at memory, which cost nothing: fewer of them where they keep the
  // peer from running.
  bool idle_after_spins() { return idle_for(one_processor_ ? kTurn : spins()); }
  uint32_t spins() const { return one_processor_ ? 2048 : 2 * kPolls; }

  // The look itself, for callers with a rhythm of their own: as idle(), and as often as it is
  // called.
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
  // Then nothing arrives while this process polls, until the kernel takes the processor away.
  const bool one_processor_;
  std::minstd_rand random_;
  bool peer_finishes_ = false;
  uint32_t idle_ = 0;
  uint64_t finished_since_ns_ = 0;
  uint64_t idle_since_ns_ = 0;
  bool stopped_ = false;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_WATCH_H_
