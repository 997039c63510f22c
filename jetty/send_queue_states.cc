// SPDX-License-Identifier: MIT
//
// Effects of the states of a send queue on its records: the marker, what is posted to a queue that
// is not READY, and what urma_flush_* hands back.
#include "jetty/send_queue.h"

namespace urma {

void SendQueue::resume() {
  set_state(URMA_JETTY_STATE_READY);
  flushed_ = false;
  silence_marker();
}

void SendQueue::stop(urma_jetty_state_t state) {
  set_state(state);
  flushed_ = false;
  silence_marker();
  put_marker(state == URMA_JETTY_STATE_SUSPENDED ? URMA_CR_WR_SUSPEND_DONE
                                                 : URMA_CR_WR_FLUSH_ERR_DONE);
}

void SendQueue::reset() {
  set_state(URMA_JETTY_STATE_RESET);
  flushed_ = false;
  for (uint32_t i = 0; i < size_.load(std::memory_order_relaxed); ++i) {
    at(nth(i)).special |= kDropped;
  }
  retire(0, nullptr);
}

// The records before it may have to wait for a peer, and then the marker waits too.
void SendQueue::put_marker(urma_cr_status_t status) {
  const uint32_t size = size_.load(std::memory_order_relaxed);
  // In the place of a marker that nothing was posted after: so there always is a place.
  const bool again = size != 0 && (at(nth(size - 1)).special & kMarker) != 0;
  SendEntry* marker = &at(again ? nth(size - 1) : tail_);
  *marker = {};
  marker->state = SendState::kDone;
  marker->status = static_cast<uint8_t>(status);
  marker->special = kMarker;
  if (!again) grow(1);
}

// A queue that goes on, or stops again, has no use for the earlier marker.
void SendQueue::silence_marker() {
  for (uint32_t i = 0; i < size_.load(std::memory_order_relaxed); ++i) {
    SendEntry& entry = at(nth(i));
    if ((entry.special & kMarker) != 0) entry.special |= kDropped;
  }
}

int SendQueue::hand_back(int count, urma_cr_t* cr) {
  if (!flushed_) return 0;
  int got = 0;
  while (got < count && size_.load(std::memory_order_relaxed) != 0) {
    SendEntry& entry = at(head_);
    if (entry.state == SendState::kPending) {
      // The oldest of all, so the first of its path, too.
      entry.path->give_up_first();
      complete(&entry, URMA_CR_WR_UNHANDLED);
    }
    if (entry.state != SendState::kDone) break;
    entry.status = URMA_CR_WR_UNHANDLED;
    entry.bytes = 0;
    if ((entry.special & kDropped) == 0) fill_record(entry, &cr[got++]);
    vacate(&entry);
    ++popped_;
    size_.store(size_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
  return got;
}

// More records wait than the JFC was made for. They lie here, so none is lost. Continues
// the last count while nothing was collected: a post must not cost more the longer the queue is.
void SendQueue::count_towards_overflow() {
  if (counted_since_ != popped_) {
    counted_since_ = popped_;
    counted_ = 0;
    counted_due_ = 0;
  }
  for (; counted_ < size_.load(std::memory_order_relaxed); ++counted_) {
    const SendEntry& entry = at(nth(counted_));
    if (entry.state != SendState::kDone) return;
    if (leaves_record(entry) && ++counted_due_ > overflow_above_) jfc_->overflowed();
  }
}

}  // namespace urma
