// SPDX-License-Identifier: MIT
//
// What contexts say to each other before, beside and after their queue pairs: datagrams of one
// size, little-endian. Who needs something asks its owner; each request has one reply.
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

// A queue as the other end names it.
struct QueueName {
  urma_eid_t eid;
  uint32_t uasid;  // 24 bits
  uint32_t id;
  bool is_jetty;
};

// One end of a connection, as the other end has to know it.
struct LinkEnd {
  urma_eid_t gid;
  uint32_t qpn;  // 24 bits; 0 where rdma_cm connects
  uint32_t psn;  // 24 bits
  uint16_t lid;  // InfiniBand's, else 0
  LinkLayer link_layer;
  uint8_t mtu;        // an ibv_mtu: 1..5
  uint8_t rd_atomic;  // requests that read, which this end serves at a time
};

// Memory of the receiver for what an immediate has no room for. Slots of 32 bytes. On iWARP: a word
// to be read, see ProofWord.
struct Mailbox {
  uint64_t address;
  uint32_t rkey;
  uint32_t slots;  // 0: there is none
};

// A queue pair is to be connected to a target. For URMA_TM_UM: where to send datagrams to.
struct ConnectRequest {
  uint64_t connection;  // the initiator's number for it, not 0; rdma_cm's private data has it too
  QueueName source;
  LinkEnd end;
  ProbeTarget target;
  uint32_t hint;        // of a group: which member
  uint8_t rnr_retry;    // 0..7
  uint8_t ack_timeout;  // 0..31
  // No message is sent by it: an RC jetty that is not bound gives it an end, and so does a group
  // without members.
  bool one_sided;
};
struct ConnectReply {
  LinkEnd end;
  Mailbox mailbox;
  uint32_t member_id;     // of a group: the jetty it leads to, else the target's id
  uint32_t members;       // of a group, 0 where the target is none
  uint32_t qkey;          // URMA_TM_UM
  uint16_t cm_port;       // iWARP: where rdma_cm listens, else 0
  uint8_t min_rnr_timer;  // 0..31
};

// One end has ended a connection; what it sends is not to be waited for.
enum class DisconnectReason : uint8_t {
  kClosed,   // the queue is deleted, or does not need it any more
  kIdle,     // to make room; it may be made anew at once
  kFailed,   // its queue pair is in error
  kFlushed,  // its requests are, and how many messages were received is to be known
  kUnbound,  // by the receiver's program; its jetty may be bound again
};
struct DisconnectRequest {
  uint64_t connection;
  bool by_initiator;  // else the receiver's end says it, and the number is of the one it is told to
  DisconnectReason reason;
  uint64_t received;  // as the receiver's end says: of its messages, 0 where the initiator says it
};
// To kFlushed. kNoResources asks to come again: what has arrived is still looked at.
struct DisconnectReply {
  uint64_t received;  // messages; no further one will be
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
  SegmentRef ref;  // as long as the segment stands, the same
  uint32_t rkey;
  uint32_t access;  // URMA_ACCESS_*
};

// The device of the one that is asked has refused a message, and did not say why.
struct FaultRequest {
  uint64_t connection;  // the asker's number for it
};
struct FaultReply {
  bool too_long;  // for its receive; else there was something else wrong with that
};

// Whether a target is there and may be used.
struct ProbeRequest {
  ProbeTarget target;
};
struct ProbeReply {
  uint32_t members;  // as in ConnectReply
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
                             ProbeRequest, LocateRequest, PingRequest>;

// What comes with kAccepted; nothing where the answer says it all.
using ReplyBody = std::variant<std::monostate, ConnectReply, SegmentReply, ProbeReply, LocateReply,
                               FaultReply, DisconnectReply>;
struct Reply {
  Answer answer = Answer::kMalformed;
  ReplyBody body;
};

// Who asks proves with a ticket that it receives what is sent to its address. The receiver made it,
// and takes it from nobody else.
struct Ticket {
  uint64_t number = 0;  // counts on, so that a later one is known; 0: none yet
  uint64_t seal = 0;
};

// Before every message.
struct Header {
  uint64_t sender;    // boot nonce, not 0
  uint64_t receiver;  // the same, 0 where it is not known yet
  Ticket ticket;  // of a request: the receiver's; of a challenge: a new one for whom it is sent to
  uint64_t transaction;  // of a reply: the request's
  uint64_t oldest;  // of a request: the sender has given up, or got the reply of, everything before
};

// Instead of a reply: ask again with this ticket.
struct Challenge {};

struct Message {
  Header header;
  std::variant<Request, Reply, Challenge> body;
};

// No message is longer, or shorter: no reply is worth asking for in somebody else's name.
inline constexpr size_t kDatagramBytes = 256;
using DatagramBytes = std::array<uint8_t, kDatagramBytes>;

DatagramBytes encode(const Message& message);

enum class Decoded { kMessage, kMalformed, kOtherVersion };
// Everything is checked that can be checked without knowing more: each length, enum, flag and
// range, and that all bytes that mean nothing are 0.
Decoded decode(std::span<const uint8_t> bytes, Message* message);
// Of the first bytes of a request that came back: whose it was, and which. Nothing where they are
// too few, or not a request's.
struct Returned {
  uint64_t sender;
  uint64_t transaction;
};
std::optional<Returned> decode_returned(std::span<const uint8_t> beginning);

// The index in ReplyBody that an accepted request gets.
size_t body_of(const Request& request);

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_MESSAGES_H_
