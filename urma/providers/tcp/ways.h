// SPDX-License-Identifier: MIT
//
// Both ends of a way over a connection. Each end has a lock, which may be taken while a
// connection's is held, not the other way round.
#ifndef URMA_PROVIDERS_TCP_WAYS_H_
#define URMA_PROVIDERS_TCP_WAYS_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jetty/wire.h"
#include "jetty/wire_engine.h"
#include "urma/base/mutex.h"
#include "urma/base/short_mutex.h"
#include "urma/providers/tcp/held_bytes.h"
#include "urma/providers/tcp/messages.h"
#include "urma/providers/tcp/outbox.h"
#include "urma/providers/tcp/payloads.h"

namespace urma::tcp {

class Connection;
class Wire;

// What a send queue has sent by one way, and what its connections report about that.
class SendingEnd {
 public:
  SendingEnd(WireEngine* engine, const CompletionQueue* jfc) : engine_(engine), jfc_(jfc) {}

  // Called by the queue.
  // Acquire pairs with the release in tell().
  bool quiet() const { return !told_.load(std::memory_order_acquire); }
  bool reap(WireReport* report);
  bool ended() const;
  bool is_lost() const;
  std::optional<Answer> answer(uint32_t* members) const;
  std::shared_ptr<Connection> connection() const;
  // No more reports.
  void forget_queue();
  // No more messages. True if the owner of the target must be told now.
  bool close();

  // Called by the search for the owner of the target. False if that is too late.
  bool found(std::shared_ptr<Connection> connection, uint32_t way);
  // The owner's answer, from its connection, or that of a search that found nobody. True if the
  // owner of the target must be told that nothing follows.
  bool answered(Answer answer, uint32_t members = 0);

  // Called by the connection.
  // Whether a message can be sent now; one that never can is reported.
  enum class Turn { kWait, kSend, kEnded };
  // `large`: bytes that follow; 0: none. *lender: the message.
  Turn begin(uint64_t bytes, uint64_t large, uint32_t cookie, Outbox::Lender* lender);
  bool is_sending(uint32_t cookie) const;
  // For a large message: how many of its bytes were sent; kSend if more can be.
  Turn go_on(uint32_t cookie, uint64_t* sent);
  // True for the last bytes.
  bool sent_part(uint64_t bytes);
  // It ends without a report. True if its receiver has to be told.
  bool take_back(uint32_t cookie);
  // These return false if the peer breaks the rules.
  bool pulled();
  bool received(uint32_t count, urma_cr_status_t status);
  // *untold: the owner of the target has yet to be told that nothing follows.
  bool closed(urma_cr_status_t status, bool* untold);
  // May be called again.
  void lost();
  // An access that cannot begin, as its owner is gone.
  void unreachable(uint32_t cookie);
  // Called by any connection. True if it is not that of the target, whose messages wait for it.
  bool began_access(const Connection* by);
  void done(WireReport report, bool elsewhere);
  // Acquire pairs with the release in done().
  bool has_accesses_elsewhere() const { return elsewhere_.load(std::memory_order_acquire) != 0; }
  uint32_t way() const { return way_; }
  // Of the messages: the last one begun, and the last of the `answered` that the peer answers next.
  Outbox::Lender last_begun() const;
  Outbox::Lender last_of(uint32_t answered) const;
  bool awaits_answer() const;

 private:
  struct Sent {
    uint32_t cookie;
    uint64_t bytes;
    bool given_up;  // by the queue, which has ended it: a large message
  };
  // A message whose bytes follow once it has a receive.
  struct Large {
    uint32_t cookie;
    uint64_t bytes;
    uint64_t sent;
    bool pulled;
    bool ended;
  };

  bool reap_ended(WireReport* report) URMA_REQUIRES(mutex_);
  void tell() URMA_REQUIRES(mutex_);
  void give_up_large() URMA_REQUIRES(mutex_);
  void end(urma_cr_status_t status) URMA_REQUIRES(mutex_);
  void end_oldest(urma_cr_status_t status) URMA_REQUIRES(mutex_);

  WireEngine* const engine_;
  mutable ShortMutex mutex_;
  const CompletionQueue* jfc_ URMA_GUARDED_BY(mutex_);  // NULL: no reports
  std::deque<WireReport> reports_ URMA_GUARDED_BY(mutex_);
  std::atomic<bool> told_{false};                  // written under mutex_
  uint32_t accesses_ URMA_GUARDED_BY(mutex_) = 0;  // in flight
  std::atomic<uint32_t> elsewhere_{0};  // those on other connections; written under mutex_
  std::shared_ptr<Connection> connection_ URMA_GUARDED_BY(mutex_);
  uint32_t way_ = 0;
  std::optional<Answer> answer_ URMA_GUARDED_BY(mutex_);
  uint32_t members_ URMA_GUARDED_BY(mutex_) = 0;
  // And not received, or not reaped once it is closed.
  std::deque<Sent> sent_ URMA_GUARDED_BY(mutex_);
  uint64_t begun_ URMA_GUARDED_BY(mutex_) = 0;  // the last of sent_ has this number
  uint64_t sent_bytes_ URMA_GUARDED_BY(mutex_) = 0;
  std::optional<Large> large_ URMA_GUARDED_BY(mutex_);
  bool closing_ URMA_GUARDED_BY(mutex_) = false;
  bool closed_ URMA_GUARDED_BY(mutex_) = false;
  bool lost_ URMA_GUARDED_BY(mutex_) = false;
  urma_cr_status_t closed_with_ URMA_GUARDED_BY(mutex_) = URMA_CR_WR_FLUSH_ERR;
};

class Way final : public urma::Way {
 public:
  Way(Wire* wire, const WayRequest& request, const CompletionQueue& jfc);
  ~Way() override;

  std::optional<Answer> opened(uint32_t* members) override;
  bool send(const Outgoing& message, uint32_t cookie) override;
  bool access(const WireGrant& grant, const WireAccess& access, uint32_t cookie) override;
  void take_back(uint32_t cookie) override;
  bool quiet() const override { return end_->quiet(); }
  bool reap(WireReport* report) override { return end_->reap(report); }
  void push() override;
  void let_go() override;
  void close() override;
  bool ended() const override { return end_->ended(); }
  bool lost() const override { return end_->is_lost(); }

 private:
  // False if it can take nothing any more.
  bool use(const std::shared_ptr<Connection>& connection);

  Wire* const wire_;
  const WayRequest request_;
  const std::shared_ptr<SendingEnd> end_;
  std::shared_ptr<Connection> connection_;  // of the target, once a message has been sent
  std::shared_ptr<Connection> used_;        // the last one, to be pushed
  bool asked_ = false;
};

// A message, as far as it has arrived.
struct Held {
  Message head;
  Payloads::Place payload;
  Charge charge;
  bool taken_back = false;  // the rest does not come
};

class IncomingEnd final : public WireIncoming {
 public:
  IncomingEnd(std::shared_ptr<Connection> connection, uint32_t way, const SegmentTable* segments);

  // Called by the connection. False if the peer breaks the rules.
  bool may_hold(uint64_t payload) const;
  void hold(Held held);
  // A part of the large message begins. False if that many bytes were not requested. 0: the sender
  // has taken the message back, if it has not ended.
  bool begin_part(uint64_t bytes);
  // Calls into() with the places of its next bytes; into() returns how many have arrived, or
  // nothing if no memory backs the places. Nothing if they have no place any more: skip them.
  using Into = std::function<std::optional<size_t>(std::span<const iovec>)>;
  std::optional<size_t> land(uint64_t most, const Into& into);
  void skip(uint64_t bytes);
  void part_ended();
  // As Connection's.
  bool has_messages(bool* stuck);
  // The sender has closed it. False if it had before.
  bool sender_closed();
  // The status of all further messages, once the receiver has closed it; only once: the sender is
  // told then.
  std::optional<uint8_t> take_end();
  // Both sides have closed it.
  bool over() const;

  // Called by the engine.
  // Relaxed: a hint.
  bool silent() const override { return !any_held_.load(std::memory_order_relaxed); }
  void copy_held(uint32_t offset, void* to, uint32_t bytes) const override;
  void close(uint8_t status) override;
  void wake() override;
  std::string who() const override;
  // Relaxed: the engine's own flag, and a hint for others.
  bool comes_in_parts() const override { return wanted_.load(std::memory_order_relaxed); }
  void begin_parts(std::span<const LocalPiece> pieces) override;
  Landing landed() const override;
  void end_parts() override;

  // Returns a number of ended messages with one status, not yet reported to the sender. Called by
  // the connection.
  bool take_owed(ReceivedBody* received);
  uint32_t way() const { return way_; }

 private:
  struct Owed {
    uint32_t count;
    uint8_t status;
  };

  void take_back() URMA_REQUIRES(mutex_);
  std::optional<Message> taken_back() const;
  Peek next(Message* message) override;
  void answer(uint8_t status) override;

  const std::shared_ptr<Connection> connection_;
  const uint32_t way_;
  const SegmentTable* const segments_;
  const Charge charge_;
  mutable Mutex mutex_;
  std::deque<Held> held_ URMA_GUARDED_BY(mutex_);
  std::atomic<bool> any_held_{false};  // of held_; written under mutex_
  const char* payload_ = nullptr;      // of the message that the engine looks at
  uint64_t held_bytes_ URMA_GUARDED_BY(mutex_) = 0;
  uint64_t taken_ URMA_GUARDED_BY(mutex_) = 0;
  std::optional<uint64_t> looked_at_ URMA_GUARDED_BY(mutex_);  // taken_ at that time
  std::deque<Owed> owed_ URMA_GUARDED_BY(mutex_);
  // State of the large message at the front.
  bool pulled_ URMA_GUARDED_BY(mutex_) = false;
  std::atomic<bool> wanted_{false};  // its receive is there; written under mutex_
  bool failed_ URMA_GUARDED_BY(mutex_) = false;
  std::vector<LocalPiece> pieces_ URMA_GUARDED_BY(mutex_);
  uint64_t announced_ URMA_GUARDED_BY(mutex_) = 0;  // by parts
  uint64_t landed_ URMA_GUARDED_BY(mutex_) = 0;
  std::optional<uint8_t> closed_with_ URMA_GUARDED_BY(mutex_);
  bool end_taken_ URMA_GUARDED_BY(mutex_) = false;
  bool sender_closed_ URMA_GUARDED_BY(mutex_) = false;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_WAYS_H_
