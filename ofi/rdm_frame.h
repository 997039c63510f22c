/* SPDX-License-Identifier: MIT */

// What endpoints for datagrams send each other: a message of URMA with 64 bits beside it, the tag.

#ifndef OFI_RDM_FRAME_H
#define OFI_RDM_FRAME_H

#include <cstddef>
#include <cstdint>

namespace urma_fi {

// Other numbers if the format changes.
enum class FrameKind : uint8_t {
  kEager = 0x11,  // a whole message
  kRequest,       // a large message waits at its sender
  kGrant,         // the receiver of a large message has a buffer for it
  kProbe,         // it fails if the peer is gone
};

enum FrameFlag : uint8_t {
  kTagged = 1,
  kHasData = 2,   // 8 bytes for the completion at the receiver follow the head
  kRefused = 4,   // a grant: the receiver cannot take the message
  kReturned = 8,  // a grant that comes back: no data will follow it
};

// Who sends. Each peer is sent to from a queue of its own, whose id says nothing.
struct Origin {
  uint32_t id;           // of its address
  uint16_t incarnation;  // chosen at random: an address may have belonged to another endpoint
};

// The head and 8 bytes fit into the first slot of a message over shared memory.
struct FrameHead {
  FrameKind kind;
  uint8_t flags;
  uint16_t incarnation;
  uint32_t id;
};

struct RequestBody {
  uint64_t length;  // of the message
  uint64_t id;      // the sender's name for it
};

struct GrantBody {
  uint64_t id;        // of the request
  uint64_t accepted;  // bytes wanted, from the beginning of the message
  uint64_t number;    // goes beside the data
  uint32_t lane;      // the JFR that takes the data
  uint32_t token;     // of that JFR
};

struct ProbeBody {
  uint16_t known;  // the incarnation of the receiver, as the sender knows it; 0: not at all
};

constexpr size_t kMaxHead = sizeof(FrameHead) + sizeof(uint64_t);

// A frame that has arrived, checked.
struct Frame {
  FrameKind kind;
  uint8_t flags;
  Origin origin;
  uint64_t data;
  const char* payload;  // `length` bytes
  uint32_t length;
  RequestBody request;
  GrantBody grant;
  ProbeBody probe;
};

// Writes the head of a frame. Returns the number of bytes.
size_t write_head(char* to, FrameKind kind, uint8_t flags, const Origin& origin, uint64_t data);

// Reads the `size` bytes at `bytes`. False: not a frame.
bool read_frame(const char* bytes, size_t size, Frame* frame);

}  // namespace urma_fi

#endif  // OFI_RDM_FRAME_H
