// SPDX-License-Identifier: MIT
//
// What a stream carries once it is open: frames, each a head with its kind and size, a body fixed
// by the kind, and a payload. All of it is checked before use.
#ifndef URMA_PROVIDERS_TCP_MESSAGES_H_
#define URMA_PROVIDERS_TCP_MESSAGES_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "jetty/iovecs.h"
#include "jetty/message.h"
#include "jetty/transport.h"
#include "segment/segment.h"
#include "urma_types.h"

namespace urma::tcp {

static_assert(std::endian::native == std::endian::little, "bodies travel as they lie in memory");

enum class FrameKind : uint8_t {
  kHello = 1,  // the starter of the stream keeps it; the answer: so does the other end
  kFind,       // whose is this id?
  kProbe,      // may it be used?
  kAskGrant,   // what may be done with memory?
  kAnswer,     // to the three above
  kEnded,      // a granted registration has ended
  kOpenWay,
  kWayOpened,
  kMessage,   // with its payload, unless that is large
  kPull,      // requests the payload of a large one, which has a receive now
  kPart,      // of the payload
  kReceived,  // messages of a way have ended
  kCloseWay,  // no more messages follow
  kWayClosed,
  kAccess,  // to granted memory; with the data to write
  kDone,    // an access; with the data read
  kPing,
  kPong,
};

struct Head {
  uint32_t bytes;  // that follow: body and payload
  FrameKind kind;
  uint8_t zero[3];
};

struct HelloBody {
  static constexpr FrameKind kKind = FrameKind::kHello;
};
struct PingBody {
  static constexpr FrameKind kKind = FrameKind::kPing;
};
struct PongBody {
  static constexpr FrameKind kKind = FrameKind::kPong;
};

struct FindBody {
  static constexpr FrameKind kKind = FrameKind::kFind;
  uint32_t ticket;
  uint32_t kind;  // IdKind
  uint32_t id;
  uint32_t zero;
  urma_eid_t eid;
};

static_assert(sizeof(ProbeTarget) == 32 && sizeof(SegmentRef) == 8, "both are parts of bodies");

struct ProbeBody {
  static constexpr FrameKind kKind = FrameKind::kProbe;
  uint32_t ticket;
  uint32_t zero;
  ProbeTarget target;
};

struct AskGrantBody {
  static constexpr FrameKind kKind = FrameKind::kAskGrant;
  uint32_t ticket;
  uint32_t token_id;
  uint32_t token;
  uint32_t access;
  urma_eid_t eid;
  uint64_t va;
  uint64_t len;
};

struct AnswerBody {
  static constexpr FrameKind kKind = FrameKind::kAnswer;
  uint32_t ticket;
  uint32_t answer;  // Answer
  // Of a grant.
  SegmentRef ref;
  uint64_t base;
  uint64_t len;
  uint32_t access;
  uint32_t zero;
};

// Generations of one index increase, and wrap around.
constexpr bool is_newer(uint32_t generation, uint32_t than) {
  return static_cast<int32_t>(generation - than) > 0;
}

struct EndedBody {
  static constexpr FrameKind kKind = FrameKind::kEnded;
  SegmentRef ref;
};

// Ways are numbered by their senders.
struct OpenWayBody {
  static constexpr FrameKind kKind = FrameKind::kOpenWay;
  uint32_t way;
  uint32_t zero;
  ProbeTarget target;
  uint32_t rnr_retry;
  uint32_t hint;
  urma_eid_t sender_eid;
  uint32_t sender_uasid;
  uint32_t sender_id;
};

struct WayOpenedBody {
  static constexpr FrameKind kKind = FrameKind::kWayOpened;
  uint32_t way;
  uint32_t answer;  // Answer
  uint32_t members;
};

// A larger message waits for its receive, and lands there.
inline constexpr uint32_t kLargestInline = 1 << 20;

// A large message has kByReference set; only the prefix of its kind follows it.
struct MessageBody {
  static constexpr FrameKind kKind = FrameKind::kMessage;
  static constexpr uint32_t kMostPayload = kLargestInline + sizeof(Invalidation);
  uint32_t way;
  uint32_t length;
  uint64_t immediate;
  uint8_t kind;  // MessageKind
  uint8_t flags;
  uint8_t zero[6];
};

struct PullBody {
  static constexpr FrameKind kKind = FrameKind::kPull;
  uint32_t way;
};

// Nothing follows it: the rest of the message does not come.
struct PartBody {
  static constexpr FrameKind kKind = FrameKind::kPart;
  static constexpr uint32_t kMostPayload = kCopyPerTurn;
  uint32_t way;
};

// The next `count` messages of the way have ended with this status.
struct ReceivedBody {
  static constexpr FrameKind kKind = FrameKind::kReceived;
  uint32_t way;
  uint32_t count;
  uint32_t status;  // urma_cr_status_t
};

struct CloseWayBody {
  static constexpr FrameKind kKind = FrameKind::kCloseWay;
  uint32_t way;
};

// All further messages of the way end with this status.
struct WayClosedBody {
  static constexpr FrameKind kKind = FrameKind::kWayClosed;
  uint32_t way;
  uint32_t status;  // urma_cr_status_t
};

// The payload of atomics is their operands.
struct AccessBody {
  static constexpr FrameKind kKind = FrameKind::kAccess;
  static constexpr uint32_t kMostPayload = kCopyPerTurn;
  SegmentRef ref;
  uint64_t addr;
  uint32_t bytes;
  uint16_t opcode;
  uint8_t kind;  // OpKind
  uint8_t zero;
};

// Accesses are executed, and answered, in their order.
struct DoneBody {
  static constexpr FrameKind kKind = FrameKind::kDone;
  static constexpr uint32_t kMostPayload = kCopyPerTurn;
  uint32_t count;
  uint32_t status;  // urma_cr_status_t
};

// What two ends may have in flight.
inline constexpr size_t kWayMessages = 1024;  // of one way, not yet received
inline constexpr uint64_t kWayBytes = 1 << 20;
inline constexpr size_t kMostAccesses = 4096;  // of one connection, without an answer
inline constexpr uint64_t kMostFetched = 4 << 20;
inline constexpr size_t kMostTickets = 65536;
inline constexpr size_t kMostWays = 65536;

inline constexpr uint32_t kOperandBytes = 4 * sizeof(uint64_t);

// The sizes of a frame of a kind; `body` is 0 for an unknown kind.
struct Shape {
  uint32_t body;
  uint32_t payload;  // at most
};

template <typename Body>
constexpr Shape shape() {
  static_assert(std::is_trivially_copyable_v<Body>);
  // Nothing else of this process leaves it.
  static_assert(std::is_empty_v<Body> || std::has_unique_object_representations_v<Body>);
  Shape shape = {std::is_empty_v<Body> ? 0 : sizeof(Body), 0};
  if constexpr (requires { Body::kMostPayload; }) shape.payload = Body::kMostPayload;
  return shape;
}

constexpr bool known(FrameKind kind) {
  return kind >= FrameKind::kHello && kind <= FrameKind::kPong;
}

// By kind.
template <typename... Bodies>
constexpr auto shapes() {
  std::array<Shape, sizeof...(Bodies) + 1> all = {};
  ((all[static_cast<size_t>(Bodies::kKind)] = shape<Bodies>()), ...);
  return all;
}
inline constexpr auto kShapes =
    shapes<HelloBody, FindBody, ProbeBody, AskGrantBody, AnswerBody, EndedBody, OpenWayBody,
           WayOpenedBody, MessageBody, PullBody, PartBody, ReceivedBody, CloseWayBody,
           WayClosedBody, AccessBody, DoneBody, PingBody, PongBody>();
static_assert(known(FrameKind{kShapes.size() - 1}) && !known(FrameKind{kShapes.size()}));

constexpr Shape shape_of(FrameKind kind) {
  return known(kind) ? kShapes[static_cast<size_t>(kind)] : Shape{};
}

inline constexpr size_t kLargestBody = sizeof(OpenWayBody);

// Whether such a frame can exist.
constexpr bool plausible(const Head& head) {
  if (!known(head.kind)) return false;
  const Shape shape = shape_of(head.kind);
  return head.bytes >= shape.body && head.bytes - shape.body <= shape.payload;
}

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_MESSAGES_H_
