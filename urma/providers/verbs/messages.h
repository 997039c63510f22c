// SPDX-License-Identifier: MIT
//
// What contexts tell each other before, beside and after their queue pairs: datagrams of one size,
// little-endian. A request goes to the owner of what is needed and has one reply.
//
// Nothing here is encrypted, and nobody is authenticated: see control.h.
#ifndef URMA_PROVIDERS_VERBS_MESSAGES_H_
#define URMA_PROVIDERS_VERBS_MESSAGES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "jetty/transport.h"
#include "segment/segment.h"
#include "urma/base/runtime.h"
#include "urma/providers/verbs/device.h"
#include "urma_types.h"

namespace urma::verbs {

// A queue, as the other end names it.
struct QueueName {
  urma_eid_t eid;
  uint32_t uasid;  // 24 bits
  uint32_t id;
  bool is_jetty;
};

// One end of a connection, as the other end must know it.
struct LinkEnd {
  urma_eid_t gid;
  uint32_t qpn;  // 24 bits; 0 if rdma_cm connects
  uint32_t psn;  // 24 bits
  uint16_t lid;  // InfiniBand's, else 0
  LinkLayer link_layer;
  uint8_t mtu;        // an ibv_mtu: 1..5
  uint8_t rd_atomic;  // READs and atomics that this end serves at a time
};

// The receiver's memory for data that do not fit into an immediate. Slots of 32 bytes. On iWARP: a
// word to read, see DeviceWord.
struct Mailbox {
  uint64_t address;
  uint32_t rkey;
  uint32_t slots;  // 0: none
};

// A request to connect a queue pair to a target. For URMA_TM_UM: asks where to send datagrams.
struct ConnectRequest {
  uint64_t connection;  // the initiator's number for it, not 0; also in rdma_cm's private data
  QueueName source;
  LinkEnd end;
  ProbeTarget target;
  uint32_t hint;  // of a group: which member
  // It sends no messages: an RC jetty that is not bound gives it an end, and so does a group
  // without members.
  bool one_sided;
};
struct ConnectReply {
  LinkEnd end;
  Mailbox mailbox;
  uint32_t member_id;  // of a group: the jetty it leads to, else the target's id
  uint32_t members;    // of a group; 0 if the target is not one
  uint32_t qkey;       // URMA_TM_UM
  uint16_t cm_port;    // iWARP: where rdma_cm listens, else 0
};

// One end has ended a connection; do not wait for what it sends.
enum class DisconnectReason : uint8_t {
  kClosed,   // the queue is deleted, or no longer needs it
  kFailed,   // its queue pair is in error
  kFlushed,  // its requests are flushed; the number of received messages is needed
  kUnbound,  // by the receiver's program; its jetty may be bound again
};
struct DisconnectRequest {
  uint64_t connection;
  bool by_initiator;  // else the receiver's end says it; the number is that of the end that is told
  DisconnectReason reason;
  uint64_t received;  // messages, as the receiver's end counts them; 0 if the initiator says it
};
// Reply to kFlushed. kNoResources: ask again, arrived messages are still being processed.
struct DisconnectReply {
  uint64_t received;  // messages; no more will be received
};

// The key of a segment.
struct SegmentRequest {
  urma_eid_t eid;
  uint64_t va;
  uint64_t len;
  uint32_t token_id;
  uint32_t token;
};
struct SegmentReply {
  uint64_t base;
  uint64_t len;
  SegmentRef ref;  // the same while the segment is registered
  uint32_t rkey;
  uint32_t access;  // URMA_ACCESS_*
};

// The device of the asked context has refused a message without saying why.
struct FaultRequest {
  uint64_t connection;  // the asker's number for it
};
struct FaultReply {
  bool too_long;  // for its receive; else something else was wrong with it
};

// Whether a target exists and may be used.
struct ProbeRequest {
  ProbeTarget target;
};

// Who serves an id that a program chose? Asked at well-known ports.
struct LocateRequest {
  urma_eid_t eid;
  IdKind kind;  // kJfr, kJetty or kGroup
  uint32_t id;  // 1..kMaxChosenId
};
struct LocateReply {
  uint16_t port;  // of the owner's context
};

struct PingRequest {};

using Request = std::variant<ConnectRequest, DisconnectRequest, SegmentRequest, FaultRequest,
                             LocateRequest, ProbeRequest, PingRequest>;

// The body that comes with kAccepted; empty if the answer says it all. In the order of the
// requests.
using ReplyBody = std::variant<std::monostate, ConnectReply, DisconnectReply, SegmentReply,
                               FaultReply, LocateReply>;
struct Reply {
  Answer answer = Answer::kMalformed;
  ReplyBody body;
};

// Proof that the asker receives what is sent to its address. The receiver made the ticket, and
// accepts it from nobody else.
struct Ticket {
  uint64_t number = 0;  // increasing, so that a later one can be told; 0: none yet
  uint64_t seal = 0;
};

// Before every message.
struct Header {
  uint64_t sender;       // boot nonce, not 0
  uint64_t receiver;     // the same; 0 if not known yet
  Ticket ticket;         // of a request: the receiver's; of a challenge: a new one for the asker
  uint64_t transaction;  // of a reply: the request's
  uint64_t oldest;       // of a request: everything before was answered or given up
};

// Instead of a reply: ask again with this ticket.
struct Challenge {};

struct ControlMessage {
  Header header;
  std::variant<Request, Reply, Challenge> body;
};

// All messages have the same length: no reply is worth requesting in another's name.
inline constexpr size_t kDatagramBytes = 256;
using DatagramBytes = std::array<uint8_t, kDatagramBytes>;

DatagramBytes encode(const ControlMessage& message);

enum class Decoded { kMessage, kMalformed, kOtherVersion };
// Checks everything that needs no further context: each length, enum, flag and range, and that all
// unused bytes are 0.
Decoded decode(std::span<const uint8_t> bytes, ControlMessage* message);
// From the first bytes of a request that came back: its sender and transaction. Nothing if they are
// too few, or not those of a request.
struct Returned {
  uint64_t sender;
  uint64_t transaction;
};
std::optional<Returned> decode_returned(std::span<const uint8_t> beginning);

// The index in ReplyBody of the reply to an accepted request.
inline size_t body_of(const Request& request) {
  const size_t index = request.index() + 1;
  return index < std::variant_size_v<ReplyBody> ? index : 0;
}

// The private data of a call from one end of an iWARP connection to the other: which of the
// connections that the control messages have agreed on it is.
//
// Only those who have seen the control messages of both ends know all of it: the nonces are those
// of their contexts, and each end has chosen one of the marks at random for this connection.
struct CmTicket {
  uint64_t caller;  // nonce
  uint64_t owner;   // nonce of the called context
  uint64_t connection;
  uint32_t caller_mark;
  uint32_t owner_mark;

  bool operator==(const CmTicket&) const = default;
};

inline constexpr size_t kCmTicketBytes = 40;
std::array<uint8_t, kCmTicketBytes> encode_ticket(const CmTicket& ticket);
// Drivers may report more bytes than were sent; the rest is 0. Nothing if it is not a ticket.
std::optional<CmTicket> decode_ticket(std::span<const uint8_t> bytes);

// The private data of a refusal; nothing if it is not ours.
inline constexpr size_t kCmRefusalBytes = 8;
std::array<uint8_t, kCmRefusalBytes> encode_refusal(Answer answer);
std::optional<Answer> decode_refusal(std::span<const uint8_t> bytes);

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_MESSAGES_H_
