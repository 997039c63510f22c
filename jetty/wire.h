// SPDX-License-Identifier: MIT
//
// What a provider implements whose network hands messages over: how bytes travel, and nothing else.
// Order, fences, posted receives, completions, states, limits, events and imports are the engine's
// (wire_engine.h). urma/providers/loopback is a whole provider on it.
//
// A wire never trusts what comes from its network. A peer's requests go to the engine's judge(),
// accept(), grant() and execute(), which check them; the engine checks the heads of messages and
// the sizes of reports if it takes them. The wire checks the lengths of what it reads.
#ifndef JETTY_WIRE_H_
#define JETTY_WIRE_H_

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "jetty/directory_transport.h"
#include "jetty/message.h"
#include "jetty/message_receiver.h"
#include "jetty/receive_engine.h"
#include "jetty/remote.h"
#include "segment/segment.h"

namespace urma {

class WireEngine;

// A message to be sent: all of `payload` counts, with an Invalidation first if the kind has one.
struct Outgoing {
  MessageKind kind;
  uint8_t flags;  // MessageFlag, without kByReference
  uint32_t length;
  uint64_t immediate;
  std::span<const iovec> payload;
};

// What a request does to granted memory: kRead, kWrite, kAtomic or kWriteAtomic.
struct WireAccess {
  OpKind kind;
  uint16_t opcode;
  uint64_t addr;
  uint64_t bytes;
  uint64_t operand[4];           // as SendEntry has them
  std::span<const iovec> local;  // the bytes of a write, the places of those that a read fetches
};

// How a message or an access that a way was given has ended.
struct WireReport {
  uint32_t cookie;
  urma_cr_status_t status;
  std::vector<char> bytes;  // what was read, or the old value of an atomic
  uint64_t placed = 0;      // bytes read that lie in WireAccess::local instead
};

// The process that has granted something.
class WireOwner {
 public:
  virtual ~WireOwner() = default;
  // Whether that registration still stands, as far as known here. Any thread.
  virtual bool stands(SegmentRef segment) const = 0;
  // It no longer answers. Any thread.
  virtual bool gone() const = 0;
};

// A grant, and the process that gave it.
struct WireGrant {
  SegmentGrant segment;
  std::shared_ptr<const WireOwner> owner;
  Wanted wanted = {};  // what it was granted for; filled in by the engine

  bool stands() const { return owner->stands(segment.ref); }
  bool owner_gone() const { return owner->gone(); }
};

// The sending end of a way to one target. All calls hold the lock of its send queue. What send()
// and access() have taken is reported exactly once; messages in order, and after all accesses
// before them have been executed. Until then, or let_go(), a way may use the memory that it was
// given; memory that is not registered only during the call.
class Way {
 public:
  // What was sent still arrives, though nobody is told.
  virtual ~Way() = default;
  // The owner's answer to messages of this way; nothing before it has come. The first call asks.
  // WireEngine::serve_senders() tells those who wait that it has come. *members: of a group.
  virtual std::optional<Answer> opened(uint32_t* members) = 0;
  // False if there is no room now.
  virtual bool send(const Outgoing& message, uint32_t cookie) = 0;
  virtual bool access(const WireGrant& grant, const WireAccess& access, uint32_t cookie) = 0;
  // If send() has begun this message, and not taken it, it ends without a report.
  virtual void take_back(uint32_t /*cookie*/) {}
  // A hint for the next two: there is no report, and it has not ended.
  virtual bool quiet() const { return false; }
  // The next report; false if there is none.
  virtual bool reap(WireReport* report) = 0;
  // Sends what was given; until then it may be held back for more.
  virtual void push() {}
  // Requests end before their report: the way does not touch their memory any more.
  virtual void let_go() {}
  // Sends nothing further; what was not received ends with URMA_CR_WR_FLUSH_ERR.
  virtual void close() = 0;
  // Nothing can be sent on it any more, and everything that it was given has been reported.
  virtual bool ended() const = 0;
  // Whether that is because the owner of the target no longer answers.
  virtual bool lost() const { return false; }
};

// The receiving end of a way: see ReceivingWay (receive_engine.h). All calls hold the lock of the
// receiver.
class WireIncoming : public IncomingWay {
 public:
  virtual ~WireIncoming() = default;
  Peek peek(Message* message) {
    const Peek seen = next(message);
    if (seen != Peek::kMessage) return seen;
    return is_whole(*message) || is_announced(*message) ? seen : Peek::kBroken;
  }
  void copy(const Message& /*message*/, uint32_t offset, void* to, uint32_t bytes) const {
    copy_held(offset, to, bytes);
  }
  // For the engine. Counts what the sender is told.
  void consume(const Message& message, uint8_t status) {
    told_ += (message.flags & kWantsAnswer) != 0 || status != URMA_CR_SUCCESS ? 1 : 0;
    drop_staged();
    answer(status);
  }
  // Everything further ends with `status` for the sender.
  virtual void close(uint8_t status) = 0;
  virtual bool silent() const { return false; }
  // Wakes the sender if it sleeps.
  virtual void wake() = 0;
  virtual std::string who() const = 0;

  // A message whose bytes come once there is a receive for them: they land in its pieces until all
  // have come, or until end_parts(), after which no piece is written. kTakenBack: the rest does not
  // come; without in_parts(), peek() passes the message.
  enum class Landing { kComing, kWhole, kFailed, kTakenBack };
  bool in_parts() const { return unpacking() || comes_in_parts(); }
  virtual bool comes_in_parts() const { return false; }
  virtual void begin_parts(std::span<const LocalPiece> /*pieces*/) {}
  virtual Landing landed() const { return Landing::kFailed; }
  virtual void end_parts() {}
  // The same without a receive: the bytes land in `memory`, which has room for the message. After
  // end_staging() it can be unpacked.
  void stage(std::shared_ptr<char[]> memory, const Message& message) {
    staged_ = std::move(memory);
    const LocalPiece all = {
        reinterpret_cast<uint64_t>(staged_.get()), message.length, /*valid=*/true, {}, 0};
    try {
      begin_parts({&all, 1});
    } catch (...) {
      drop_staged();
      throw;
    }
  }
  bool staging() const { return staged_ != nullptr && !staged_whole_; }
  void end_staging() {
    end_parts();
    staged_whole_ = true;
  }
  bool staged_whole() const { return staged_whole_; }
  // Copies a staged message into the pieces of its receive, as much in a turn as one turn may: the
  // thread that does so serves the network too. True once all bytes lie there.
  void begin_unpacking() { unpacked_ = 0; }
  bool unpacking() const { return unpacked_.has_value(); }
  bool unpack(std::span<const LocalPiece> pieces, uint64_t length);

  static constexpr bool kIsNear = false;
  static bool peek_plain(Message* /*message*/) { return false; }
  static void copy_plain(const Message& /*message*/, char* /*to*/) {}
  bool copy_at_once(const Message& /*message*/, char* /*to*/) const { return false; }
  uint64_t told() const { return told_; }
  void after_turn(uint64_t before, bool /*blocked*/) {
    if (has_to_tell(before)) wake();
  }
  bool has_to_tell(uint64_t before) const { return told_ != before; }
  bool took_back(const Message& message) const { return is_announced(message) && !staged_whole_; }

 protected:
  // Whether the places of the bytes that come are no registered memory.
  bool is_staged() const { return staged_ != nullptr; }
  // Nothing lands in it any more.
  void drop_staged() {
    staged_.reset();
    staged_whole_ = false;
    unpacked_.reset();
  }

 private:
  // As peek(); the engine checks the head.
  virtual Peek next(Message* message) = 0;
  // As copy(), of what lies in the way.
  virtual void copy_held(uint32_t offset, void* to, uint32_t bytes) const = 0;
  // The first message has ended with this status.
  virtual void answer(uint8_t status) = 0;

  uint64_t told_ = 0;
  std::shared_ptr<char[]> staged_;
  bool staged_whole_ = false;
  std::optional<uint64_t> unpacked_;  // bytes
};
static_assert(ReceivingWay<WireIncoming>);

// The EIDs of a device, and which process has which ids, if the runtime directory does not hold
// them. As Transport's.
class WireNames {
 public:
  virtual ~WireNames() = default;
  virtual std::span<const urma_eid_t> eids() const = 0;
  virtual uint32_t take_id(IdKind kind, uint32_t eid_index, uint32_t chosen) = 0;
  virtual void free_id(IdKind kind, uint32_t eid_index, uint32_t id) = 0;
};

class Wire {
 public:
  virtual ~Wire() = default;
  // Called before all else.
  virtual void start(WireEngine* engine) = 0;
  // NULL: those of the runtime directory.
  virtual WireNames* names() { return nullptr; }
  // It is no longer used. Service thread.
  virtual void stop() = 0;
  // With the lock of a send queue whose requests complete into `jfc`: threads that sleep there are
  // woken for reports, see WireEngine::arrived(). Throws Error.
  virtual std::unique_ptr<Way> make_way(const WayRequest& request, const CompletionQueue& jfc) = 0;
  // Asks the owner of a target, or of memory. Service thread, as the answer.
  virtual void probe(const ProbeTarget& target, std::function<void(Answer)> answered) = 0;
  virtual void ask_grant(const GrantRequest& request,
                         std::function<void(Answer, const WireGrant&)> answered) = 0;
  // Told of the owners that are gone; NULL: none ever is.
  virtual PeerWatches* watches() { return nullptr; }
  // Something will be sent to the target soon. Any thread.
  virtual void connect_ahead(const RemoteQueue& /*target*/) {}
  // Breaks the connection to the owner of the target, as a network does (URMA_FAULT), and calls
  // lost() once everybody who watches the owner knows. Any thread.
  // Overrides keep it. NOLINTNEXTLINE(performance-unnecessary-value-param)
  virtual void lose_connection(const RemoteQueue& /*target*/, std::function<void()> lost) {
    lost();
  }
  // For a poll: moves what has come, so that the service thread need not. True if something has.
  // With locks of queues.
  virtual bool progress() { return false; }
  // The same for a poll of queues without its ways.
  void progress_now() {
    // Relaxed, here and below: a look more or less.
    if (progress()) idle_looks_.store(0, std::memory_order_relaxed);
  }
  // For polls of queues that have other ways too, which would pay for each look: those after
  // kPatience looks at nothing are seldom.
  void progress_beside_others() {
    const uint32_t idle = idle_looks_.load(std::memory_order_relaxed);
    const bool moved = (idle < kPatience || idle % kPollsPerLook == 0) && progress();
    idle_looks_.store(moved ? 0 : idle + 1, std::memory_order_relaxed);
  }
  // A thread that polled goes to sleep. Any thread.
  virtual void asleep() {}
  // Appends the connections to other processes, if it has any; throws as require_room(). Any thread
  // that holds no lock.
  virtual void list_connections(size_t /*most*/,
                                std::vector<urma_ext_connection_t>* /*connections*/) const {}
  // A registration no longer stands. Any thread.
  virtual void unregistered(SegmentRef /*segment*/) {}

 private:
  // Longer than the answer of a host nearby takes.
  static constexpr uint32_t kPatience = 256;
  static constexpr uint32_t kPollsPerLook = 16;

  std::atomic<uint32_t> idle_looks_{0};  // since something has come
};

}  // namespace urma

#endif  // JETTY_WIRE_H_
