// SPDX-License-Identifier: MIT
//
// Posts the requests of a test of bandwidth as fast as their completions come back.
#ifndef TOOLS_PERFTEST_SENDER_H_
#define TOOLS_PERFTEST_SENDER_H_

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "tools/perftest/clock.h"
#include "tools/perftest/credit.h"
#include "tools/perftest/pacing.h"
#include "tools/perftest/requests.h"
#include "tools/perftest/session.h"

namespace perftest {

constexpr uint64_t kNoLimit = UINT64_MAX;

// The requests of one jetty, for one size.
struct Lane {
  urma_jetty_t* jetty;
  urma_jfs_t* jfs;
  uint32_t index;
  std::unique_ptr<Requests> requests;
  uint32_t next = 0;   // request to post, if posted in turn
  uint32_t since = 0;  // requests since the last signalled one
  uint32_t due = 0;    // completions to come
  uint64_t posted = 0;
  uint64_t completed = 0;
  uint64_t finished_at = 0;  // when the last one completed
};

// The sequence of sizes and buffers of a lane. Precomputed for the loops.
class SendPlan {
 public:
  SendPlan(const Session& session, uint32_t size);

  uint32_t window;  // requests of a lane that may be in flight
  uint32_t list;    // posted per call
  uint32_t batch;   // requests per signalled one
  bool in_turn;     // requests differ, so each is posted in turn
  bool copies;      // each goes out of its own staging buffer

  Lane make_lane(const Session& session, uint32_t index) const;
  // Of the first `messages` messages of a lane.
  uint64_t bytes(uint64_t messages) const;

 private:
  uint32_t size_of(uint32_t index) const { return sizes_[index % sizes_.size()]; }

  uint32_t requests_;  // of a lane
  std::vector<uint32_t> sizes_;
  std::vector<uint64_t> bytes_before_;  // of the messages before each of `sizes_`, and of all
};

template <typename Post>
class Sender {
 public:
  // Each lane posts `limit` requests.
  Sender(Session& session, const SendPlan& plan, uint64_t limit, CreditTaken* credit_taken,
         CreditGiven* credit_given, bool keep_times);

  // Posts as much as there is room for. True if there was any.
  bool fill();
  // Takes completions. True if there were any.
  bool take();
  // Replaces fill() to end without a limit: posts only what makes all posted requests complete.
  // False: no room for that yet.
  bool finish();

  bool done() const { return due_ == 0 && completed() == limit_ * lanes_.size(); }
  bool waiting() const { return due_ > 0; }
  bool posted_all() const {
    return std::all_of(lanes_.begin(), lanes_.end(),
                       [this](const Lane& lane) { return lane.posted == limit_; });
  }
  uint64_t completed() const { return completed_; }
  const std::vector<Lane>& lanes() const { return lanes_; }
  // With keep_times: when the first request of each batch was posted, when the batch completed, and
  // how many requests had completed by then. The last batch of a lane may be short.
  const std::vector<uint64_t>& posted_at() const { return posted_at_; }
  const std::vector<uint64_t>& completed_at() const { return completed_at_; }
  const std::vector<uint64_t>& completed_until() const { return completed_until_; }

 private:
  uint64_t room(const Lane& lane);
  void fill(Lane& lane, uint64_t room);
  void post_same(Lane& lane, uint64_t room);
  void post_in_turn(Lane& lane, uint64_t room);
  void post_lists(Lane& lane, uint64_t room);
  void stage(Lane& lane, uint32_t index);
  void complete(const urma_cr_t& record);
  void post(const Lane& lane, urma_jfs_wr_t* wr) {
    const urma_status_t status = Post::post(lane.jetty, lane.jfs, wr);
    if (status != URMA_SUCCESS) [[unlikely]]
      ok(status, "posting a request");
  }
  void signalled(Lane& lane) {
    lane.since = 0;
    lane.due++;
    due_++;
  }
  void starts_batch() {
    if (keep_times_) posted_at_.push_back(ticks());
  }

  Session& session_;
  const SendPlan& plan_;
  const uint64_t limit_;
  CreditTaken* const credit_taken_;
  CreditGiven* const credit_given_;
  const bool keep_times_;
  std::unique_ptr<Pacer> pacer_;
  std::vector<Lane> lanes_;
  uint32_t due_ = 0;
  uint64_t completed_ = 0;
  std::vector<uint64_t> posted_at_, completed_at_, completed_until_;
};

template <typename Post>
Sender<Post>::Sender(Session& session, const SendPlan& plan, uint64_t limit,
                     CreditTaken* credit_taken, CreditGiven* credit_given, bool keep_times)
    : session_(session),
      plan_(plan),
      limit_(limit),
      credit_taken_(credit_taken),
      credit_given_(credit_given),
      keep_times_(keep_times) {
  const Config& config = session.config;
  for (uint32_t i = 0; i < config.jettys; i++) lanes_.push_back(plan.make_lane(session, i));
  if (keep_times && limit != kNoLimit) {
    const uint64_t batches = (limit / plan.batch + 1) * lanes_.size();
    posted_at_.reserve(batches);
    completed_at_.reserve(batches);
    completed_until_.reserve(batches);
  }
  if (config.rate_limited) {
    constexpr uint64_t kMany = 1 << 20;
    pacer_ = std::make_unique<Pacer>(config, static_cast<double>(plan.bytes(kMany)) / kMany);
  }
}

template <typename Post>
uint64_t Sender<Post>::room(const Lane& lane) {
  uint64_t room = plan_.window - (lane.posted - lane.completed);
  room = std::min(room, limit_ - lane.posted);
  if (credit_taken_ != nullptr) {
    room = std::min(room, credit_taken_->room(lane.index, lane.posted));
  }
  if (pacer_) room = std::min(room, pacer_->allowance(ticks()));
  return room;
}

template <typename Post>
bool Sender<Post>::fill() {
  bool any = false;
  for (Lane& lane : lanes_) {
    const uint64_t free = room(lane);
    if (free < plan_.list) continue;
    const uint64_t before = lane.posted;
    fill(lane, free);
    if (pacer_) pacer_->took(lane.posted - before);
    any = true;
  }
  return any;
}

template <typename Post>
void Sender<Post>::fill(Lane& lane, uint64_t room) {
  if (plan_.list > 1) {
    post_lists(lane, room);
  } else if (plan_.in_turn) {
    post_in_turn(lane, room);
  } else {
    post_same(lane, room);
  }
}

// The two requests differ only in that the second one is signalled.
template <typename Post>
void Sender<Post>::post_same(Lane& lane, uint64_t room) {
  urma_jfs_wr_t* const plain = &(*lane.requests)[0];
  urma_jfs_wr_t* const last = &(*lane.requests)[1];
  while (room > 0) {
    if (lane.since == 0) starts_batch();
    const uint64_t until = std::min<uint64_t>(plan_.batch - lane.since, limit_ - lane.posted);
    const uint64_t count = std::min(room, until - 1);
    for (uint64_t i = count; i > 0; i--) post(lane, plain);
    lane.since += static_cast<uint32_t>(count);
    lane.posted += count;
    room -= count;
    if (room == 0) return;
    post(lane, last);
    lane.posted++;
    room--;
    signalled(lane);
  }
}

template <typename Post>
void Sender<Post>::post_in_turn(Lane& lane, uint64_t room) {
  for (; room > 0; room--) {
    if (lane.since == 0) starts_batch();
    lane.posted++;
    const bool completes = ++lane.since == plan_.batch || lane.posted == limit_;
    lane.requests->signal(lane.next, completes);
    stage(lane, lane.next);
    post(lane, &(*lane.requests)[lane.next]);
    if (++lane.next == lane.requests->count()) lane.next = 0;
    if (completes) signalled(lane);
  }
}

template <typename Post>
void Sender<Post>::post_lists(Lane& lane, uint64_t room) {
  for (; room >= plan_.list; room -= plan_.list) {
    const uint32_t batches = plan_.list / plan_.batch;
    for (uint32_t i = 0; keep_times_ && i < batches; i++) starts_batch();
    for (uint32_t i = 0; plan_.copies && i < plan_.list; i++) stage(lane, lane.next + i);
    post(lane, &(*lane.requests)[lane.next]);
    lane.posted += plan_.list;
    lane.due += batches;
    due_ += batches;
    lane.next += plan_.list;
    if (lane.next == lane.requests->count()) lane.next = 0;
  }
}

template <typename Post>
void Sender<Post>::stage(Lane& lane, uint32_t index) {
  if (!plan_.copies) return;
  std::memcpy(session_.memory.staging(lane.index, index), session_.memory.out(lane.index),
              lane.requests->size(index));
}

template <typename Post>
bool Sender<Post>::take() {
  std::array<urma_cr_t, 16> records;
  const int n = Session::poll(session_.queues.sent(), records.size(), records.data());
  for (int i = 0; i < n; i++) complete(records[i]);
  return n > 0;
}

template <typename Post>
void Sender<Post>::complete(const urma_cr_t& record) {
  if (record.status != URMA_CR_SUCCESS) [[unlikely]]
    session_.failed(record);
  if ((record.user_ctx & kCredit) != 0) {
    if (credit_given_ != nullptr) credit_given_->delivered();
    return;
  }
  const uint64_t index = record.user_ctx & kLaneMask;
  // An unsignalled request that failed: the next signalled one counts it too.
  if ((record.user_ctx & kSignalled) == 0 || index >= lanes_.size()) [[unlikely]]
    return;
  Lane& lane = lanes_[index];
  const uint64_t count = std::min<uint64_t>(plan_.batch, lane.posted - lane.completed);
  lane.completed += count;
  completed_ += count;
  lane.due--;
  due_--;
  if (keep_times_) {
    completed_at_.push_back(ticks());
    completed_until_.push_back(completed_);
  }
  if (lane.completed == limit_) lane.finished_at = ticks();
}

template <typename Post>
bool Sender<Post>::finish() {
  bool finished = true;
  for (Lane& lane : lanes_) {
    if (lane.since == 0) continue;
    if (room(lane) == 0) {
      finished = false;
      continue;
    }
    const uint32_t last = plan_.in_turn ? lane.next : 1;
    lane.requests->signal(last, true);
    stage(lane, last);
    post(lane, &(*lane.requests)[last]);
    lane.posted++;
    signalled(lane);
  }
  return finished;
}

}  // namespace perftest

#endif  // TOOLS_PERFTEST_SENDER_H_
