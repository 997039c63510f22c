// SPDX-License-Identifier: MIT
//
// The receiving half of a JFR over a wire, alone or on top of another kind of ways.
#ifndef JETTY_WIRE_RECEIVER_H_
#define JETTY_WIRE_RECEIVER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "jetty/receive_engine.h"
#include "jetty/wire.h"
#include "jetty/wire_engine.h"

namespace urma {

// `Base` is MessageReceiver, or the receiver over ways of another kind.
template <typename Base>
class WireReceiverOver final : public ReceiveEngine<WireReceiverOver<Base>, WireIncoming, Base> {
  using Engine = ReceiveEngine<WireReceiverOver<Base>, WireIncoming, Base>;

 public:
  // `args` are those of `Base`.
  template <typename... Args>
  explicit WireReceiverOver(Wire* wire, Args&&... args)
      : Engine(std::forward<Args>(args)...), wire_(wire) {}

  int collect(CompletionQueue* poller, int count, urma_cr_t* cr) override
      URMA_REQUIRES(poller->poll_lock()) {
    // Past the engine of the wire, without ways of it. NOLINTBEGIN(bugprone-parent-virtual-call)
    if (Engine::kStacked && !this->busy()) [[likely]]
      return Base::collect(poller, count, cr);
    // NOLINTEND(bugprone-parent-virtual-call)
    return collect_all(poller, count, cr);
  }
  // A wire has none of its own.
  CompletionSource::PollAlone poll_alone() const override {
    return Engine::kStacked ? Engine::poll_source : nullptr;
  }
  bool move_for(CompletionQueue* waiter, bool just_armed) override {
    if (just_armed) wire_->asleep();
    // The same. NOLINTNEXTLINE(bugprone-parent-virtual-call)
    if (Engine::kStacked && !this->busy()) return Base::move_for(waiter, just_armed);
    wire_->progress();
    return Engine::move_for(waiter, just_armed);
  }

 private:
  friend Engine;
  using Engine::holding_;
  using Engine::lock_;
  using Engine::posted_;
  using typename Engine::Step;

  // Apart, so that the way past it saves no registers.
  [[gnu::noinline]] int collect_all(CompletionQueue* poller, int count, urma_cr_t* cr)
      URMA_REQUIRES(poller->poll_lock()) {
    if (Engine::kStacked) {
      wire_->progress_beside_others();
    } else {
      wire_->progress();
    }
    return Engine::collect(poller, count, cr);
  }
  std::optional<Step> begin_parts(WireIncoming* way, const Message& message, ReceiveEntry* entry,
                                  urma_cr_status_t local, Poll* /*poll*/) URMA_REQUIRES(lock_) {
    if (!is_announced(message) || local != URMA_CR_SUCCESS) return std::nullopt;
    if (way->staged_whole()) {
      holding_ = way;
      way->begin_unpacking();
      return Step::kMoved;
    }
    if constexpr (Engine::kStacked) {
      if (const std::optional<Step> step = begin_staging(way, message)) return step;
    }
    holding_ = way;
    way->begin_parts(ReceiveQueue::pieces(entry));
    return Step::kMoved;
  }
  // A network may stop in the middle of a message, and must not stop the ways of the base: so the
  // receive is taken once all has come. One message at a time, so that peers cannot make this
  // process use more memory than the receive of each JFR has. Nothing if there is none for it.
  std::optional<Step> begin_staging(WireIncoming* way, const Message& message)
      URMA_REQUIRES(lock_) {
    if (!staging_.expired()) return Step::kBlocked;
    std::shared_ptr<char[]> memory(new (std::nothrow) char[message.length]);
    if (memory == nullptr) return std::nullopt;
    staging_ = memory;
    way->stage(std::move(memory), message);
    return Step::kMoved;
  }
  // False if there is more to copy.
  bool unpack(WireIncoming* way) URMA_REQUIRES(lock_) {
    Message message;
    ReceiveEntry* entry = posted_.front();
    return way->peek(&message) != Peek::kMessage ||
           this->check(entry, message) != URMA_CR_SUCCESS ||
           way->unpack(ReceiveQueue::pieces(entry), message.length);
  }
  Step go_on(WireIncoming* way, Poll* poll) URMA_REQUIRES(lock_);
  void end_parts() URMA_REQUIRES(lock_) {
    static_cast<WireIncoming*>(holding_)->end_parts();
    holding_ = nullptr;
  }

  Wire* const wire_;
  // Of the message that is staged, until it is received.
  std::weak_ptr<char[]> staging_ URMA_GUARDED_BY(lock_);
};

template <typename Base>
auto WireReceiverOver<Base>::go_on(WireIncoming* way, Poll* poll) -> Step {
  if (way->unpacking() && !unpack(way)) return Step::kMoved;
  Message message;
  const auto landing = way->landed();
  if (landing == WireIncoming::Landing::kTakenBack) {
    // Another message may have its receive.
    if (holding_ == way) holding_ = nullptr;
    way->end_parts();
    return Step::kMoved;
  }
  if (landing == WireIncoming::Landing::kComing) {
    // Acquire pairs with the release in IncomingWay::abandon.
    const bool abandoned = way->abandoned.load(std::memory_order_acquire);
    return abandoned ? this->end_abandoned(way) : Step::kBlocked;
  }
  // It is not taken back any more.
  if (way->peek(&message) != Peek::kMessage) return this->end_abandoned(way);
  if (way->staging()) {
    if (landing == WireIncoming::Landing::kFailed) return this->end_abandoned(way);
    way->end_staging();
    return Step::kMoved;
  }
  ReceiveEntry* entry = posted_.front();
  const bool whole = landing == WireIncoming::Landing::kWhole;
  const urma_cr_status_t local = whole ? this->check(entry, message) : URMA_CR_LOC_ACCESS_ERR;
  if (local == URMA_CR_SUCCESS && message.kind == MessageKind::kSendInvalidate &&
      !this->invalidate_once(way, message)) {
    end_parts();
    way->consume(message, URMA_CR_REM_ACCESS_ABORT_ERR);
    return Step::kMoved;
  }
  if (!this->make_record(way, message, *entry, local, poll)) return Step::kBlocked;
  if (local != URMA_CR_SUCCESS) this->log_failure(*way, message, entry, local);
  end_parts();
  way->invalidated = false;
  this->finish(way, message, local, static_cast<uint8_t>(this->remote_status(local)));
  return Step::kMoved;
}

using WireReceiver = WireReceiverOver<MessageReceiver>;

}  // namespace urma

#endif  // JETTY_WIRE_RECEIVER_H_
