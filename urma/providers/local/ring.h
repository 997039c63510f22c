// SPDX-License-Identifier: MIT
//
// The ring that carries messages from one send queue to one receive queue in another process: one
// producer, one consumer, in memory that the producer made and both map.
//
// A message takes one or more slots of a cache line: header and up to 40 bytes in the first one, so
// that a small message moves one line. It is published by one release store to its first word; the
// word carries the message's position, so the consumer needs no index of the producer and writes
// nothing into the slots. The consumer publishes its own position when the producer waits for it.
//
// Neither side trusts the other: positions are kept privately, and everything read from the shared
// memory is read once and checked against private bounds.
#ifndef URMA_PROVIDERS_LOCAL_RING_H_
#define URMA_PROVIDERS_LOCAL_RING_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "segment/segment.h"
#include "segment/shared_memory.h"
#include "urma_types.h"

namespace urma::local {

inline constexpr uint32_t kSlotBytes = 64;
inline constexpr uint32_t kMinRingBytes = 4096;
inline constexpr uint32_t kMaxRingBytes = 1 << 20;
// What one request may move.
inline constexpr uint32_t kMaxMessageBytes = 1U << 31;

enum class MessageKind : uint8_t {
  kSend = 1,
  kSendImm,
  kWriteImm,  // no payload: the data already lies in a segment, `length` only says how much it is
  kSendInvalidate,  // an Invalidation, and the payload behind it; `immediate` is a TokenKey
};

enum MessageFlag : uint8_t {
  kWantsAnswer = 1,  // the consumer publishes its position at once
  kSolicited = 2,
  kByReference = 4,  // the payload is a list of PayloadPiece in the sender's memory
};

struct PayloadPiece {
  uint64_t addr;
  uint32_t len;
  uint32_t token_id;  // of the segment that it lies in, where everybody may read that; else 0
};

// The segment whose remote access a message ends, as the sender imported it.
struct Invalidation {
  urma_eid_t eid;
  uint64_t va;
  uint64_t len;
  SegmentRef ref = {};  // the registration that the sender was granted, if any
};

// What lies in the ring before a message's own payload.
inline uint32_t prefix_of(MessageKind kind) {
  return kind == MessageKind::kSendInvalidate ? sizeof(Invalidation) : 0;
}

// The first slot of a message begins with this.
struct MessageHeader {
  std::atomic<uint64_t> word;  // position tag, kind, flags, number of slots
  uint32_t length;             // bytes of the message, wherever they lie
  uint32_t payload;            // bytes that follow in the ring, with the prefix
  uint64_t immediate;
};
static_assert(sizeof(MessageHeader) == 24 && std::atomic<uint64_t>::is_always_lock_free);

// What the consumer writes. One line of its own; the answers of failed messages behind it.
struct alignas(kSlotBytes) RingAnswers {
  std::atomic<uint64_t> consumed;  // slots that the producer may use again
  std::atomic<uint32_t> closed;    // a urma_cr_status_t: everything further ends with it
};

// A message in private memory, as checked by the consumer.
struct Message {
  MessageKind kind;
  uint8_t flags;
  uint32_t slots;
  uint32_t length;
  uint32_t payload;
  uint64_t immediate;
};

// What the producer writes besides messages. One line of its own.
struct alignas(kSlotBytes) RingRequests {
  std::atomic<uint64_t> wanted;  // the position up to which the producer waits for an answer
};

// Where things lie in the shared memory of a ring of `bytes` bytes of slots.
class RingLayout {
 public:
  RingLayout(void* base, uint32_t bytes);
  static uint32_t total_bytes(uint32_t bytes);
  static bool valid_size(uint32_t bytes);

  uint32_t slots() const { return slots_; }
  uint32_t max_payload() const;
  RingAnswers& answers() const { return *static_cast<RingAnswers*>(base_); }
  RingRequests& requests() const { return *reinterpret_cast<RingRequests*>(&answers() + 1); }
  std::atomic<uint8_t>& answer(uint64_t position) const;
  MessageHeader& header(uint64_t position) const;
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
  explicit RingProducer(uint32_t bytes);

  const SharedMemory& memory() const { return memory_; }
  uint32_t bytes() const { return bytes_; }
  // The most payload that one message carries in the ring itself.
  uint32_t max_payload() const { return layout_.max_payload(); }

  // False where there is no room before more is reaped.
  bool room_for(uint32_t payload) const;
  // A message is begun, filled piece by piece, and published. Needs room_for() before. `cookie`
  // comes back from reap().
  void begin(uint32_t payload);
  void append(const void* data, uint32_t bytes);
  void publish(MessageKind kind, uint8_t flags, uint32_t length, uint64_t immediate,
               uint32_t cookie);

  // The oldest message that the consumer is through with; false where there is none. status is the
  // urma_cr_status_t that it ended with.
  bool reap(uint32_t* cookie, uint8_t* status);
  bool idle() const { return reaped_ == head_; }
  // Asks the consumer for the answers that it gives lazily, where such are outstanding.
  void want_answers();
  // Not zero once the consumer takes no more messages.
  uint32_t closed() const;
  // The same without regard to the consumer: for the end of the ring.
  bool abandon(uint32_t* cookie);

 private:
  struct Sent {
    uint32_t cookie;
    uint32_t slots;
  };

  uint64_t refresh_consumed();

  const uint32_t bytes_;
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
};

class RingConsumer {
 public:
  // Maps the producer's memory. Throws Error where it is not what was announced.
  RingConsumer(Fd fd, uint32_t bytes);
  // On the producer's own mapping: both ends in one process.
  explicit RingConsumer(const RingProducer& producer);

  enum class Peek { kEmpty, kMessage, kBroken };
  // Reads the next message's header once. kBroken: the producer broke the rules; close the ring.
  Peek peek(Message* message) const;
  void copy_payload(const Message& message, uint32_t offset, void* to, uint32_t bytes) const;
  // Takes the message off the ring. `status` other than success is told to the producer.
  void consume(const Message& message, uint8_t status);
  // Gives the answers that the producer has come to wait for.
  void answer_wanted();
  // Tells the producer that everything further ends with `status`.
  void close(uint8_t status);
  // Changes whenever the producer is told something, and whenever that is an error.
  uint64_t told() const { return told_; }
  uint64_t errors_told() const { return errors_told_; }

 private:
  void publish_position();

  std::optional<SharedMemory> memory_;
  RingLayout layout_;
  uint64_t position_ = 0;
  uint64_t published_ = 0;
  uint64_t told_ = 0;
  uint64_t errors_told_ = 0;
};

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_RING_H_
