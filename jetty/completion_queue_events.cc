// SPDX-License-Identifier: MIT
//
// The events of a JFC: arming, raising, moderation and acknowledgement.
#include <algorithm>
#include <array>

#include "jetty/completion_queue.h"
#include "jetty/transport.h"
#include "urma/base/log.h"

namespace urma {
namespace {

// A program that waits for events makes few polls for each.
constexpr uint64_t kPollsOfAWaiter = 64;
constexpr uint32_t kMaxModerateCount = 1023;
constexpr std::array<uint32_t, 8> kModeratePeriods = {0, 4, 16, 64, 256, 1024, 4096, 16384};

bool possible(const urma_jfc_attr_t& attr) {
  if ((attr.mask & (JFC_MODERATE_COUNT | JFC_MODERATE_PERIOD)) == 0) {
    URMA_LOG_LIMITED(ERR, "modify_jfc: mask {:#x} names neither MODERATE_COUNT (1) nor PERIOD (2)",
                     attr.mask);
    return false;
  }
  if ((attr.mask & JFC_MODERATE_COUNT) != 0 && attr.moderate_count > kMaxModerateCount) {
    URMA_LOG_LIMITED(ERR, "modify_jfc: moderate_count {} is not supported; pass 0 to {}",
                     attr.moderate_count, kMaxModerateCount);
    return false;
  }
  if ((attr.mask & JFC_MODERATE_PERIOD) != 0 &&
      std::find(kModeratePeriods.begin(), kModeratePeriods.end(), attr.moderate_period) ==
          kModeratePeriods.end()) {
    URMA_LOG_LIMITED(ERR,
                     "modify_jfc: moderate_period {} is not supported; pass 0, or a power of 4 "
                     "from 4 to 16384 us",
                     attr.moderate_period);
    return false;
  }
  return true;
}

}  // namespace

Bell CompletionQueue::silent_bell_ = {};

void CompletionQueue::raise_at(EventChannel* channel, Bell* bell, uint32_t bell_index) {
  channel->add(this);
  channel_ = channel;
  bell_ = bell;
  bell_index_ = bell_index;
  // A fence for each publication is cheap compared with a system call for each arming; but it would
  // slow down peers for which nobody sleeps. See kFences.
  fenced_ = !transport_->has_remote_bells() || !has_process_barrier();
  watch_ = BellWatch(*bell_, fenced_);
}

urma_status_t CompletionQueue::arm(bool solicited_only) {
  // Without a channel nobody can be told.
  if (channel_ == nullptr) return URMA_SUCCESS;
  counted_.store(0, std::memory_order_relaxed);
  arming_.fetch_add(1, std::memory_order_relaxed);
  note_arming();
  set_bell(solicited_only ? kForSolicited : kForAny);
  bool outstanding = false;
  const bool more = move_just_armed(&outstanding);
  channel_->drain_seldom();
  if (armed() && waits()) channel_->look_when_armed(this);
  if (!armed()) return URMA_SUCCESS;
  if (more) {
    transport_->take_over();
  } else if (outstanding) {
    transport_->watch_pending();
  }
  return URMA_SUCCESS;
}

// An arming for any completion stays in force beside one for solicited ones.
void CompletionQueue::set_bell(uint32_t kind) {
  const uint32_t fences = waits() && !fenced_ ? kFences : 0;
  // Relaxed: ordered by the barrier.
  const uint32_t before = bell_->bits.fetch_or(kind | fences, std::memory_order_relaxed);
  // SYNC(bell): the bell is stored before everything that may have come is looked at. Pairs with
  // the light barriers of those who publish before they look at the bell: completed(),
  // SendQueue::announce(), RemoteBell::ring() and WireEngine::arrived(). So either they see the
  // bell or this thread sees what they have published. Those who found kFences there have fenced.
  heavy_barrier(fenced_ || (before & kFences) != 0);
}

// Threads that arm at the same time may count wrong: a hint.
void CompletionQueue::note_arming() {
  const uint64_t now = polls();
  const uint64_t before = polls_at_arming_.load(std::memory_order_relaxed);
  polls_at_arming_.store(now, std::memory_order_relaxed);
  const uint32_t streak = streak_.load(std::memory_order_relaxed);
  const uint32_t next = now - before > kPollsOfAWaiter ? 0 : std::min(streak + 1, kStreak);
  streak_.store(next, std::memory_order_relaxed);
}

// Those who publish need not fence for a program that has begun to poll.
void CompletionQueue::note_idle_polls() {
  if ((bell_->bits.load(std::memory_order_relaxed) & kFences) == 0) return;
  if (polls() - polls_at_arming_.load(std::memory_order_relaxed) <= kPollsOfAWaiter) return;
  streak_.store(0, std::memory_order_relaxed);
  // Not beside an arming that relies on it. Relaxed: SYNC(bell), that arming sees it or not.
  uint32_t alone = kFences;
  bell_->bits.compare_exchange_strong(alone, 0, std::memory_order_relaxed);
}

bool CompletionQueue::look_begins() {
  if (!waits() || !armed()) return false;
  bell_->bits.fetch_or(kLooks, std::memory_order_relaxed);
  return true;
}

bool CompletionQueue::look_ends() {
  const uint32_t before = bell_->bits.fetch_and(~kLooks, std::memory_order_relaxed);
  if ((before & kLooks) == 0) return false;
  // SYNC(bell): as in set_bell(); what has come without a wake-up is looked at afterwards.
  heavy_barrier(fenced_ || (before & kFences) != 0);
  return true;
}

bool CompletionQueue::move_just_armed(bool* outstanding) {
  OwnerScope scope(*poll_lock_);
  bool solicited = false;
  const uint32_t waiting = ring_->waiting(&solicited);
  if (waiting != 0) completed(waiting, solicited);
  bool more = false;
  for (Attached& attached : sources_) {
    more |= attached.source->move_for(this, true);
    *outstanding |= attached.source->outstanding();
  }
  return more;
}

bool CompletionQueue::move() {
  OwnerScope scope(*poll_lock_);
  bool more = false;
  for (Attached& attached : sources_) more |= attached.source->move_for(this, false);
  return more && armed();
}

void CompletionQueue::completed_where_armed(uint32_t count, bool solicited) {
  // SYNC(bell): between the store before and the load that follows; see arm().
  light_barrier(fenced_);
  if ((bell_->seen() & kArmed) == 0) return;
  if (!wanted(bell_->bits.load(std::memory_order_relaxed), solicited)) return;
  const uint32_t enough = moderate_count_.load(std::memory_order_relaxed);
  const uint32_t period = moderate_period_.load(std::memory_order_relaxed);
  if (enough == 0 && period == 0) return raise();
  const uint32_t counted = counted_.fetch_add(count, std::memory_order_relaxed) + count;
  if (enough != 0 && counted >= enough) return raise();
  const uint64_t arming = arming_.load(std::memory_order_relaxed);
  if (period != 0 && delayed_arming_.exchange(arming, std::memory_order_relaxed) != arming) {
    transport_->delay_event(this, arming, period);
  }
}

void CompletionQueue::raise_delayed(uint64_t arming) {
  if (arming_.load(std::memory_order_relaxed) == arming) raise();
}

void CompletionQueue::raise() {
  // Of all threads that see the bell one disarms. Relaxed: the locks that guard the completions,
  // and those of the channel, order what the event announces.
  const uint32_t before = bell_->bits.fetch_and(kFences, std::memory_order_relaxed);
  if ((before & kArmed) != 0) {
    counters_->wakeups.add_shared(1);
    channel_->fire(this);
  }
}

urma_status_t CompletionQueue::modify(urma_jfc_attr_t* attr) {
  if (!possible(*attr)) return URMA_EINVAL;
  if ((attr->mask & JFC_MODERATE_COUNT) != 0) {
    // One completion is what an event needs anyway.
    moderate_count_.store(attr->moderate_count == 1 ? 0 : attr->moderate_count,
                          std::memory_order_relaxed);
  }
  if ((attr->mask & JFC_MODERATE_PERIOD) != 0) {
    moderate_period_.store(attr->moderate_period, std::memory_order_relaxed);
  }
  return URMA_SUCCESS;
}

urma_status_t CompletionQueue::end_events() {
  const bool non_blocking = jfc_cfg.flag.bs.non_blocking != 0;
  if ((channel_ != nullptr && non_blocking && !channel_->all_acked(this)) ||
      !subject_.end(non_blocking)) {
    URMA_LOG_LIMITED(ERR, "delete_jfc: jfc {:#x} has events that were not acknowledged; ack them",
                     jfc_id.id);
    return URMA_EAGAIN;
  }
  if (channel_ == nullptr) return URMA_SUCCESS;
  channel_->remove(this);
  bell_->bits.store(0, std::memory_order_relaxed);
  transport_->forget_delayed(this);
  // Nothing further is handed out, so reported_ stays as it is.
  acked_.await_all_of(reported_);
  channel_ = nullptr;
  bell_ = &silent_bell_;
  watch_ = BellWatch();
  return URMA_SUCCESS;
}

}  // namespace urma
