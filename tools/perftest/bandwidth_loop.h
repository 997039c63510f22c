// SPDX-License-Identifier: MIT
//
// The measuring loop of a test of bandwidth: posts, polls, looks at the clock.
#ifndef TOOLS_PERFTEST_BANDWIDTH_LOOP_H_
#define TOOLS_PERFTEST_BANDWIDTH_LOOP_H_

#include <algorithm>
#include <optional>
#include <vector>

#include "tools/perftest/clock.h"
#include "tools/perftest/receiver.h"
#include "tools/perftest/sender.h"
#include "tools/perftest/session.h"

namespace perftest {

// How many messages were moved in which time.
struct Span {
  uint64_t start = 0;  // ticks
  uint64_t end = 0;
  uint64_t before = 0;  // messages until `start`
  uint64_t until = 0;   // and until `end`
  // The same of each lane, where they are reported.
  std::vector<uint64_t> lanes_before = {}, lanes_until = {};

  uint64_t messages() const { return until - before; }
  double seconds() const { return static_cast<double>(end - start) / ticks_per_us() / 1e6; }
};

// What to count, and when. Both sides of a test have one; on a side that posts nothing, the counts
// are those of its arrivals.
class Schedule {
 public:
  // `total`: messages after which the test is done; 0: unknown. `lanes`: with
  // --enable_sync_stream those of the sender, which have rows of their own.
  Schedule(Session& session, const SendPlan& plan, EndsBy ends_by, uint64_t total,
           const std::vector<Lane>* lanes = nullptr);

  void start(uint64_t now);
  // Whether it is time for tick().
  bool due(uint64_t now) const { return now >= next_; }
  // Updates the marks. False: stop posting.
  bool tick(uint64_t now, uint64_t count);
  // Nothing more arrives.
  void finish(uint64_t now, uint64_t count);

  const Span& span() const { return span_; }
  // The figures of each lane in the span, if they have rows.
  void add_jetty_rows(Row& row) const;

 private:
  void begin_span(uint64_t now, uint64_t count);
  void end_span(uint64_t now, uint64_t count);
  std::vector<uint64_t> lane_counts() const;
  bool tick_duration(uint64_t now, uint64_t count);
  void tick_period(uint64_t now, uint64_t count);

  Session& session_;
  const SendPlan& plan_;
  const EndsBy ends_by_;
  const uint64_t total_;
  const std::vector<Lane>* const lanes_;
  Span span_;
  uint64_t next_ = 0;
  uint64_t measured_from_ = 0, measured_to_ = 0, stop_at_ = 0;
  uint64_t period_end_ = 0;
};

Bandwidth bandwidth_of(double bytes, uint64_t messages, double seconds);

// Messages in a tick: the best rate of 1, 2, 4 ... and of all batches that follow each other, from
// the first post to the last completion. The three are those of a Sender.
double best_rate(const std::vector<uint64_t>& posted_at, const std::vector<uint64_t>& completed_at,
                 const std::vector<uint64_t>& completed_until);

template <typename Post>
class BandwidthLoop {
 public:
  // `sender` and `receiver` are NULL if this side does not do that. `expected`: arrivals after
  // which the receiver is done, or kNoLimit.
  BandwidthLoop(Session& session, Sender<Post>* sender, Receiver* receiver, uint64_t expected,
                Schedule* schedule)
      : session_(session),
        sender_(sender),
        receiver_(receiver),
        expected_(expected),
        schedule_(schedule),
        may_sleep_(session.sleeper.enabled() && !session.config.rate_limited &&
                   !session.config.credit) {}

  // Returns whether all was done: false if Ctrl-C or the peer ended it early.
  bool run();

 private:
  bool move();
  bool wait();
  bool finished() const;
  bool sent_all() const { return stopping_ && all_posted_ && !sender_->waiting(); }
  bool nothing_more_comes();
  bool go_on();
  uint64_t count() const {
    return sender_ != nullptr ? sender_->completed() : receiver_->received();
  }

  Session& session_;
  Sender<Post>* const sender_;
  Receiver* const receiver_;
  const uint64_t expected_;
  Schedule* const schedule_;
  const bool may_sleep_;
  bool stopping_ = false;
  bool all_posted_ = false;
  bool goes_on_ = false;  // see go_on()
  uint64_t quiet_since_ = 0;
};

template <typename Post>
bool BandwidthLoop<Post>::run() {
  if (session_.sleeper.enabled()) {
    if (sender_ != nullptr) session_.sleeper.watch(session_.queues.sent());
    if (receiver_ != nullptr) session_.sleeper.watch(session_.queues.arrived());
  }
  session_.watch.heed_users(true);
  schedule_->start(ticks());
  bool complete = true;
  for (;;) {
    if (const uint64_t now = ticks(); !stopping_ && schedule_->due(now)) {
      stopping_ = !schedule_->tick(now, count());
      if (session_.watch.stopped() && !goes_on_ && !go_on()) {
        complete = false;
        break;
      }
    }
    const bool moved = move();
    if (finished()) break;
    if (moved) {
      session_.watch.busy();
      quiet_since_ = 0;
    } else if (!wait() && (goes_on_ || !go_on())) {
      complete = session_.config.ends_by == EndsBy::kDuration && !session_.watch.stopped();
      break;
    }
  }
  schedule_->finish(ticks(), count());
  return complete;
}

// Whether this side goes on though a user has ended the test: where messages are counted, both
// sides must agree on whether the size is complete. The sender stops if it has not posted all of
// them. A side that only receives tells it, and stops after it.
template <typename Post>
bool BandwidthLoop<Post>::go_on() {
  const bool counted = session_.two_sided() && session_.config.ends_by == EndsBy::kIterations;
  if (!counted || !session_.watch.stopped()) return false;
  if (sender_ == nullptr) {
    if (!session_.exchange.extended()) return false;
    session_.exchange.notify_quit();
  } else if (!sender_->posted_all()) {
    return false;
  }
  session_.watch.heed_users(false);
  goes_on_ = true;
  return true;
}

template <typename Post>
bool BandwidthLoop<Post>::move() {
  bool moved = false;
  if (sender_ != nullptr) {
    if (!stopping_) {
      moved = sender_->fill();
    } else if (!all_posted_) {
      all_posted_ = sender_->finish();
    }
    moved |= sender_->take();
  }
  if (receiver_ != nullptr) moved |= receiver_->take() > 0;
  return moved;
}

template <typename Post>
bool BandwidthLoop<Post>::finished() const {
  if (receiver_ != nullptr && receiver_->received() < expected_) return false;
  if (sender_ == nullptr) return true;
  return stopping_ ? sent_all() : sender_->done();
}

template <typename Post>
bool BandwidthLoop<Post>::wait() {
  const bool may_be_lost = session_.config.mode == URMA_TM_UM && sender_ != nullptr;
  const bool sent = sender_ != nullptr && (sent_all() || (may_be_lost && sender_->done()));
  if (sent && nothing_more_comes()) return false;
  // Lost messages wake nobody.
  if (may_be_lost && sent) return !session_.watch.idle();
  if (may_sleep_ && (receiver_ != nullptr || sender_->waiting())) return session_.sleeper.sleep();
  return !session_.watch.idle();
}

// Each side of a bidirectional test stops by its own clock, and then waits for the peer's messages
// in flight. In mode UM they may be lost.
template <typename Post>
bool BandwidthLoop<Post>::nothing_more_comes() {
  constexpr double kQuietMs = 200;
  const uint64_t now = ticks();
  if (quiet_since_ == 0) quiet_since_ = now;
  return now - quiet_since_ > ticks_of_ms(kQuietMs);
}

}  // namespace perftest

#endif  // TOOLS_PERFTEST_BANDWIDTH_LOOP_H_
