// SPDX-License-Identifier: MIT
//
// One step of a test of latency: a request, its completion, the answer.
#ifndef TOOLS_PERFTEST_LATENCY_LOOP_H_
#define TOOLS_PERFTEST_LATENCY_LOOP_H_

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "tools/perftest/clock.h"
#include "tools/perftest/pattern.h"
#include "tools/perftest/receiver.h"
#include "tools/perftest/requests.h"
#include "tools/perftest/session.h"
#include "tools/perftest/verified.h"

namespace perftest {

// The start times of the steps, and which of them count.
class Stamps {
 public:
  Stamps(const Session& session, uint64_t skipped, uint64_t counted);

  // Step `i` begins now. False: the time of -D is up.
  bool add(uint64_t i, uint64_t now) {
    if (!timed_ && i > skipped_) samples_[i - skipped_ - 1] = now - last_;
    last_ = now;
    if (now >= next_) [[unlikely]]
      return next_phase(i, now);
    return true;
  }
  // Makes room for the steps after `i`, some thousands at least: touching a new page takes as long
  // as a step.
  void make_room(uint64_t i);
  // Excludes this time from all steps.
  void leave_out(uint64_t duration) { last_ += duration; }
  // `steps` were begun in all. Fills in the results.
  void summarize(uint64_t steps, Row& row);

 private:
  static constexpr uint64_t kRoom = 1 << 20;

  bool next_phase(uint64_t i, uint64_t now);

  const Session& session_;
  const bool timed_;
  const uint64_t skipped_;
  const uint64_t counted_;
  std::vector<uint64_t> samples_;  // ticks between steps
  uint64_t last_ = 0;
  // With -D.
  uint64_t next_ = UINT64_MAX;
  uint64_t quarter_ = 0;
  int phase_ = 0;
  uint64_t from_ = 0, to_ = 0;  // ticks
  uint64_t first_ = 0, end_ = 0;
};

template <typename Post>
class LatencyLoop {
 public:
  // `receiver` is NULL if nothing is received, or if the last byte of a write shows its arrival.
  LatencyLoop(Session& session, uint32_t size, Receiver* receiver);

  // Return the number of steps begun; fewer than `steps` if ended early.
  uint64_t ping_pong(uint64_t steps, Stamps& stamps);
  uint64_t one_sided(uint64_t steps, Stamps& stamps);

 private:
  static constexpr uint32_t kLane = 0;
  static constexpr uint64_t kLookEvery = 4096;     // steps
  static constexpr double kLongestUnseenMs = 100;  // if steps take long

  bool look_due(uint64_t i, uint64_t now) const { return i % kLookEvery == 0 || now >= next_look_; }

  bool send(uint64_t i);
  bool await(uint64_t i);
  bool await_byte(uint8_t mark);
  bool await_arrival();
  bool take_completion();
  bool try_completion();
  bool look(uint64_t i, uint64_t steps, Stamps& stamps);
  void fill(uint64_t i);
  void prepare_one_sided(uint64_t i);
  void check_one_sided(uint64_t i);
  void check_arrival(uint64_t i);
  uint8_t mark(uint64_t i) const { return verify_ ? pattern_mark(i) : static_cast<uint8_t>(i + 1); }

  Session& session_;
  const uint32_t size_;
  const bool verify_, copies_;
  Receiver* const receiver_;
  urma_jetty_t* const jetty_;
  urma_jfs_t* const jfs_;
  const uint32_t window_, batch_;
  Requests requests_;
  uint8_t* const out_;
  uint8_t* const in_;
  uint32_t since_ = 0, under_way_ = 0, next_ = 0;
  const uint64_t look_ticks_ = ticks_of_ms(kLongestUnseenMs);
  uint64_t next_look_ = 0;  // ticks
};

template <typename Post>
LatencyLoop<Post>::LatencyLoop(Session& session, uint32_t size, Receiver* receiver)
    : session_(session),
      size_(size),
      verify_(session.config.verify),
      copies_(session.config.layout == Layout::kBcopy && session.config.api != Api::kAtomic),
      receiver_(receiver),
      jetty_(session.queues.send_jetty(kLane)),
      jfs_(session.queues.send_jfs(kLane)),
      window_(session.config.window),
      batch_(session.config.cq_mod),
      requests_(session, kLane, copies_ ? session.memory.staging_slots() : 1),
      out_(session.memory.out(kLane)),
      in_(session.memory.in(kLane)) {
  for (uint32_t i = 0; i < requests_.count(); i++) {
    const uint8_t* const from = copies_ ? session.memory.staging(kLane, i) : out_;
    requests_.aim(i, size, from, session.links[kLane].in);
    requests_.signal(i, true);
  }
}

template <typename Post>
uint64_t LatencyLoop<Post>::ping_pong(uint64_t steps, Stamps& stamps) {
  // The client sends the first message; but if bytes are polled, the server writes first.
  const bool first = session_.client() == (receiver_ != nullptr);
  if (receiver_ != nullptr && session_.sleeper.enabled()) {
    session_.sleeper.watch(session_.queues.arrived());
  }
  session_.watch.heed_users(true);
  for (uint64_t i = 0; i < steps; i++) {
    if (!first && !await(i)) return i;
    const uint64_t now = ticks();
    if (!stamps.add(i, now) || !send(i)) return i;
    // While the message is in flight.
    if (receiver_ != nullptr) receiver_->repost();
    if (under_way_ >= batch_) (void)try_completion();
    // The peer ends this size with its last answer: so does this side.
    if (first && i + 1 == steps) session_.watch.heed_users(false);
    if (first && !await(i)) return i;
    if (look_due(i, now) && !look(i, steps, stamps)) return i + 1;
  }
  while (under_way_ >= batch_) {
    if (!take_completion()) break;
  }
  return steps;
}

template <typename Post>
uint64_t LatencyLoop<Post>::one_sided(uint64_t steps, Stamps& stamps) {
  if (session_.sleeper.enabled()) session_.sleeper.watch(session_.queues.sent());
  for (uint64_t i = 0; i < steps; i++) {
    if (verify_) prepare_one_sided(i);
    const uint64_t now = ticks();
    if (!stamps.add(i, now) || !send(i)) return i;
    while (under_way_ >= batch_) {
      if (!take_completion()) return i;
    }
    if (verify_) check_one_sided(i);
    if (look_due(i, now) && !look(i, steps, stamps)) return i + 1;
  }
  return steps;
}

// The buffer is free: the message before was answered.
template <typename Post>
void LatencyLoop<Post>::fill(uint64_t i) {
  if (verify_) {
    fill_pattern(out_, size_, i, kLane);
  } else if (receiver_ == nullptr) {
    out_[size_ - 1] = mark(i);
  }
}

template <typename Post>
bool LatencyLoop<Post>::send(uint64_t i) {
  const Api api = session_.config.api;
  if (api == Api::kWrite || api == Api::kSend) fill(i);
  while (under_way_ == window_) {
    if (!take_completion()) return false;
  }
  if (copies_) {
    next_ = next_ + 1 < requests_.count() ? next_ + 1 : 0;
    std::memcpy(session_.memory.staging(kLane, next_), out_, size_);
  }
  if (batch_ > 1) {
    requests_.signal(next_, ++since_ == batch_);
    if (since_ == batch_) since_ = 0;
  }
  const urma_status_t status = Post::post(jetty_, jfs_, &requests_[next_]);
  if (status != URMA_SUCCESS) [[unlikely]]
    ok(status, "posting a request");
  under_way_++;
  return true;
}

template <typename Post>
bool LatencyLoop<Post>::await(uint64_t i) {
  const bool came = receiver_ != nullptr ? await_arrival() : await_byte(mark(i));
  if (came && verify_) check_arrival(i);
  return came;
}

// Only a poll continues what one post could not finish, such as a large message.
template <typename Post>
bool LatencyLoop<Post>::await_byte(uint8_t mark) {
  const bool polls = session_.config.poll_always;
  const uint32_t spins = polls ? 1 : session_.watch.spins();
  const volatile uint8_t* const last = in_ + size_ - 1;
  for (;;) {
    for (uint32_t i = 0; i < spins; i++) {
      if (*last == mark) {
        std::atomic_thread_fence(std::memory_order_acquire);
        session_.watch.busy();
        return true;
      }
    }
    if (polls) session_.serve_peer();
    if (under_way_ >= batch_) (void)try_completion();
    if (polls ? session_.watch.idle() : session_.watch.idle_after_spins()) return false;
  }
}

template <typename Post>
bool LatencyLoop<Post>::await_arrival() {
  while (receiver_->poll(1) == 0) {
    // The completion comes before the answer.
    if (under_way_ >= batch_ && try_completion()) continue;
    if (session_.sleeper.enabled() ? !session_.sleeper.sleep() : session_.watch.idle()) {
      return false;
    }
  }
  session_.watch.busy();
  return true;
}

template <typename Post>
bool LatencyLoop<Post>::take_completion() {
  const bool sleeps = session_.sleeper.enabled() && receiver_ == nullptr;
  while (!try_completion()) {
    if (sleeps ? !session_.sleeper.sleep() : session_.watch.idle()) return false;
  }
  session_.watch.busy();
  return true;
}

template <typename Post>
bool LatencyLoop<Post>::try_completion() {
  urma_cr_t record;
  if (Session::poll(session_.queues.sent(), 1, &record) == 0) return false;
  if (record.status != URMA_CR_SUCCESS) [[unlikely]]
    session_.failed(record);
  under_way_ -= batch_;
  return true;
}

template <typename Post>
bool LatencyLoop<Post>::look(uint64_t i, uint64_t steps, Stamps& stamps) {
  const uint64_t start = ticks();
  next_look_ = start + look_ticks_;
  stamps.make_room(i);
  session_.reporter.progress(i, session_.config.ends_by == EndsBy::kDuration ? 0 : steps);
  const bool stop = session_.watch.look_for_stop();
  stamps.leave_out(ticks() - start);
  return !stop;
}

// Memory that a READ fails to write must not look right.
template <typename Post>
void LatencyLoop<Post>::prepare_one_sided(uint64_t i) {
  if (session_.config.api == Api::kAtomic) {
    std::memset(out_, 0xff, size_);
    if (session_.config.atomic_type == AtomicType::kCas) {
      requests_[0].cas.cmp_data = i;
      requests_[0].cas.swap_data = i + 1;
    }
    return;
  }
  fill_pattern(out_, size_, 0, kLane);
  for (uint32_t at = 0; at < size_; at++) out_[at] = static_cast<uint8_t>(~out_[at]);
}

template <typename Post>
void LatencyLoop<Post>::check_one_sided(uint64_t i) {
  if (session_.config.api == Api::kAtomic) {
    check_counter(out_, i, "the value that request " + std::to_string(i) + " brought back");
  } else {
    const uint8_t* const came = copies_ ? session_.memory.staging(kLane, next_) : out_;
    check_pattern(came, size_, 0, kLane, "what was read by request " + std::to_string(i) + ", as");
  }
}

template <typename Post>
void LatencyLoop<Post>::check_arrival(uint64_t i) {
  if (receiver_ != nullptr) receiver_->check_last(session_.config.api == Api::kSend ? size_ : 0);
  check_pattern(in_, size_, i, kLane, "message");
}

}  // namespace perftest

#endif  // TOOLS_PERFTEST_LATENCY_LOOP_H_
