/* SPDX-License-Identifier: MIT */

// Messages that set up and end connections: their layout and validation.

#ifndef OFI_CM_MESSAGE_H
#define OFI_CM_MESSAGE_H

#include <cstddef>
#include <cstdint>

namespace urma_fi {

constexpr size_t kCmDataSize = 256;  // private data of a message

enum class CmKind : uint8_t {
  kRequest = 1,  // to a passive endpoint: connect
  kAccept = 2,   // accepts a request
  kReject = 3,   // rejects a request
  kReady = 4,    // to the accepting side: messages can be sent
  kShutdown = 5,
};

struct CmMessage {
  uint32_t magic;
  uint8_t version;
  CmKind kind;
  uint16_t data_size;
  uint64_t to;     // number of the destination endpoint; 0 in a request
  uint64_t from;   // number of the sending endpoint; 0 in a reject
  uint32_t jetty;  // id of its jetty, in a request and an accept
  uint32_t reserved;
  uint8_t data[kCmDataSize];
};
static_assert(sizeof(CmMessage) == 32 + kCmDataSize);

// A message of `kind` with `size` bytes of private data, at most kCmDataSize.
CmMessage make_message(CmKind kind, uint64_t to, uint64_t from, uint32_t jetty, const void* data,
                       size_t size);

// The end of a connection; the destination's owner calls it `to`.
CmMessage make_shutdown(uint64_t to, uint64_t from);

// The bytes of a message that are sent.
size_t size_of(const CmMessage& message);

// Whether the `size` bytes received are a message valid for its kind.
bool is_valid(const CmMessage& message, size_t size);

}  // namespace urma_fi

#endif  // OFI_CM_MESSAGE_H
