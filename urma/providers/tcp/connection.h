// SPDX-License-Identifier: MIT
//
// One stream to another process, for both directions and all queues: frames, in order, and the
// requests in flight. Progressing it executes what the peer requests. A peer that breaks the rules
// ends only its own connection.
#ifndef URMA_PROVIDERS_TCP_CONNECTION_H_
#define URMA_PROVIDERS_TCP_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "jetty/wire.h"
#include "jetty/wire_engine.h"
#include "urma/base/clock.h"
#include "urma/base/mutex.h"
#include "urma/base/short_mutex.h"
#include "urma/providers/tcp/address.h"
#include "urma/providers/tcp/messages.h"
#include "urma/providers/tcp/outbox.h"
#include "urma/providers/tcp/stream.h"
#include "urma/providers/tcp/ways.h"
#include "urma_ext.h"

namespace urma::tcp {

class Wire;

class Connection final : public WireOwner, public std::enable_shared_from_this<Connection> {
 public:
  using OnAnswer = std::function<void(Answer, const AnswerBody&)>;

  // `began`: this process started it.
  Connection(Wire* wire, uint64_t number, std::unique_ptr<Stream> stream, bool began);

  uint64_t number() const { return number_; }
  bool began() const { return began_; }
  WireEngine& engine() const;
  Wire& wire() const { return *wire_; }
  std::string who() const { return text_of(peer_.listens_at); }  // for the log

  // Service thread.
  StreamState greet(std::string* why);
  bool wants_room();
  // Whether a greeting that has failed was refused: as Stream's.
  bool met_peer() {
    const MutexLock lock(mutex_);
    return !gone() && stream_->met_peer();
  }
  // As Stream's. True of one that is gone.
  bool met_host() {
    const MutexLock lock(mutex_);
    return gone() || stream_->met_host();
  }
  const Peer& peer() const { return peer_; }  // once it is open
  // The next one of a list of the wire, under that list's lock or on the service thread.
  std::shared_ptr<Connection> next_lost;
  const urma_eid_t& here() const { return here_; }
  uint64_t age_ns() const { return monotonic_ns() - began_ns_; }
  // For lists, except what is the same for all. Service thread.
  urma_ext_connection_t describe(urma_ext_connection_state_t state) const;

  // Processes what the peer has sent, unless another thread does, and sends what is due. `to_end`:
  // also notices an end of the stream right behind it; otherwise the next call does. True if
  // something has come. Any thread.
  bool progress(bool to_end = false);
  // The same, but waits for its turn: what stays unread wakes the service thread again at once.
  void serve();
  // Sends what is due, as far as there is room. `answers`: for a program that posts.
  void push(bool answers);
  bool awaits();
  // Whether messages wait for a receiver; *stuck is set if one has since the last call.
  bool has_messages(bool* stuck);
  // Since the last call nothing has arrived here or, of what was sent, at the peer's host. Asks for
  // a sign of life then.
  bool silent();
  int fd() const { return fd_; }
  // What its peer makes this process hold.
  uint64_t holds() const { return held_.get(); }
  Charge charge(uint64_t bytes) { return {&held_, bytes}; }
  // Ends everything in flight. Needs no memory.
  void end(std::string_view why);
  // Tells those who wait for it that it has ended, as far as they were not. Service thread.
  void tell_ended();

  // This stream is the one to keep.
  void greet_peer() { say(HelloBody{}); }
  void ping() { say(PingBody{}); }
  // The body of a kFind, kProbe or kAskGrant, which gets its ticket here. Calls answered() in any
  // case: here, if it cannot be asked.
  template <typename Body>
  void ask(Body body, OnAnswer answered) {
    {
      const MutexLock lock(mutex_);
      ending_where_it_fails([&] {
        mutex_.assume_held();
        if (gone()) return;
        body.ticket = add_ticket(&answered);
        put(body);
        flush();
      });
    }
    // Without the lock: it may ask others, and call the program.
    if (answered) answered(Answer::kUnreachable, {});
  }
  void tell_unregistered(SegmentRef segment);

  // The ways of this process.
  void open_way(const WayRequest& request, const std::shared_ptr<SendingEnd>& end);
  bool send(SendingEnd* end, const Outgoing& message, uint32_t cookie);
  bool access(const std::shared_ptr<SendingEnd>& end, SegmentRef segment, const WireAccess& access,
              uint32_t cookie);
  // The rest of its large message does not come.
  void take_back(uint32_t way) { say(PartBody{way}, /*awaits=*/true); }
  void close_way(uint32_t way) { say(CloseWayBody{way}, /*awaits=*/true); }
  // Requests end without a report: their memory is not used any more.
  void let_go();

  // The ways of the peer. The peer is owed a report; report() follows if that is `urgent`.
  void owe(uint32_t way, bool urgent);
  // Hands what is owed to the kernel: the program may end once it has a message.
  void report();
  void incoming_closed(IncomingEnd* end);
  void pull(uint32_t way) { say(PullBody{way}, /*awaits=*/true); }

  // WireOwner
  bool stands(SegmentRef segment) const override;
  bool gone() const override {
    // Acquire pairs with the release in lose().
    return lost_.load(std::memory_order_acquire);
  }

 private:
  // The part of a frame that has arrived.
  struct Landing {
    FrameKind kind = FrameKind::kPing;
    uint64_t left = 0;
    char body[kLargestBody];
    char* into = nullptr;  // NULL: determined by the kind
    uint64_t operand[4];
    uint64_t done = 0;
    bool placing = false;  // what was read, to the places of its request
    bool faulted = false;  // its place is not backed: the rest passes through the buffer
    uint32_t last = 0;     // bytes of a write that have to be written last
    urma_cr_status_t status = URMA_CR_SUCCESS;
    Held held;
    std::vector<char> bytes;
    std::shared_ptr<IncomingEnd> way;
  };
  struct Access {
    std::shared_ptr<SendingEnd> end;
    uint32_t cookie;
    uint32_t fetches;
    bool elsewhere;             // as SendingEnd calls it
    std::vector<iovec> places;  // of a large read
  };

  // Sending.
  template <typename Body>
  static std::span<const char> bytes_of(const Body& body) {
    return {reinterpret_cast<const char*>(&body), shape<Body>().body};
  }
  template <typename Body>
  void put(const Body& body, std::span<const iovec> payload = {},
           const std::optional<Outbox::Lender>& lender = std::nullopt) URMA_REQUIRES(mutex_) {
    put_frame(Body::kKind, bytes_of(body), payload, lender);
  }
  // `lender`: the request whose payload may stay where it is until it has left.
  void put_frame(FrameKind kind, std::span<const char> body, std::span<const iovec> payload,
                 const std::optional<Outbox::Lender>& lender) URMA_REQUIRES(mutex_);
  // `awaits`: the peer answers it.
  template <typename Body>
  void say(const Body& body, bool awaits = false) {
    say_frame(Body::kKind, bytes_of(body), awaits);
  }
  void say_frame(FrameKind kind, std::span<const char> body, bool awaits);
  void flush() URMA_REQUIRES(mutex_);
  void send_waiting(bool ahead) URMA_REQUIRES(mutex_);
  void put_owed() URMA_REQUIRES(mutex_);
  bool has_room() const URMA_REQUIRES(mutex_);
  size_t waiting() const URMA_REQUIRES(mutex_) { return out_.bytes(); }
  bool go_on_sending(SendingEnd* end, const Outgoing& message, uint32_t cookie)
      URMA_REQUIRES(mutex_);
  // Takes *answered, unless it fails.
  uint32_t add_ticket(OnAnswer* answered) URMA_REQUIRES(mutex_);

  // Receiving.
  bool take_turn(bool to_end) URMA_REQUIRES(mutex_);
  bool receive_some(bool to_end) URMA_REQUIRES(mutex_);
  std::optional<size_t> receive_behind(std::span<const iovec> places) URMA_REQUIRES(mutex_);
  bool lands() const URMA_REQUIRES(mutex_);
  std::optional<size_t> land_bare() URMA_REQUIRES(mutex_);
  template <typename Come>
  std::optional<size_t> land(uint64_t most, const Come& come) URMA_REQUIRES(mutex_);
  std::optional<size_t> land_write() URMA_REQUIRES(mutex_);
  void take_frames() URMA_REQUIRES(mutex_);
  bool begin_frame() URMA_REQUIRES(mutex_);
  bool feed() URMA_REQUIRES(mutex_);
  bool feed_write(std::span<const char> come) URMA_REQUIRES(mutex_);
  void stop_placing() URMA_REQUIRES(mutex_);
  template <typename Body>
  Body body() const URMA_REQUIRES(mutex_) {
    Body body;
    std::memcpy(&body, landing_.body, sizeof(body));
    return body;
  }

  // Handle frames. False if the peer breaks the rules.
  bool begin(FrameKind kind) URMA_REQUIRES(mutex_);
  bool begin_message() URMA_REQUIRES(mutex_);
  bool may_hold(uint64_t more) URMA_REQUIRES(mutex_);
  bool begin_part() URMA_REQUIRES(mutex_);
  bool begin_access() URMA_REQUIRES(mutex_);
  bool begin_done() URMA_REQUIRES(mutex_);
  bool take(FrameKind kind) URMA_REQUIRES(mutex_);
  void take_find(const FindBody& asked) URMA_REQUIRES(mutex_);
  void take_probe(const ProbeBody& asked) URMA_REQUIRES(mutex_);
  void take_ask_grant(const AskGrantBody& asked) URMA_REQUIRES(mutex_);
  bool take_ended(const SegmentRef& ref) URMA_REQUIRES(mutex_);
  bool take_answer(const AnswerBody& answer) URMA_REQUIRES(mutex_);
  bool take_open_way(const OpenWayBody& asked) URMA_REQUIRES(mutex_);
  void accept_way(const OpenWayBody& asked);
  bool take_way_opened(const WayOpenedBody& opened) URMA_REQUIRES(mutex_);
  bool take_received(const ReceivedBody& received) URMA_REQUIRES(mutex_);
  bool take_close_way(const CloseWayBody& closed) URMA_REQUIRES(mutex_);
  bool take_way_closed(const WayClosedBody& closed) URMA_REQUIRES(mutex_);
  void execute() URMA_REQUIRES(mutex_);
  void answer_access(urma_cr_status_t status, iovec payload) URMA_REQUIRES(mutex_);
  bool take_done() URMA_REQUIRES(mutex_);

  // Calls `work`. Out of memory: ends the connection, and everything in flight.
  template <typename Work>
  void ending_where_it_fails(const Work& work) URMA_REQUIRES(mutex_) {
    try {
      work();
    } catch (const std::exception& failure) {
      if (!gone()) give_up(failure.what());
    }
  }
  // Calls `work` on the service thread. If it fails, the connection ends: no answer would come.
  template <typename Work>
  void post_or_end(Work work) {
    engine().service().post([self = shared_from_this(), work = std::move(work)] {
      try {
        work(self.get());
      } catch (const std::exception& failure) {
        self->end(failure.what());
      }
    });
  }
  void give_up(std::string_view why) URMA_REQUIRES(mutex_);
  void break_off(const char* what) URMA_REQUIRES(mutex_);
  void lose_stream(const std::string& why) URMA_REQUIRES(mutex_);
  void lose() URMA_REQUIRES(mutex_);
  void tell_requests() URMA_REQUIRES(mutex_);

  Wire* const wire_;
  const uint64_t number_;
  const bool began_;
  const int fd_;
  HeldBytes held_;
  Charge own_held_ URMA_GUARDED_BY(mutex_);
  const uint64_t began_ns_;
  const urma_eid_t here_;
  Peer peer_;
  std::atomic<uint64_t> sent_bytes_{0};
  std::atomic<uint64_t> received_bytes_{0};
  std::atomic<uint64_t> sent_requests_{0};
  std::atomic<uint64_t> received_requests_{0};
  PeerGrants grants_;  // given to the peer
  std::atomic<bool> lost_{false};

  Mutex mutex_;
  std::unique_ptr<Stream> stream_ URMA_GUARDED_BY(mutex_);
  bool heard_ URMA_GUARDED_BY(mutex_) = false;
  uint64_t reads_ URMA_GUARDED_BY(mutex_) = 0;       // that have brought something
  bool greeted_ URMA_GUARDED_BY(mutex_) = false;     // the peer has said that it keeps this one
  bool full_ URMA_GUARDED_BY(mutex_) = false;        // a request waits for room
  bool wants_room_ URMA_GUARDED_BY(mutex_) = false;  // as the wire knows it
  bool reported_ URMA_GUARDED_BY(mutex_) = false;    // since the program last polled or posted
  bool ahead_ URMA_GUARDED_BY(mutex_) = false;       // the bytes of that report wait in the kernel
  bool answers_ URMA_GUARDED_BY(mutex_) = false;     // the program answered after the last report
  Outbox out_ URMA_GUARDED_BY(mutex_);
  Charge answers_held_ URMA_GUARDED_BY(mutex_);  // if they are many
  Charge ended_held_ URMA_GUARDED_BY(mutex_);    // of ended_
  std::vector<char> in_ URMA_GUARDED_BY(mutex_);
  size_t in_begin_ URMA_GUARDED_BY(mutex_) = 0;
  size_t in_end_ URMA_GUARDED_BY(mutex_) = 0;
  bool in_frame_ URMA_GUARDED_BY(mutex_) = false;
  bool bulk_ URMA_GUARDED_BY(mutex_) = false;  // the payload of the last frame was large
  Landing landing_ URMA_GUARDED_BY(mutex_);
  uint32_t done_ URMA_GUARDED_BY(mutex_) = 0;  // successful accesses of the peer, not reported
  std::deque<Access> accesses_ URMA_GUARDED_BY(mutex_);
  uint64_t accesses_begun_ URMA_GUARDED_BY(mutex_) = 0;  // the last of accesses_ has this number
  uint64_t fetched_ URMA_GUARDED_BY(mutex_) = 0;         // bytes that they request
  std::unordered_map<uint32_t, OnAnswer> tickets_ URMA_GUARDED_BY(mutex_);
  uint32_t last_ticket_ URMA_GUARDED_BY(mutex_) = 0;
  uint32_t asked_ URMA_GUARDED_BY(mutex_) = 0;  // requests of the peer without an answer
  uint32_t last_way_ URMA_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint32_t, std::shared_ptr<SendingEnd>> sending_ URMA_GUARDED_BY(mutex_);
  std::unordered_map<uint32_t, std::shared_ptr<IncomingEnd>> incoming_ URMA_GUARDED_BY(mutex_);
  std::unordered_set<uint32_t> opening_ URMA_GUARDED_BY(mutex_);  // by the peer

  std::vector<uint32_t> owing_now_ URMA_GUARDED_BY(mutex_);    // for put_owed() alone
  ShortMutex owing_mutex_;                                     // taken under mutex_
  std::vector<uint32_t> owing_ URMA_GUARDED_BY(owing_mutex_);  // ways of the peer
  std::atomic<bool> owes_{false};                              // any; written under owing_mutex_
  mutable Mutex ended_mutex_;                                  // taken under mutex_
  // The latest generation that has ended, for each index of the peer's registrations.
  std::unordered_map<uint32_t, uint32_t> ended_ URMA_GUARDED_BY(ended_mutex_);
  std::atomic<bool> any_ended_{false};
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_CONNECTION_H_
