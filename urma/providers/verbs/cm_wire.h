// SPDX-License-Identifier: MIT
//
// What goes along when one end of an iWARP connection calls the other: which connection it is, of
// those that the control messages have agreed on.
#ifndef URMA_PROVIDERS_VERBS_CM_WIRE_H_
#define URMA_PROVIDERS_VERBS_CM_WIRE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "jetty/remote.h"

namespace urma::verbs {

// Nobody knows all of it who has not seen the control messages of both ends: the nonces are those
// of their contexts, and each has chosen one of the marks at random for this connection.
struct CmTicket {
  uint64_t caller;  // nonce
  uint64_t owner;   // nonce of who is called
  uint64_t connection;
  uint32_t caller_mark;
  uint32_t owner_mark;

  bool operator==(const CmTicket&) const = default;
};

inline constexpr size_t kCmTicketBytes = 40;
std::array<uint8_t, kCmTicketBytes> encode_ticket(const CmTicket& ticket);
// Drivers may say more bytes than there were: what is behind them is 0. Nothing where it is no
// ticket.
std::optional<CmTicket> decode_ticket(std::span<const uint8_t> bytes);

// What goes along with a refusal; nothing where it is none of ours.
inline constexpr size_t kCmRefusalBytes = 8;
std::array<uint8_t, kCmRefusalBytes> encode_refusal(Answer answer);
std::optional<Answer> decode_refusal(std::span<const uint8_t> bytes);

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CM_WIRE_H_
