// SPDX-License-Identifier: MIT
//
// Messages for posted receives, whatever carries them.
#ifndef JETTY_MESSAGE_H_
#define JETTY_MESSAGE_H_

#include <cstdint>

#include "jetty/work_request.h"
#include "segment/segment.h"
#include "urma_opcode.h"
#include "urma_types.h"

namespace urma {

enum class MessageKind : uint8_t {
  kSend = 1,
  kSendImm,
  kWriteImm,        // no payload: the data already lies in a segment; `length` is its size
  kSendInvalidate,  // an Invalidation, then the payload; `immediate` is a TokenKey
};

enum MessageFlag : uint8_t {
  kWantsAnswer = 1,  // the sender waits for the answer
  kSolicited = 2,
  // Over shm the payload says where in the sender's memory the bytes lie; over a wire they follow.
  kByReference = 4,
  // Over shm: it referred to memory that its sender has unregistered since, and ends without a
  // receive.
  kTakenBack = 8,
};

// The segment whose remote access a message ends, as the sender imported it.
struct Invalidation {
  urma_eid_t eid;
  uint64_t va;
  uint64_t len;
  SegmentRef ref = {};  // the registration that the sender was granted, if any
};

// The bytes before a message's own payload.
inline uint32_t prefix_of(MessageKind kind) {
  return kind == MessageKind::kSendInvalidate ? sizeof(Invalidation) : 0;
}

// The head of a message that has arrived, checked.
struct Message {
  MessageKind kind;
  uint8_t flags;     // MessageFlag
  uint32_t slots;    // how much of the carrier it takes
  uint32_t length;   // bytes of the message, wherever they lie
  uint32_t payload;  // bytes that have come with it, with the prefix
  uint64_t immediate;
};

// Whether all of a message has come: its payload is as long as `length` says. False also for a kind
// that does not exist.
inline bool is_whole(const Message& message) {
  switch (message.kind) {
    case MessageKind::kSend:
    case MessageKind::kSendImm:
    case MessageKind::kSendInvalidate:
      return (message.flags & kByReference) == 0 && message.payload >= prefix_of(message.kind) &&
             message.payload - prefix_of(message.kind) == message.length;
    case MessageKind::kWriteImm:
      return (message.flags & kByReference) == 0 && message.payload == 0;
  }
  return false;
}

// Whether the payload of a message is still to come, behind the prefix.
inline bool is_announced(const Message& message) {
  const bool has_payload = message.kind == MessageKind::kSend ||
                           message.kind == MessageKind::kSendImm ||
                           message.kind == MessageKind::kSendInvalidate;
  return has_payload && (message.flags & kByReference) != 0 &&
         message.payload == prefix_of(message.kind);
}

// What a look for the next message finds. kBroken: the sender broke the rules; close the way.
enum class Peek { kEmpty, kMessage, kBroken };

// The opcode in the record of its receive.
inline urma_cr_opcode_t opcode_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::kSendImm:
      return URMA_CR_OPC_SEND_WITH_IMM;
    case MessageKind::kWriteImm:
      return URMA_CR_OPC_WRITE_WITH_IMM;
    case MessageKind::kSendInvalidate:
      return URMA_CR_OPC_SEND_WITH_INV;
    default:
      return URMA_CR_OPC_SEND;
  }
}

// The kind of a SEND*.
inline MessageKind kind_of_send(uint16_t opcode) {
  switch (opcode) {
    case URMA_OPC_SEND_IMM:
      return MessageKind::kSendImm;
    case URMA_OPC_SEND_INVALIDATE:
      return MessageKind::kSendInvalidate;
    default:
      return MessageKind::kSend;
  }
}

}  // namespace urma

#endif  // JETTY_MESSAGE_H_
