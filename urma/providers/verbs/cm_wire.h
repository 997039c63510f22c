// SPDX-License-Identifier: MIT
//
// The private data of a call from one end of an iWARP connection to the other: which of the
// connections that the control messages have agreed on it is.
#ifndef URMA_PROVIDERS_VERBS_CM_WIRE_H_
#define URMA_PROVIDERS_VERBS_CM_WIRE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "jetty/remote.h"

namespace urma::verbs {

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

#endif  // URMA_PROVIDERS_VERBS_CM_WIRE_H_
