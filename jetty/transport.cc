// SPDX-License-Identifier: MIT
#include "jetty/transport.h"

#include <algorithm>
#include <new>
#include <utility>

#include "jetty/sender.h"
#include "urma/base/clock.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {
namespace {

// How long the service thread lets a program be silent before it moves what the program left.
constexpr uint64_t kTickNs = 1'000'000;
// The same for one that sleeps until something comes: the pause doubles up to this.
constexpr uint64_t kLongestTickNs = 16'000'000;

// Receivers that a poll looks at besides its own.
constexpr size_t kReceiversPerSweep = 4;
constexpr uint64_t kHintPauseNs = 250'000;

}  // namespace

Answer admits(const Endpoint& endpoint, uint32_t trans_mode, uint32_t token) {
  if (endpoint.token_policy != URMA_TOKEN_NONE && endpoint.token.token != token) {
    return Answer::kWrongToken;
  }
  const bool same_mode = static_cast<uint32_t>(endpoint.trans_mode) == trans_mode;
  const bool bindable = endpoint.trans_mode != URMA_TM_RC || endpoint.bond != nullptr;
  return same_mode && bindable ? Answer::kAccepted : Answer::kWrongMode;
}

void Transport::list_segments(size_t most, std::vector<urma_ext_segment_t>* listed) const {
  segments_.visit([&](const Segment& segment) {
    append_parts(describe(segment), parts(segment), most, listed);
  });
  imports_.visit([&](uint64_t serial, const ImportedSegment& imported) {
    append_parts(describe(serial, imported), parts(imported), most, listed);
  });
}

void Transport::watch_peer(PeerWatcher* watcher, IdKind kind, const urma_eid_t& eid, uint32_t id,
                           uint64_t target) {
  if (watches() == nullptr) return;
  service_->post([=, this, ended = ended()] {
    if (*ended) return;
    guarded(URMA_LOG_SITE, [&] {
      for_watches([&](PeerWatches* each) { each->unwatch(watcher); });
      watches()->watch(watcher, kind, eid, id, target);
    });
  });
}

void Transport::unwatch_peer(PeerWatcher* watcher, std::optional<uint64_t> target) {
  if (watches() == nullptr) return;
  service_->run(
      [=, this] { for_watches([&](PeerWatches* each) { each->unwatch(watcher, target); }); });
}

void Transport::end_service() { *ended_ = true; }

void Transport::log_absence(const char* kind, uint32_t id) const {
  URMA_LOG_LIMITED(WARNING, "no process answers for {} {:#x}; see that the other program runs",
                   kind, id);
}

void Transport::cancel_timers() {
  if (tick_timer_ != 0) service_->cancel(std::exchange(tick_timer_, 0));
  if (hint_timer_ != 0) service_->cancel(std::exchange(hint_timer_, 0));
  for (auto& [jfc, timer] : delayed_) service_->cancel(timer);
  delayed_.clear();
}

void Transport::add_receiver(Receiver* receiver) {
  const MutexLock lock(endpoints_mutex_);
  receivers_.push_back(receiver);
}

void Transport::remove_receiver(Receiver* receiver) {
  const MutexLock lock(endpoints_mutex_);
  std::erase(receivers_, receiver);
}

void Transport::add_endpoint(IdKind kind, const Endpoint& endpoint) {
  const MutexLock lock(endpoints_mutex_);
  const EndpointKey key = {kind, key_of(endpoint.eid), endpoint.identity.id};
  endpoints_.emplace(key, endpoint);
  try {
    endpoint.receiver->open_ways(endpoint);
    groups_.join(endpoint);
  } catch (...) {
    endpoint.receiver->close_ways(endpoint.identity.user_data);
    endpoints_.erase(key);
    throw;
  }
}

void Transport::remove_endpoint(IdKind kind, const Endpoint& endpoint) {
  const MutexLock lock(endpoints_mutex_);
  groups_.leave(endpoint);
  endpoints_.erase({kind, key_of(endpoint.eid), endpoint.identity.id});
  endpoint.receiver->close_ways(endpoint.identity.user_data);
}

bool Transport::with_endpoint(IdKind kind, const urma_eid_t& eid, uint32_t id,
                              const std::function<void(const Endpoint&)>& with_endpoint) {
  const MutexLock lock(endpoints_mutex_);
  const auto found = endpoints_.find({kind, key_of(eid), id});
  if (found == endpoints_.end()) return false;
  with_endpoint(found->second);
  return true;
}

Answer Transport::judge(const ProbeTarget& target) {
  if (target.type == URMA_JETTY_GROUP) {
    return groups_.admits(target.eid, target.id, target.trans_mode, target.token);
  }
  Answer answer = Answer::kNoSuchObject;
  with_endpoint(id_kind(target.type), target.eid, target.id, [&](const Endpoint& endpoint) {
    answer = admits(endpoint, target.trans_mode, target.token);
  });
  return answer;
}

Answer Transport::admit(const WayRequest& asked, uint32_t* members,
                        const std::function<bool(const Endpoint&)>& take) {
  Answer answer = Answer::kNoSuchObject;
  const auto ask = [&](IdKind kind, uint32_t id) {
    with_endpoint(kind, asked.eid, id, [&](const Endpoint& endpoint) {
      answer = admits(endpoint, asked.trans_mode, asked.token);
      if (answer == Answer::kAccepted && !take(endpoint)) answer = Answer::kNoSuchObject;
    });
  };
  *members = 0;
  if (asked.type != URMA_JETTY_GROUP) {
    ask(id_kind(asked.type), asked.id);
    return answer;
  }
  // A member may be leaving, or its JFR be out of use: the next one takes its place.
  uint32_t member;
  for (uint32_t tried = 0; answer == Answer::kNoSuchObject; ++tried) {
    if (!groups_.pick(asked.eid, asked.id, asked.hint + tried, &member, members) ||
        tried >= *members) {
      break;
    }
    ask(IdKind::kJetty, member);
  }
  return answer;
}

void Transport::progress_receives() {
  if (!endpoints_mutex_.try_lock()) return;
  const MutexLock lock(endpoints_mutex_, std::adopt_lock);
  for (size_t left = std::min(kReceiversPerSweep, receivers_.size()); left > 0; --left) {
    if (next_receiver_ >= receivers_.size()) next_receiver_ = 0;
    Receiver* const next = receivers_[next_receiver_++];
    guarded(URMA_LOG_SITE, [next] { next->try_progress(); });
  }
}

void Transport::serve_receives() {
  if (stopped() || serving_) return;
  service_->post([this] { serve_round(); });
  serving_ = true;
}

void Transport::serve_hint() {
  if (hint_timer_ != 0 || stopped()) return;
  const uint64_t now = monotonic_ns();
  if (now >= next_hint_ns_) {
    next_hint_ns_ = now + kHintPauseNs;
    return serve_receives();
  }
  hint_timer_ = service_->after(next_hint_ns_ - now, [this] {
    hint_timer_ = 0;
    serve_hint();
  });
}

// One turn for each receiver; the rest waits after everything else on this thread.
void Transport::serve_round() {
  serving_ = false;
  bool moved = false, failed = false;
  {
    const MutexLock lock(endpoints_mutex_);
    for (Receiver* receiver : receivers_) {
      bool served = false;
      guarded(URMA_LOG_SITE, [&] {
        moved |= receiver->serve();
        served = true;
      });
      failed |= !served;
    }
  }
  if (moved) serve_receives();
  // Out of memory: a moment later there may be some.
  if (failed) serve_hint();
}

void Transport::serve_senders() {
  if (stopped() || serving_senders_) return;
  service_->post([this] { serve_senders_round(); });
  serving_senders_ = true;
}

void Transport::serve_senders_round() {
  serving_senders_ = false;
  bool more = false;
  {
    const MutexLock lock(senders_mutex_);
    for (Sender* sender : senders_) {
      guarded(URMA_LOG_SITE, [&] { more |= sender->serve_armed(); });
    }
  }
  if (more) serve_senders();
}

template <typename Round>
void Transport::post_due(std::atomic<bool>* due, const Round& round) {
  try {
    service_->post(round);
  } catch (...) {
    due->store(false);
    throw;
  }
}

void Transport::take_over() {
  // SYNC(take-over): pairs with the exchange in the round.
  if (taking_over_.exchange(true)) return;
  post_due(&taking_over_, [this] {
    // SYNC(take-over): what was stored before each take_over() that found a round due is visible
    // after an exchange.
    taking_over_.exchange(false);
    serve_receives();
    serve_senders();
  });
}

void Transport::delay_event(CompletionQueue* jfc, uint64_t arming, uint32_t us) {
  service_->post([this, jfc, arming, us] {
    const auto entry = delayed_.emplace(jfc, 0);
    entry->second = service_->after(uint64_t{us} * 1000, [this, entry, arming] {
      CompletionQueue* due = entry->first;
      delayed_.erase(entry);
      due->raise_delayed(arming);
    });
  });
}

void Transport::forget_delayed(CompletionQueue* jfc) {
  service_->run([this, jfc] {
    const auto [first, last] = delayed_.equal_range(jfc);
    for (auto entry = first; entry != last; ++entry) service_->cancel(entry->second);
    delayed_.erase(first, last);
  });
}

void Transport::quiesce() {
  OwnerBarrier barrier;
  {
    const MutexLock lock(senders_mutex_);
    for (Sender* sender : senders_) sender->quiesce(&barrier);
  }
  const MutexLock lock(endpoints_mutex_);
  for (Receiver* receiver : receivers_) receiver->quiesce(&barrier);
}

void Transport::await_queues() {
  OwnerBarrier barrier;
  {
    const MutexLock lock(senders_mutex_);
    for (Sender* sender : senders_) sender->await_others(&barrier);
  }
  const MutexLock lock(endpoints_mutex_);
  for (Receiver* receiver : receivers_) receiver->quiesce(&barrier);
}

void Transport::visit_receivers(const std::function<void(Receiver&)>& visit) {
  const MutexLock lock(endpoints_mutex_);
  for (Receiver* receiver : receivers_) visit(*receiver);
}

bool Transport::find_sender(const std::function<bool(Sender&)>& visit) {
  const MutexLock lock(senders_mutex_);
  return std::any_of(senders_.begin(), senders_.end(),
                     [&](Sender* sender) { return visit(*sender); });
}

void Transport::add_sender(Sender* sender) {
  const MutexLock lock(senders_mutex_);
  senders_.push_back(sender);
}

void Transport::remove_sender(Sender* sender) {
  const MutexLock lock(senders_mutex_);
  std::erase(senders_, sender);
}

void Transport::watch_pending() {
  // SYNC(ticking): pairs with the exchange in tick().
  if (ticking_.exchange(true) && !seldom_.exchange(false)) return;
  post_due(&ticking_, [this] { tick_soon(); });
}

void Transport::tick_soon() {
  if (tick_timer_ != 0) service_->cancel(tick_timer_);
  tick_ns_ = kTickNs;
  tick_later();
}

// At once, if there is no memory for a timer.
void Transport::tick_later() {
  if (stopped()) return;
  try {
    tick_timer_ = service_->after(tick_ns_, [this] { tick(); });
  } catch (const std::bad_alloc&) {
    post_due(&ticking_, [this] {
      if (!stopped()) tick();
    });
  }
}

void Transport::tick() {
  if (tick_timer_ != 0) service_->cancel(std::exchange(tick_timer_, 0));
  // Cleared before the look at the senders; see Sender::look_after.
  // SYNC(ticking): what was stored before each watch_pending() that found a tick due is visible
  // after an exchange. A store would let the look at the bells pass it.
  ticking_.exchange(false);
  auto next = Sender::Look::kNever;
  {
    const MutexLock lock(senders_mutex_);
    for (Sender* sender : senders_) {
      // Out of memory: after a while there may be some.
      auto look = Sender::Look::kLater;
      guarded(URMA_LOG_SITE, [&] { look = sender->serve(); });
      next = std::max(next, look);
    }
  }
  if (next == Sender::Look::kNever) return;
  // Before others see that a tick is due: they may ask for an earlier one.
  seldom_.store(next == Sender::Look::kLater);
  if (ticking_.exchange(true)) return;
  tick_ns_ = next == Sender::Look::kLater ? std::min(2 * tick_ns_, kLongestTickNs) : kTickNs;
  tick_later();
}

}  // namespace urma
