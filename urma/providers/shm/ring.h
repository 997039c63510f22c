// SPDX-License-Identifier: MIT
//
// The ring that carries messages from one send queue to one receive queue in another process: one
// producer, one consumer, in memory that the producer made and both map.
//
// A message takes one or more slots of 64 bytes: header and up to 40 bytes in the first one, so
// that a small message moves one cache line. One release store to its first word publishes it; that
// word carries the message's position, so the consumer needs no index of the producer and writes
// nothing into the slots. The consumer publishes its own position when the producer waits for it.
//
// Neither side trusts the other: positions are kept privately, and everything read from the shared
// memory is read once and checked against private bounds.
#ifndef URMA_PROVIDERS_SHM_RING_H_
#define URMA_PROVIDERS_SHM_RING_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "jetty/memory_access.h"
#include "jetty/message.h"
#include "segment/segment.h"
#include "segment/shared_memory.h"
#include "urma/base/cache_line.h"
#include "urma/providers/shm/joint_copy.h"
#include "urma_opcode.h"
#include "urma_types.h"

namespace urma::shm {

inline constexpr uint32_t kSlotBytes = 64;
inline constexpr uint32_t kMinRingBytes = 4096;
inline constexpr uint32_t kMaxRingBytes = 1 << 20;
// The most that one request may move.
inline constexpr uint32_t kMaxMessageBytes = 1U << 31;

struct PayloadPiece {
  uint64_t addr;
  uint32_t len;
  uint32_t token_id;  // of the segment that it lies in, if everybody may read that; else 0
};

// The first slot of a message begins with this.
struct MessageHeader {
  std::atomic<uint64_t> word;  // position tag, kind, flags, number of slots
  uint32_t length;             // bytes of the message, wherever they lie
  uint32_t payload;            // bytes that follow in the ring, with the prefix
  uint64_t immediate;
};
static_assert(sizeof(MessageHeader) == 24 && std::atomic<uint64_t>::is_always_lock_free);

// How a consumer copies the bytes of messages by reference. A hint for the producer.
enum class CopyMethod : uint32_t {
  kByKernel = 0,  // or not at all yet
  kMapped = 1,
  kStaged = 2,  // the sender's service thread has to help
};

// Written by the consumer. One cache line of its own.
struct alignas(kCacheLine) RingAnswers {
  std::atomic<uint64_t> consumed;  // slots that the producer may use again
  std::atomic<uint32_t> closed;    // a urma_cr_status_t: everything further ends with it
  std::atomic<uint32_t> copies;    // a CopyMethod: how the last message by reference was copied
};

// Written by the producer, besides messages. One cache line of its own.
struct alignas(kCacheLine) RingRequests {
  std::atomic<uint64_t> wanted;  // the position up to which the producer waits for an answer
};
static_assert(sizeof(RingAnswers) == kCacheLine && sizeof(RingRequests) == kCacheLine);

// A word that is no message at this position, nor at another one that has the same slot.
constexpr uint64_t no_message(uint64_t position) { return static_cast<uint32_t>(position); }

// A message's first word: the low half of position + 1 (so that zeroed memory is no message in the
// first lap), then kind, flags and the number of slots.
[[gnu::always_inline]] constexpr uint64_t first_word(uint64_t position, MessageKind kind,
                                                     uint8_t flags, uint32_t slots) {
  return static_cast<uint32_t>(position + 1) | uint64_t{static_cast<uint8_t>(kind)} << 32 |
         uint64_t{flags} << 40 | uint64_t{slots} << 48;
}

// The payload that one slot carries.
inline constexpr uint32_t kSlotPayload = kSlotBytes - sizeof(MessageHeader);

// Without a call or a loop, which would need more registers. Bytes may be copied twice.
[[gnu::always_inline]] inline void copy_payload_of_slot(char* to, const char* from,
                                                        uint32_t bytes) {
  static_assert(kSlotPayload <= 48);
  if (bytes == 8) return static_cast<void>(std::memcpy(to, from, 8));
  if (bytes < 8) return copy_word(to, from, bytes);
  if (bytes <= 16) {
    std::memcpy(to, from, 8);
    std::memcpy(to + bytes - 8, from + bytes - 8, 8);
    return;
  }
  std::memcpy(to, from, 16);
  if (bytes > 32) std::memcpy(to + 16, from + 16, 16);
  std::memcpy(to + bytes - 16, from + bytes - 16, 16);
}

inline uint32_t slots_for(uint32_t payload) {
  return (sizeof(MessageHeader) + payload + kSlotBytes - 1) / kSlotBytes;
}

// The layout of the shared memory of a ring with `bytes` bytes of slots.
class RingLayout {
 public:
  RingLayout(void* base, uint32_t bytes);
  static uint32_t total_bytes(uint32_t bytes);
  static bool valid_size(uint32_t bytes);

  uint32_t slots() const { return slots_; }
  // A quarter of the ring, so that large messages cannot shut out the small ones behind them.
  uint32_t max_payload() const { return max_payload_of(slots_ * kSlotBytes); }
  static uint32_t max_payload_of(uint32_t bytes) {
    return bytes / 4 - static_cast<uint32_t>(sizeof(MessageHeader));
  }
  RingAnswers& answers() const { return *static_cast<RingAnswers*>(base_); }
  RingRequests& requests() const { return *reinterpret_cast<RingRequests*>(&answers() + 1); }
  JointCopy& joint() const { return *reinterpret_cast<JointCopy*>(&requests() + 1); }
  std::atomic<uint8_t>& answer(uint64_t position) const {
    // One for each slot, written by the consumer for messages that failed.
    char* first = reinterpret_cast<char*>(&joint() + 1);
    return *reinterpret_cast<std::atomic<uint8_t>*>(first + (position & (slots_ - 1)));
  }
  MessageHeader& header(uint64_t position) const {
    return *reinterpret_cast<MessageHeader*>(first_slot_ + (position & (slots_ - 1)) * kSlotBytes);
  }
  void copy_in(uint64_t position, uint32_t offset, const void* from, uint32_t bytes) const;
  void copy_out(uint64_t position, uint32_t offset, void* to, uint32_t bytes) const;

 private:
  char* payload_at(uint64_t position, uint32_t offset, uint32_t* contiguous) const;

  void* base_;
  char* first_slot_;
  uint32_t slots_;
};

class RingProducer {
 public:
  explicit RingProducer(uint32_t bytes) : RingProducer(bytes, bytes) {}
  // Carries the same messages as a smaller ring of `as` bytes, but more of them at a time.
  RingProducer(uint32_t bytes, uint32_t as);

  const SharedMemory& memory() const { return memory_; }
  // Call once the consumer has it, or will not get it.
  void close_fd() { memory_.close_fd(); }
  uint32_t bytes() const { return bytes_; }
  // The most payload that one message carries in the ring itself.
  uint32_t max_payload() const { return max_payload_; }

  // False if there is no room until more is reaped.
  bool room_for(uint32_t payload) const;
  // A message is begun, filled piece by piece, and published. Needs room_for() before. reap()
  // returns `cookie`.
  void begin(uint32_t payload);
  void append(const void* data, uint32_t bytes);
  void publish(MessageKind kind, uint8_t flags, uint32_t length, uint64_t immediate,
               uint32_t cookie);

  // Publishes a message of one slot at once; false if more is to be done. Makes no call.
  [[gnu::always_inline]] bool publish_slot(MessageKind kind, uint8_t flags, const char* data,
                                           uint32_t bytes, uint64_t immediate, uint32_t cookie);

  // The oldest message that the consumer is through with; false if there is none. *status is the
  // urma_cr_status_t that it ended with.
  bool reap(uint32_t* cookie, uint8_t* status) {
    if (reaped_ == head_) return false;
    const Sent& sent = sent_[reaped_ & (layout_.slots() - 1)];
    const uint64_t end = reaped_ + sent.slots;
    if (end > consumed_ && end > refresh_consumed()) return false;
    *cookie = sent.cookie;
    std::atomic<uint8_t>& answer = layout_.answer(reaped_);
    // Relaxed: ordered by ring-consumed, which the consumer publishes after the answer.
    *status = answer.load(std::memory_order_relaxed);
    if (*status != URMA_CR_SUCCESS) [[unlikely]]
      answer.store(URMA_CR_SUCCESS, std::memory_order_relaxed);
    reaped_ = end;
    return true;
  }
  // The same for one that has this cookie, and that ended with success; false for any other.
  [[gnu::always_inline]] bool reap_success(uint32_t cookie) {
    if (reaped_ == head_) return false;
    const Sent& sent = sent_[reaped_ & (layout_.slots() - 1)];
    const uint64_t end = reaped_ + sent.slots;
    const std::atomic<uint8_t>& answer = layout_.answer(reaped_);
    if (sent.cookie != cookie || (end > consumed_ && end > refresh_consumed())) return false;
    // Relaxed: as in reap().
    if (answer.load(std::memory_order_relaxed) != URMA_CR_SUCCESS) return false;
    reaped_ = end;
    return true;
  }
  bool idle() const { return reaped_ == head_; }
  // Where the oldest message begins that the consumer is not through with.
  uint64_t oldest() const { return reaped_; }
  // Whether a message by reference that the consumer is not through with begins at `position`; then
  // sets its cookie. For a position that a peer claims.
  bool lent(uint64_t position, uint32_t* cookie) const;
  // Asks the consumer for the answers that it gives lazily, if some are outstanding.
  void want_answers();
  // Relaxed: pairs with nothing.
  CopyMethod copies() const {
    return static_cast<CopyMethod>(layout_.answers().copies.load(std::memory_order_relaxed));
  }
  JointCopy* joint() { return &layout_.joint(); }
  // Non-zero once the consumer takes no more messages.
  uint32_t closed() const;
  // As reap(), regardless of the consumer: for the end of the ring. The consumer no longer sees
  // what it has not looked at yet.
  bool abandon(uint32_t* cookie);
  // Whether the consumer still has to copy a message by reference that would fit into the ring.
  bool lends_what_fits();
  // For the end of a ring whose messages stay: takes back messages by reference that the consumer
  // is not through with. The consumer stops at the first of them.
  void take_back_lent();
  // Takes back those of which is_gone(cookie) is true. The consumer goes on behind them.
  template <typename IsGone>
  void take_back_if(const IsGone& is_gone) {
    for (uint64_t at = reaped_; at != head_;) {
      const Sent& sent = sent_[at & (layout_.slots() - 1)];
      if (sent.by_reference && is_gone(sent.cookie)) mark_taken_back(at);
      at += sent.slots;
    }
  }

 private:
  struct Sent {
    uint32_t cookie;
    uint16_t slots;
    bool by_reference;
    bool fits = false;  // the ring carries messages of that size
  };

  uint32_t slots_taken(uint32_t payload) const;
  void hide(uint64_t position);
  void mark_taken_back(uint64_t position);
  uint64_t refresh_consumed() {
    // SYNC(ring-consumed): acquire pairs with the release in RingConsumer::publish_position.
    const uint64_t consumed = layout_.answers().consumed.load(std::memory_order_acquire);
    // A position that runs backwards or ahead of what was sent is false, and ignored.
    if (consumed > consumed_ && consumed <= head_) consumed_ = consumed;
    return consumed_;
  }

  const uint32_t bytes_;
  const uint32_t max_payload_;
  SharedMemory memory_;
  RingLayout layout_;
  uint64_t head_ = 0;      // next slot to fill
  uint64_t consumed_ = 0;  // last position read from the consumer, checked
  uint64_t reaped_ = 0;
  uint64_t begun_ = 0;  // payload bytes of the message that is being filled
  uint32_t begun_slots_ = 0;
  uint64_t wanted_ = 0;
  std::vector<Sent> sent_;  // by position of the first slot
  // By slot: whether its first word may hold payload. Bytes, since bits cost more to find.
  std::vector<uint8_t> dirty_;
  uint64_t dirty_until_ = 0;  // from this position on nothing in dirty_ is set
};

inline bool RingProducer::publish_slot(MessageKind kind, uint8_t flags, const char* data,
                                       uint32_t bytes, uint64_t immediate, uint32_t cookie) {
  // One slot more than the message, and clean: see begin().
  const uint64_t head = head_;
  if (bytes > kSlotPayload || head < dirty_until_ || head - reaped_ + 2 > layout_.slots())
      [[unlikely]] {
    return false;
  }
  const uint64_t slot = head & (layout_.slots() - 1);
  MessageHeader& header = layout_.header(head);
  header.length = bytes;
  header.payload = bytes;
  header.immediate = immediate;
  copy_payload_of_slot(reinterpret_cast<char*>(&header + 1), data, bytes);
  sent_[slot] = {cookie, 1, false};
  // SYNC(ring-publish): release pairs with the acquire in RingConsumer::peek.
  header.word.store(first_word(head, kind, flags, 1), std::memory_order_release);
  head_ = head + 1;
  return true;
}

// Whether the lengths fit such a message. False also for a kind that does not exist.
inline bool sound_lengths(const Message& message) {
  if (message.kind == MessageKind::kWriteImm && message.length > kMaxMessageBytes) return false;
  if ((message.flags & kByReference) == 0) [[likely]]
    return is_whole(message);
  const uint32_t prefix = prefix_of(message.kind);
  return (message.kind == MessageKind::kSend || message.kind == MessageKind::kSendImm ||
          message.kind == MessageKind::kSendInvalidate) &&
         message.payload >= prefix && (message.payload - prefix) % sizeof(PayloadPiece) == 0;
}

class RingConsumer {
 public:
  // Maps the producer's memory. Throws Error if it differs from what was announced.
  RingConsumer(Fd fd, uint32_t bytes);
  // On the producer's own mapping: both ends in one process.
  explicit RingConsumer(const RingProducer& producer);

  // Reads the next message's header once. kBroken: the producer broke the rules; close the ring.
  [[gnu::always_inline]] Peek peek(Message* message) const;
  // The same for a SEND or SEND_IMM that lies whole in one slot, as most do: false for all else.
  [[gnu::always_inline]] bool peek_plain(Message* message) const;
  void copy(const Message& message, uint32_t offset, void* to, uint32_t bytes) const;
  // The whole payload of a message of one slot.
  [[gnu::always_inline]] void copy_plain(const Message& message, char* to) const {
    copy_payload_of_slot(to, reinterpret_cast<const char*>(next_ + 1), message.payload);
  }
  // Takes the message off the ring. Tells the producer a `status` other than success.
  [[gnu::always_inline]] void consume(const Message& message, uint8_t status) {
    if (status != URMA_CR_SUCCESS) [[unlikely]]
      note_error(status);
    position_ += message.slots;
    next_ = &layout_.header(position_);
    // A producer that waits learns at once; other room is given back in quarters of the ring.
    if ((message.flags & kWantsAnswer) != 0 || status != URMA_CR_SUCCESS ||
        position_ - published_ >= layout_.slots() / 4) {
      publish_position();
    }
  }
  // Whether there is neither a message nor an answer to give. A hint: peek() decides.
  [[gnu::always_inline]] bool silent() const {
    // Relaxed: a message published during this look is found by the next one, and read by peek().
    const uint64_t word = next_->word.load(std::memory_order_relaxed);
    return static_cast<uint32_t>(word) != static_cast<uint32_t>(position_ + 1) &&
           (published_ == position_ ||
            layout_.requests().wanted.load(std::memory_order_relaxed) <= published_);
  }
  // Gives the answers that the producer now waits for.
  void answer_wanted() {
    if (published_ == position_) return;
    // SYNC(ring-wanted): acquire pairs with the release in RingProducer::want_answers.
    if (layout_.requests().wanted.load(std::memory_order_acquire) > published_) publish_position();
  }
  JointCopy* joint() const { return &layout_.joint(); }
  // Where the next message stands.
  uint64_t position() const { return position_; }
  // After a copy of the bytes that the message refers to which peek() saw: whether they are those
  // that were sent. kGone: the producer has ended the ring.
  enum class Lent { kStands, kTakenBack, kGone };
  Lent lent() const;
  // Tells the producer how the last message by reference was copied.
  void tell(CopyMethod copies) {
    if (std::exchange(copies_, copies) == copies) return;
    // Relaxed: a hint.
    layout_.answers().copies.store(static_cast<uint32_t>(copies), std::memory_order_relaxed);
  }
  // Tells the producer that everything further ends with `status`.
  void close(uint8_t status);
  // How often the producer was told something, and how often that was an error.
  struct Told {
    uint64_t answers = 0;
    uint64_t errors = 0;
  };
  [[gnu::always_inline]] Told told() const { return told_; }

 private:
  // The last message of a lap may take the rest of it.
  [[gnu::always_inline]] bool sound_slots(uint32_t taken, uint32_t needed) const {
    return taken == needed || (taken > needed && taken < 2 * needed &&
                               ((position_ + taken) & (layout_.slots() - 1)) == 0);
  }
  [[gnu::always_inline]] void publish_position() {
    published_ = position_;
    ++told_.answers;
    // SYNC(ring-consumed): release pairs with the acquire in RingProducer::refresh_consumed.
    layout_.answers().consumed.store(position_, std::memory_order_release);
  }
  [[gnu::cold, gnu::noinline]] void note_error(uint8_t status);

  std::optional<SharedMemory> memory_;
  RingLayout layout_;
  MessageHeader* next_ = &layout_.header(0);  // at position_
  uint64_t position_ = 0;
  uint64_t published_ = 0;
  Told told_;
  CopyMethod copies_ = CopyMethod::kByKernel;
};

inline Peek RingConsumer::peek(Message* message) const {
  const MessageHeader& header = *next_;
  // SYNC(ring-publish): acquire pairs with the release in RingProducer::publish.
  const uint64_t word = header.word.load(std::memory_order_acquire);
  if (static_cast<uint32_t>(word) != static_cast<uint32_t>(position_ + 1)) return Peek::kEmpty;
  message->kind = static_cast<MessageKind>(word >> 32 & 0xFF);
  message->flags = static_cast<uint8_t>(word >> 40 & 0xFF);
  message->slots = static_cast<uint32_t>(word >> 48);
  message->length = const_cast<const volatile uint32_t&>(header.length);
  message->payload = const_cast<const volatile uint32_t&>(header.payload);
  message->immediate = const_cast<const volatile uint64_t&>(header.immediate);
  const bool sound = message->payload <= layout_.max_payload() &&
                     sound_slots(message->slots, slots_for(message->payload)) &&
                     sound_lengths(*message);
  return sound ? Peek::kMessage : Peek::kBroken;
}

inline bool RingConsumer::peek_plain(Message* message) const {
  // Kind, flags and slots of such a message, less those of a SEND without flags.
  constexpr uint32_t kPlain = first_word(0, MessageKind::kSend, 0, 1) >> 32;
  constexpr uint32_t kMayDiffer = first_word(0, MessageKind{1}, kWantsAnswer | kSolicited, 0) >> 32;
  static_assert(static_cast<int>(MessageKind::kSend) + 1 ==
                static_cast<int>(MessageKind::kSendImm));
  // SYNC(ring-publish): acquire pairs with the release in RingProducer::publish.
  const uint64_t word = next_->word.load(std::memory_order_acquire);
  const auto form = static_cast<uint32_t>(word >> 32);
  if (static_cast<uint32_t>(word) != static_cast<uint32_t>(position_ + 1) ||
      ((form - kPlain) & ~kMayDiffer) != 0) {
    return false;
  }
  const uint32_t length = const_cast<const volatile uint32_t&>(next_->length);
  const uint32_t payload = const_cast<const volatile uint32_t&>(next_->payload);
  if (payload != length || payload > kSlotPayload) return false;
  const uint64_t immediate = const_cast<const volatile uint64_t&>(next_->immediate);
  *message = {static_cast<MessageKind>(form & 0xFF),
              static_cast<uint8_t>(form >> 8 & 0xFF),
              1,
              length,
              payload,
              immediate};
  return true;
}

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_RING_H_
