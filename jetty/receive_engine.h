// SPDX-License-Identifier: MIT
//
// How messages are taken from the ways that end at a JFR: in turn, strictly first in, first out
// over the posted receives.
#ifndef JETTY_RECEIVE_ENGINE_H_
#define JETTY_RECEIVE_ENGINE_H_

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "jetty/message_receiver.h"
#include "jetty/turns.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {

// What carries messages to a receiver: the receiving half of a wire, see jetty/wire.h.
template <typename Way>
concept ReceivingWay = std::derived_from<Way, IncomingWay> &&
    requires(Way& way, const Message& message, Message* head, void* into) {
  // The next message, which stays until consume().
  { way.peek(head) } -> std::same_as<Peek>;
  // The same, but only a SEND or SEND_IMM that came whole, and that copy_plain() copies at once.
  { way.peek_plain(head) } -> std::same_as<bool>;
  way.copy_plain(message, static_cast<char*>(into));
  // Copies bytes of a message from an offset on.
  way.copy(message, uint32_t{}, into, uint32_t{});
  // Whether messages come by shared memory; copy_at_once() of others never copies.
  { Way::kIsNear } -> std::convertible_to<bool>;
  // Copies all of it; false if that takes more than one copy.
  { way.copy_at_once(message, static_cast<char*>(into)) } -> std::same_as<bool>;
  // The message is through, and ends with this status for its sender.
  way.consume(message, uint8_t{});
  // Takes nothing further: everything else ends with this status for the sender.
  way.close(uint8_t{});
  // A hint: whether peek() would find nothing, and the sender needs no answer.
  { way.silent() } -> std::same_as<bool>;
  // told() is called before a turn, after_turn() after it: a sender told more in between is woken.
  // `blocked`: nothing more could be taken.
  way.after_turn(way.told(), bool{});
  // Whether it would do something although more might be taken.
  { way.has_to_tell(way.told()) } -> std::same_as<bool>;
  // Wakes a sender that sleeps.
  way.wake();
  // Whether the first message has begun, and has to go on.
  { way.in_parts() } -> std::same_as<bool>;
  // Whether the bytes that a message refers to are gone with its sender.
  { way.took_back(message) } -> std::same_as<bool>;
  // The sender, for the log.
  { way.who() } -> std::convertible_to<std::string>;
};

// The access that the sender ends by a message.
template <ReceivingWay Way>
Invalidation invalidation_of(const Way& way, const Message& message) {
  Invalidation invalidation = {};
  way.copy(message, 0, &invalidation, prefix_of(message.kind));
  return invalidation;
}

// `Derived` may hide begin_parts(), go_on(), end_parts() and ways_gone().
//
// `Base` may be an engine over ways of another kind: then both take from the same posted receives,
// and a message of one kind that holds the first of them lets all others wait.
template <typename Derived, ReceivingWay Way, typename Base = MessageReceiver>
class ReceiveEngine : public Base {
 public:
  using Base::Base;

  // A poll of one of its JFCs: moves what has arrived.
  int collect(CompletionQueue* poller, int count, urma_cr_t* cr) override
      URMA_REQUIRES(poller->poll_lock()) {
    if constexpr (kStacked) return collect_both(poller, count, cr);
    return collect_own(poller, count, cr);
  }
  bool move_for(CompletionQueue* waiter, bool just_armed) override {
    if constexpr (kStacked) {
      return alternation_.take([&] { return move_own_for(waiter); },
                               [&] { return Base::move_for(waiter, just_armed); });
    }
    return move_own_for(waiter);
  }
  void try_progress() override {
    if constexpr (kStacked) {
      if (!busy()) return Base::try_progress();
      alternation_.take([&] { return try_own(); }, [&] { return Base::try_progress(), false; });
    } else {
      try_own();
    }
  }
  bool serve() override {
    if constexpr (kStacked) {
      return alternation_.take([&] { return serve_own(); }, [&] { return Base::serve(); });
    }
    return serve_own();
  }

  // Adds a way that describe() has filled in. False if no messages are taken now.
  bool add_way(std::shared_ptr<Way> way) {
    ForeignScope scope(lock_);
    if (!this->in_state(URMA_JFR_STATE_READY)) return false;
    ways_.push_back(std::move(way));
    turns_.forget();
    count_ways();
    return true;
  }
  void close_ways(uint64_t user_data) override {
    if constexpr (kStacked) Base::close_ways(user_data);
    ForeignScope scope(lock_);
    drop_ways([&](const std::shared_ptr<Way>& way) URMA_REQUIRES(lock_) {
      return way->target.user_data == user_data && shut_out(way.get());
    });
  }

 protected:
  using Step = typename Base::Step;
  static constexpr bool kStacked = !std::is_same_v<Base, MessageReceiver>;
  using Base::counters_;
  using Base::holding_;
  using Base::lock_;
  using Base::posted_;
  using Base::to_flush_;

  // Whether a poll has to look at its ways.
  bool busy() const { return busy_.load(std::memory_order_relaxed) != 0; }

  // Begins a message that does not lie whole in its way, or whose receive the processor cannot
  // write: nothing for any other message, else how far it came. `local` is the result of check()
  // for the receive. The way's in_parts() then tells whether go_on() has more to do.
  std::optional<Step> begin_parts(Way* /*way*/, const Message& /*message*/, ReceiveEntry* /*entry*/,
                                  urma_cr_status_t /*local*/, Poll* /*poll*/) URMA_REQUIRES(lock_) {
    return std::nullopt;
  }
  Step go_on(Way* /*way*/, Poll* /*poll*/) URMA_REQUIRES(lock_) { return Step::kBlocked; }
  // A way of this engine holds the first receive: it is not written any more when this returns.
  void end_parts() URMA_REQUIRES(lock_) { holding_ = nullptr; }
  // Some ways are gone.
  void ways_gone() URMA_REQUIRES(lock_) {}

  // The sender has gone, or has closed the way. A living sender learns from the answers what was
  // received, and that nothing else was.
  Step end_abandoned(Way* way) URMA_REQUIRES(lock_) {
    way->close(URMA_CR_WR_FLUSH_ERR);
    return Step::kFinished;
  }
  // A message is received in two steps: the record of its receive is made, and then it is through.
  // False, with nothing done, if the JFC has no room for the record any more: the message waits.
  bool make_record(Way* way, const Message& message, const ReceiveEntry& entry,
                   urma_cr_status_t local, Poll* poll) URMA_REQUIRES(lock_);
  // `remote` is how it ends for its sender.
  void finish(Way* way, const Message& message, urma_cr_status_t local, uint8_t remote)
      URMA_REQUIRES(lock_);
  // One that has no record: it may have waited for room for one before.
  static void refuse(Way* way, const Message& message, urma_cr_status_t status) {
    way->invalidated = false;
    way->consume(message, static_cast<uint8_t>(status));
  }
  // Once for a message, although it may wait afterwards. To be forgotten when it is through.
  bool invalidate_once(Way* way, const Message& message) URMA_REQUIRES(lock_) {
    way->invalidated =
        way->invalidated || this->invalidate(way->who(), message, invalidation_of(*way, message));
    return way->invalidated;
  }

  // For poll_alone(): takes the first message of a single way without a call, if it is plain, and
  // leaves all else to others. The poller's lock is held, which a pointer to a function cannot
  // express.
  static int poll_source(CompletionQueue* poller, int count, urma_cr_t* cr,
                         CompletionSource* source) noexcept URMA_NO_THREAD_SAFETY_ANALYSIS {
    auto& engine = static_cast<ReceiveEngine&>(*source);
    if constexpr (kStacked) {
      if (engine.busy()) return poller->poll_rest_guarded(0, count, cr);
      return Base::poll_source(poller, count, cr, source);
    }
    if (!engine.busy()) return poller->finish_poll(0, cr);
    if (!engine.lock_.enter_at_once()) [[unlikely]]
      return poller->poll_rest_guarded(0, count, cr);
    Way* const way = engine.only_way_;
    if (way == nullptr || engine.holding_ != nullptr || !poller->ring().empty()) [[unlikely]]
      return engine.poll_each(poller, count, cr);
    const auto told = way->told();
    bool solicited = false;
    if (count == 0 || !engine.take_one(way, poller, cr, &solicited)) {
      if (!rests(*way)) return engine.poll_each(poller, count, cr);
      engine.lock_.leave();
      return poller->finish_poll(0, cr);
    }
    if (engine.below_limit() || poller->may_be_armed() || way->has_to_tell(told) ||
        (count != 1 && !rests(*way))) [[unlikely]] {
      return engine.poll_behind_first(way, told, solicited, poller, count, cr);
    }
    if (engine.lock_.leave_at_once()) [[unlikely]]
      engine.lock_.wake_one();
    return poller->end_poll(1);
  }

  void close_all() override URMA_REQUIRES(lock_) {
    if constexpr (kStacked) Base::close_all();
    drop_ways([&](const std::shared_ptr<Way>& way)
                  URMA_REQUIRES(lock_) { return shut_out(way.get()); });
  }
  void note_flush() override URMA_REQUIRES(lock_) {
    if constexpr (kStacked) return Base::note_flush();
    count_ways();
  }
  bool move_any() override URMA_REQUIRES(lock_) {
    if constexpr (kStacked) {
      return alternation_.take(
          [&] {
            lock_.assume_held();
            return move_own();
          },
          [&] {
            lock_.assume_held();
            return Base::move_any();
          });
    }
    return move_own();
  }

  void report_ways(urma_ext_queue_t* queue) const override {
    if constexpr (kStacked) Base::report_ways(queue);
    (Way::kIsNear ? queue->near_ways : queue->far_ways) = open_.load(std::memory_order_relaxed);
  }

  std::vector<std::shared_ptr<Way>> ways_ URMA_GUARDED_BY(lock_);

 private:
  static constexpr int kMessagesPerTurn = 16;
  using Told = decltype(std::declval<Way&>().told());

  // `Derived` with its own members. Its lock_ is this one, which clang does not know.
  Derived* self() { return static_cast<Derived*>(this); }
  std::optional<Step> begin_own_parts(Way* way, const Message& message, ReceiveEntry* entry,
                                      urma_cr_status_t local, Poll* poll)
      URMA_REQUIRES(lock_) URMA_NO_THREAD_SAFETY_ANALYSIS {
    return self()->begin_parts(way, message, entry, local, poll);
  }
  Step go_on_with_parts(Way* way, Poll* poll) URMA_REQUIRES(lock_) URMA_NO_THREAD_SAFETY_ANALYSIS {
    return self()->go_on(way, poll);
  }
  void end_own_parts() URMA_REQUIRES(lock_) URMA_NO_THREAD_SAFETY_ANALYSIS { self()->end_parts(); }
  void forget_ways() URMA_REQUIRES(lock_) URMA_NO_THREAD_SAFETY_ANALYSIS { self()->ways_gone(); }

  int collect_own(CompletionQueue* poller, int count, urma_cr_t* cr)
      URMA_REQUIRES(poller->poll_lock()) {
    if (!busy()) return 0;
    OwnerScope scope(lock_);
    int got = 0;
    // What has been taken is returned also if the rest throws. No lambda, which would cost a call.
    try {
      if (Way::kIsNear && take_whole(poller, count, cr, &got)) return got;
    } catch (...) {
      status_of_current_exception(URMA_LOG_SITE);
      return got;
    }
    return got + take_turns(poller, count - got, cr + got);
  }
  // Takes what has arrived in turns; the number of records.
  [[gnu::always_inline]] int take_turns(CompletionQueue* poller, int count, urma_cr_t* cr) noexcept
      URMA_REQUIRES(poller->poll_lock()) URMA_REQUIRES(lock_) {
    Poll poll = {poller, cr, count};
    try {
      progress(&poll);
    } catch (...) {
      status_of_current_exception(URMA_LOG_SITE);
    }
    if (holding_ != nullptr && poller->armed()) [[unlikely]]
      poller->leave_unfinished();
    return poll.got;
  }
  int collect_both(CompletionQueue* poller, int count, urma_cr_t* cr)
      URMA_REQUIRES(poller->poll_lock()) {
    int got = 0;
    const auto take = [&](const auto& collect) {
      const int more = got == count ? 0 : collect(count - got, cr + got);
      got += more;
      return more != 0;
    };
    // The poller's lock is held, which clang does not see in here.
    alternation_.take(
        [&] {
          return take([&](int room, urma_cr_t* place) URMA_NO_THREAD_SAFETY_ANALYSIS {
            return collect_own(poller, room, place);
          });
        },
        [&] {
          return take([&](int room, urma_cr_t* place) URMA_NO_THREAD_SAFETY_ANALYSIS {
            return Base::collect(poller, room, place);
          });
        });
    return got;
  }
  bool shut_out(Way* way) URMA_REQUIRES(lock_) {
    way->close(URMA_CR_REM_ACCESS_ABORT_ERR);
    way->wake();
    if (holding_ == way) end_own_parts();
    return true;
  }
  template <typename Which>
  void drop_ways(const Which& which) URMA_REQUIRES(lock_) {
    std::erase_if(ways_, which);
    turns_.forget();
    count_ways();
    forget_ways();
  }
  // Counts what is to be flushed too, so that a poll looks here also without ways. The base of a
  // stacked engine flushes.
  void count_ways() URMA_REQUIRES(lock_) {
    const auto open = static_cast<uint32_t>(ways_.size());
    const uint32_t flushing = !kStacked && to_flush_ != 0 ? 1 : 0;
    only_way_ = open == 1 && flushing == 0 ? ways_.front().get() : nullptr;
    open_.store(open, std::memory_order_relaxed);
    busy_.store(open + flushing, std::memory_order_relaxed);
  }
  bool move_own() URMA_REQUIRES(lock_) {
    Poll nobody;
    return progress(&nobody);
  }
  bool move_own_for(CompletionQueue* waiter) {
    if (!busy()) return false;
    OwnerScope scope(lock_);
    Poll poll = {waiter};
    return progress(&poll);
  }
  bool try_own() {
    if (!busy() || !lock_.enter_at_once()) return false;
    OwnerScope scope(lock_, std::adopt_lock);
    Poll nobody;
    return ways_.size() > Turns::kFew && to_flush_ == 0 ? progress_many(&nobody)
                                                        : progress(&nobody);
  }
  bool serve_own() {
    if (!busy()) return false;
    ForeignScope scope(lock_);
    return move_own();
  }

  // Apart, so that a poll of a plain message saves no registers for it.
  [[gnu::noinline]] bool progress(Poll* poll) URMA_REQUIRES(lock_);
  [[gnu::noinline]] bool progress_many(Poll* poll) URMA_REQUIRES(lock_);
  [[gnu::cold, gnu::noinline]] void drop_finished() URMA_REQUIRES(lock_) {
    drop_ways([](const std::shared_ptr<Way>& way) { return way == nullptr; });
  }
  // True if the way has ended: its place is then empty.
  [[gnu::always_inline]] bool progress_way(size_t index, Poll* poll, bool* moved)
      URMA_REQUIRES(lock_) {
    std::shared_ptr<Way>& way = ways_[index];
    if (holding_ != nullptr ? holding_ != way.get() : rests(*way)) return false;
    if (turn(way.get(), poll, moved) != Step::kFinished) return false;
    // Other messages may have waited for its end.
    *moved = true;
    if (holding_ == way.get()) end_own_parts();
    way.reset();
    return true;
  }
  // Drops the ways that have ended, also if a later turn throws.
  struct Sweep {
    ~Sweep() URMA_NO_THREAD_SAFETY_ANALYSIS {
      if (ended) engine->drop_finished();
    }
    ReceiveEngine* engine;
    bool ended = false;
  };
  // A poll that is more than one plain message.
  [[gnu::noinline]] int poll_each(CompletionQueue* poller, int count, urma_cr_t* cr) noexcept
      URMA_RELEASE(lock_) URMA_NO_THREAD_SAFETY_ANALYSIS {
    int got = 0;
    bool all = true;
    guarded(URMA_LOG_SITE,
            [&]() URMA_NO_THREAD_SAFETY_ANALYSIS { all = take_whole(poller, count, cr, &got); });
    return all ? end_poll(poller, got, cr) : poll_rest(poller, got, count, cr);
  }
  // After the first record, and with what has to be told of it.
  [[gnu::noinline]] int poll_behind_first(Way* way, const Told& told, bool solicited,
                                          CompletionQueue* poller, int count,
                                          urma_cr_t* cr) noexcept
      URMA_RELEASE(lock_) URMA_NO_THREAD_SAFETY_ANALYSIS {
    int got = 1;
    guarded(URMA_LOG_SITE, [&]() URMA_NO_THREAD_SAFETY_ANALYSIS {
      tell_of_one(poller, solicited);
      take_plain(way, poller, count, cr, &got);
    });
    way->after_turn(told, /*blocked=*/got != count);
    if (got != count && !rests(*way)) return poll_rest(poller, got, count, cr);
    return end_poll(poller, got, cr);
  }
  int end_poll(CompletionQueue* poller, int got, urma_cr_t* cr) noexcept
      URMA_RELEASE(lock_) URMA_NO_THREAD_SAFETY_ANALYSIS {
    lock_.leave();
    return got == 0 ? poller->finish_poll(0, cr) : poller->end_poll(got);
  }
  // After `got` records, of fewer than `count`.
  [[gnu::noinline]] int poll_rest(CompletionQueue* poller, int got, int count,
                                  urma_cr_t* cr) noexcept
      URMA_RELEASE(lock_) URMA_NO_THREAD_SAFETY_ANALYSIS {
    got += take_turns(poller, count - got, cr + got);
    lock_.leave();
    if (got != count && !poller->ring().empty()) [[unlikely]]
      return poller->poll_rest_guarded(got, count, cr);
    return poller->finish_poll(got, cr);
  }
  // Writes records of up to `count` messages; false if there is something else to do.
  [[gnu::always_inline]] bool take_whole(CompletionQueue* poller, int count, urma_cr_t* cr,
                                         int* got) URMA_REQUIRES(lock_) {
    // Earlier records may lie in the ring: another thread has moved messages since this poll began.
    if (holding_ != nullptr || to_flush_ != 0 || !poller->ring().empty()) [[unlikely]]
      return false;
    if (ways_.size() != 1) [[unlikely]]
      return ways_.size() > Turns::kFew &&
             turns_.all_rest(ways_, [](const std::shared_ptr<Way>& way) { return rests(*way); });
    Way* const way = ways_.front().get();
    if (rests(*way)) return true;
    const auto told = way->told();
    take_plain(way, poller, count, cr, got);
    way->after_turn(told, /*blocked=*/*got != count);
    return *got == count || rests(*way);
  }
  [[gnu::always_inline]] void take_plain(Way* way, CompletionQueue* poller, int count,
                                         urma_cr_t* cr, int* got) URMA_REQUIRES(lock_) {
    bool solicited = false;
    while (*got != count && take_one(way, poller, &cr[*got], &solicited)) {
      ++*got;
      tell_of_one(poller, solicited);
    }
  }
  bool below_limit() const URMA_REQUIRES(lock_) { return posted_.size() < this->limit_; }
  // A receive was taken. Its event comes first: there may be no memory for that of a limit, which
  // the next receive makes up for.
  [[gnu::always_inline]] void tell_of_one(CompletionQueue* jfc, bool solicited)
      URMA_REQUIRES(lock_) {
    jfc->completed(1, solicited);
    this->watch_limit(posted_.size());
  }
  // One plain message that goes to one place; tell_of_one() follows. False: nothing was done.
  [[gnu::always_inline]] bool take_one(Way* way, CompletionQueue* poller, urma_cr_t* cr,
                                       bool* solicited) URMA_REQUIRES(lock_) {
    Message message;
    if (!way->peek_plain(&message)) return false;
    ReceiveEntry* const entry = posted_.front();
    // Acquire pairs with the release in IncomingWay::abandon.
    if (way->abandoned.load(std::memory_order_acquire) || way->jfc != poller || entry == nullptr ||
        entry->pieces != 1 ||
        (way->bond != nullptr && !bound_to(*way->bond, way->sender.eid, way->sender.id)) ||
        this->check_room(entry, message.length) != URMA_CR_SUCCESS) [[unlikely]] {
      return false;
    }
    way->copy_plain(message, reinterpret_cast<char*>(ReceiveQueue::pieces(entry)[0].addr));
    way->unbound_since_ns = way->rnr_since_ns = 0;
    this->fill_record(*way, message, *entry, URMA_CR_SUCCESS, cr);
    posted_.pop();
    counters_.ended(URMA_CR_SUCCESS, message.length);
    way->consume(message, URMA_CR_SUCCESS);
    *solicited = (message.flags & kSolicited) != 0;
    return true;
  }
  // A hint: whether a turn would do nothing.
  [[gnu::always_inline]] static bool rests(const Way& way) {
    // Relaxed: the next look finds it.
    return way.silent() && way.unbound_since_ns == 0 &&
           !way.abandoned.load(std::memory_order_relaxed);
  }
  [[gnu::always_inline]] Step turn(Way* way, Poll* poll, bool* moved) URMA_REQUIRES(lock_);
  [[gnu::always_inline]] Step advance(Way* way, Poll* poll) URMA_REQUIRES(lock_);
  [[gnu::cold, gnu::noinline]] Step end_broken(Way* way) URMA_REQUIRES(lock_) {
    URMA_LOG_LIMITED(ERR, "{} broke the rules of its way to queue {}; the way is closed",
                     way->who(), way->target.id);
    way->close(URMA_CR_REM_OPERATION_ERR);
    return Step::kFinished;
  }
  static bool is_solicited(const Message& message, urma_cr_status_t local) {
    return (message.flags & kSolicited) != 0 || local != URMA_CR_SUCCESS;
  }
  // A kind of message that the mode lacks is as bad as an unknown kind.
  static bool is_foreign(const Way& way, const Message& message) {
    return way.messages_only && message.kind != MessageKind::kSend &&
           message.kind != MessageKind::kSendImm;
  }
  [[gnu::always_inline]] Step deliver(Way* way, const Message& message, ReceiveEntry* entry,
                                      Poll* poll) URMA_REQUIRES(lock_);
  [[gnu::noinline]] Step deliver_specially(Way* way, const Message& message, ReceiveEntry* entry,
                                           urma_cr_status_t local, Poll* poll) URMA_REQUIRES(lock_);
  [[gnu::always_inline]] void scatter(const Way& way, const Message& message,
                                      ReceiveEntry* entry) const URMA_REQUIRES(lock_);

  Way* only_way_ URMA_GUARDED_BY(lock_) = nullptr;  // of ways_, if nothing is to be flushed
  size_t first_way_ URMA_GUARDED_BY(lock_) = 0;     // where the next turn begins
  Turns turns_ URMA_GUARDED_BY(lock_){4};           // if the ways are many
  std::atomic<uint32_t> open_{0};                   // ways
  std::atomic<uint32_t> busy_{0};  // ways, and one more if receives are to be flushed
  // Stacked: of this engine and its base. Neither takes all receives, nor all places for records.
  Alternation alternation_;
};

template <typename Derived, ReceivingWay Way, typename Base>
bool ReceiveEngine<Derived, Way, Base>::progress(Poll* poll) {
  bool moved = false;
  const size_t count = ways_.size();
  if (to_flush_ != 0) [[unlikely]] {
    if constexpr (!kStacked) moved = this->flush_posted(poll);
    if (to_flush_ != 0) return moved;
  }
  if (count == 0) return moved;
  // A caller that does not poll needs to know of all.
  if (count > Turns::kFew && poll->room != 0) [[unlikely]]
    return progress_many(poll) || moved;
  // Begins with another way each time: if receives, or places for records, are scarce, the first
  // way takes most of them.
  if (++first_way_ >= count) first_way_ = 0;
  size_t index = first_way_;
  Sweep sweep = {this};
  do {
    sweep.ended |= progress_way(index, poll, &moved);
    if (++index == count) index = 0;
  } while (index != first_way_ && !poll->full());
  return moved;
}

template <typename Derived, ReceivingWay Way, typename Base>
bool ReceiveEngine<Derived, Way, Base>::progress_many(Poll* poll) {
  bool moved = false;
  Sweep sweep = {this};
  turns_.take(
      ways_, [](const std::shared_ptr<Way>& way) -> uint32_t& { return way->silence; },
      [&](const std::shared_ptr<Way>& way) {
        lock_.assume_held();
        if (rests(*way)) return false;
        const bool ended = progress_way(static_cast<size_t>(&way - ways_.data()), poll, &moved);
        sweep.ended |= ended;
        return !ended;
      },
      [&] { return sweep.ended || poll->full(); });
  return moved;
}

template <typename Derived, ReceivingWay Way, typename Base>
inline auto ReceiveEngine<Derived, Way, Base>::turn(Way* way, Poll* poll, bool* moved) -> Step {
  const auto told = way->told();
  Step step = Step::kBlocked;
  for (int message = 0; message < kMessagesPerTurn; ++message) {
    step = way->in_parts() ? go_on_with_parts(way, poll) : advance(way, poll);
    if (step != Step::kMoved) break;
    *moved = true;
    // A part of a large message is a turn.
    if (way->in_parts() || poll->full()) break;
  }
  // Also after a message that waits for something: the sender that waits for the answers may be the
  // one that can end that wait.
  way->after_turn(told, step == Step::kBlocked);
  return step;
}

template <typename Derived, ReceivingWay Way, typename Base>
inline auto ReceiveEngine<Derived, Way, Base>::advance(Way* way, Poll* poll) -> Step {
  // Looked at before the next message: what was published before its end is still delivered.
  // Acquire pairs with the release in IncomingWay::abandon.
  const bool abandoned = way->abandoned.load(std::memory_order_acquire);
  Message message;
  const Peek seen = way->peek(&message);
  if (seen == Peek::kEmpty) {
    way->unbound_since_ns = 0;
    return abandoned ? end_abandoned(way) : Step::kBlocked;
  }
  if (seen == Peek::kBroken || is_foreign(*way, message)) [[unlikely]]
    return end_broken(way);
  urma_cr_status_t refusal;
  if (way->bond != nullptr && !this->from_peer(way, &refusal)) {
    const bool refused = refusal != URMA_CR_SUCCESS;
    if (refused) refuse(way, message, refusal);
    if (abandoned) return end_abandoned(way);
    return refused ? Step::kMoved : Step::kBlocked;
  }
  ReceiveEntry* entry = posted_.front();
  const bool ready = entry != nullptr && way->jfc->ring().has_room();
  // A sender that has gone waits for nothing.
  if (abandoned && (!ready || way->took_back(message))) return end_abandoned(way);
  if (entry == nullptr) {
    refusal = this->refusal_of_waiting(way, message);
    if (refusal == URMA_CR_SUCCESS) return Step::kBlocked;
    refuse(way, message, refusal);
    return Step::kMoved;
  }
  way->rnr_since_ns = 0;
  if (!ready) way->jfc->overflowed();
  return ready ? deliver(way, message, entry, poll) : Step::kBlocked;
}

template <typename Derived, ReceivingWay Way, typename Base>
inline auto ReceiveEngine<Derived, Way, Base>::deliver(Way* way, const Message& message,
                                                       ReceiveEntry* entry, Poll* poll) -> Step {
  const urma_cr_status_t local = this->check(entry, message);
  const bool plain = (message.flags & kByReference) == 0 &&
                     message.kind != MessageKind::kSendInvalidate && local == URMA_CR_SUCCESS;
  if (!plain) [[unlikely]]
    return deliver_specially(way, message, entry, local, poll);
  scatter(*way, message, entry);
  if (!make_record(way, message, *entry, local, poll)) [[unlikely]]
    return Step::kBlocked;
  finish(way, message, local, URMA_CR_SUCCESS);
  return Step::kMoved;
}

template <typename Derived, ReceivingWay Way, typename Base>
auto ReceiveEngine<Derived, Way, Base>::deliver_specially(Way* way, const Message& message,
                                                          ReceiveEntry* entry,
                                                          urma_cr_status_t local, Poll* poll)
    -> Step {
  if (const std::optional<Step> step = begin_own_parts(way, message, entry, local, poll)) {
    return *step;
  }
  if (local == URMA_CR_SUCCESS) {
    if (!invalidate_once(way, message)) {
      way->consume(message, URMA_CR_REM_ACCESS_ABORT_ERR);
      return Step::kMoved;
    }
    scatter(*way, message, entry);
  }
  if (!make_record(way, message, *entry, local, poll)) return Step::kBlocked;
  if (local != URMA_CR_SUCCESS) this->log_failure(*way, message, entry, local);
  way->invalidated = false;
  finish(way, message, local, static_cast<uint8_t>(this->remote_status(local)));
  return Step::kMoved;
}

template <typename Derived, ReceivingWay Way, typename Base>
inline void ReceiveEngine<Derived, Way, Base>::scatter(const Way& way, const Message& message,
                                                       ReceiveEntry* entry) const {
  if (entry->pieces == 1 &&
      way.copy_at_once(message, reinterpret_cast<char*>(ReceiveQueue::pieces(entry)[0].addr)))
      [[likely]] {
    return;
  }
  uint32_t offset = prefix_of(message.kind);
  for (const LocalPiece& piece : ReceiveQueue::pieces(entry)) {
    if (offset == message.payload) break;
    const uint32_t bytes = std::min(piece.len, message.payload - offset);
    way.copy(message, offset, reinterpret_cast<void*>(piece.addr), bytes);
    offset += bytes;
  }
}

template <typename Derived, ReceivingWay Way, typename Base>
inline bool ReceiveEngine<Derived, Way, Base>::make_record(Way* way, const Message& message,
                                                           const ReceiveEntry& entry,
                                                           urma_cr_status_t local, Poll* poll) {
  if (urma_cr_t* record = poll->place(way->jfc); record != nullptr) {
    this->fill_record(*way, message, entry, local, record);
    return true;
  }
  urma_cr_t left;
  this->fill_record(*way, message, entry, local, &left);
  if (way->jfc->ring().push(left, is_solicited(message, local))) [[likely]]
    return true;
  // There was room when the message began; another receiver of the JFC has taken it.
  way->jfc->overflowed();
  return false;
}

template <typename Derived, ReceivingWay Way, typename Base>
void ReceiveEngine<Derived, Way, Base>::finish(Way* way, const Message& message,
                                               urma_cr_status_t local, uint8_t remote) {
  posted_.pop();
  counters_.ended(local, message.length);
  // Whatever has no memory, the message is not received once more.
  guarded(URMA_LOG_SITE, [&]() URMA_NO_THREAD_SAFETY_ANALYSIS {
    tell_of_one(way->jfc, is_solicited(message, local));
  });
  way->consume(message, remote);
}

}  // namespace urma

#endif  // JETTY_RECEIVE_ENGINE_H_
