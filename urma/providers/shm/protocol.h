// SPDX-License-Identifier: MIT
//
// The messages of the control socket between two processes: of fixed size, on SOCK_SEQPACKET, so
// that each arrives whole. The importer asks, the owner answers each request exactly once. Unasked
// the owner says one thing, with number 0: a registration that it granted to this peer has ended.
#ifndef URMA_PROVIDERS_SHM_PROTOCOL_H_
#define URMA_PROVIDERS_SHM_PROTOCOL_H_

#include <elf.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "jetty/remote.h"
#include "urma_types.h"

namespace urma::shm {

inline constexpr uint32_t kProtocolMagic = 0x55524d41;  // "URMA"

// The ELF machine whose code this is. Peers of another one are refused: the layout of shared memory
// depends on it (urma/base/cache_line.h), and processes under user emulation see the same files.
#if defined(__x86_64__)
inline constexpr uint32_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
inline constexpr uint32_t kMachine = EM_AARCH64;
#else
inline constexpr uint32_t kMachine = EM_NONE;
#endif

// The lower half counts changes of the messages and of what peers share, the upper is the machine.
inline constexpr uint32_t kProtocolVersion = 13 | kMachine << 16;
inline constexpr uint32_t number_of(uint32_t version) { return version & 0xffff; }
inline constexpr uint32_t machine_of(uint32_t version) { return version >> 16; }

enum class RequestType : uint32_t {
  kHello = 1,  // the first message
  kImportSegment,
  kOpenRing,
  kCloseRing,  // no answer, unless it lends
  kAtomic,
  kProgress,     // "a message of mine waits": no answer
  kMapSegment,   // as kImportSegment; the answer comes when the owner has made its pages shareable
  kProbe,        // whether a target is there and takes what this process would send
  kStage,        // hands over the staging area, with its descriptor
  kCopySegment,  // between a place of the staging area and a segment
  kCopyMessage,  // from a message by reference that is in flight to this process
};

// Both ways, with the descriptor of the sender's segment words, bells and marks.
enum HelloFlag : uint32_t {
  kHasProcessBarrier = 1,  // peers need no fence before they look at its bells
};

struct HelloRequest {
  uint32_t magic;
  uint32_t version;
  uint64_t nonce;
  uint32_t slot;
  uint32_t uasid;
  uint32_t flags;
  uint32_t reserved;
};

struct HelloAnswer {
  uint64_t nonce;
  uint32_t uasid;
  uint32_t flags;
};

struct ImportSegmentRequest {
  urma_eid_t eid;
  uint64_t va;
  uint64_t len;
  uint32_t token_id;
  uint32_t token;
  uint32_t access;  // the access wanted there, as far as known: URMA_ACCESS_*
  uint32_t reserved;
};

// How the importer is to reach a segment from its first request on.
enum class Reach : uint32_t {
  kCopied,  // until it has used the segment so often that a mapping pays
  kOpaque,  // no processor does, but kMapSegment tells how to reach it
  kMapped,  // a mapping pays already
};

struct ImportSegmentAnswer {
  uint64_t base;
  uint64_t len;
  uint32_t access;
  uint32_t index;
  uint32_t generation;
  Reach reach;
};

// Comes with a sealed memory of `parts` PartDescriptions, followed by the files that they name.
// If `opaque` is 1, with the descriptors of Transport::describe() instead.
struct MapSegmentAnswer {
  uint32_t parts;
  uint32_t index;
  uint32_t generation;
  uint32_t opaque;
};

// How to wake a process that sleeps until a JFC raises an event. If `bell` is not below kBells
// the JFC has no JFCE; else a descriptor comes along, the same one for all of one channel.
struct WakeupOffer {
  uint64_t channel;  // names the JFCE permanently
  uint32_t bell;     // index of the JFC's
  uint32_t reserved;
};

// With the ring's descriptor, and that of the wake-up for the sender's JFC.
struct OpenRingRequest {
  urma_eid_t target_eid;
  uint64_t key;  // known to nobody else; for kCopyMessage
  urma_jetty_id_t sender;
  uint32_t target_id;
  uint32_t target_type;  // urma_target_type_t
  uint32_t trans_mode;
  uint32_t token;
  uint32_t ring;  // the sender's number of it, for kCloseRing
  uint32_t ring_bytes;
  uint32_t rnr_retry;
  uint32_t hint;  // of a group: which member
  WakeupOffer sender_jfc;
};

// With the descriptor of the wake-up for the receiver's JFC.
struct OpenRingAnswer {
  WakeupOffer receiver_jfc;
  uint32_t members;  // of the group; 0 if the target is not one
  uint32_t reserved;
};

// Nothing further comes. The sender may go on lending what its messages by reference refer to,
// until another of these requests, or its end.
struct CloseRingRequest {
  uint32_t ring;
  uint32_t lends;  // 1 or 0
};

// Also for WRITE_ATOMIC.
struct AtomicRequest {
  uint64_t va;
  uint64_t operand[4];  // as in SendEntry
  uint32_t index;
  uint32_t generation;
  uint32_t opcode;  // urma_opcode_t
  uint32_t bytes;
};

struct AtomicAnswer {
  uint64_t old_value[2];
};

// For a segment that this process was granted.
struct CopySegmentRequest {
  uint64_t va;
  uint32_t index;
  uint32_t generation;
  uint32_t place;
  uint32_t bytes;
  uint32_t direction;  // urma::shm::Direction
  uint32_t reserved;
};

// `offset` is into the message, which is named by its ring and its position there.
struct CopyMessageRequest {
  uint64_t key;
  uint64_t position;
  uint32_t sender;  // the id of the queue that sends
  uint32_t place;
  uint32_t bytes;
  uint32_t offset;
};

struct ProbeRequest {
  urma_eid_t target_eid;
  uint32_t target_id;
  uint32_t target_type;  // urma_target_type_t
  uint32_t trans_mode;
  uint32_t token;
};

// What a queue has the service thread ask an owner for.
struct Question {
  Answer answer = Answer::kUnreachable;  // valid once ended
  std::atomic<bool> ended{false};

  // Call when everything that comes with the answer has been stored.
  void end(Answer given) {
    answer = given;
    // SYNC(question): release pairs with the acquire in has_ended().
    ended.store(true, std::memory_order_release);
  }
  bool has_ended() const {
    // SYNC(question): acquire pairs with the release in end().
    return ended.load(std::memory_order_acquire);
  }
};

// `{}` zeroes all of a message, with every compiler: it initializes the first member of the union,
// which is `whole`. Otherwise a peer could get bytes of the stack behind a short body.
struct Request {
  RequestType type;
  uint32_t number;  // comes back in the answer; not 0
  union {
    std::byte whole[96];
    HelloRequest hello;
    ImportSegmentRequest import_segment;
    OpenRingRequest open_ring;
    CloseRingRequest close_ring;
    AtomicRequest atomic;
    ProbeRequest probe;
    CopySegmentRequest copy_segment;
    CopyMessageRequest copy_message;
  };
};

struct Reply {
  uint32_t number;
  Answer answer;
  union {
    std::byte whole[32];
    HelloAnswer hello;
    ImportSegmentAnswer import_segment;
    MapSegmentAnswer map_segment;
    OpenRingAnswer open_ring;
    AtomicAnswer atomic;
  };
};

template <typename Message>
inline constexpr bool kAllInWhole = offsetof(Message, whole) + sizeof(Message::whole) ==
                                    sizeof(Message);
static_assert(std::is_trivially_copyable_v<Request> && sizeof(Request) == 104);
static_assert(std::is_trivially_copyable_v<Reply> && sizeof(Reply) == 40);
static_assert(kAllInWhole<Request> && kAllInWhole<Reply>);

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_PROTOCOL_H_
