// SPDX-License-Identifier: MIT
//
// Tickets: showing one proves that it was received at the address it was made for.
#ifndef URMA_PROVIDERS_VERBS_CONTROL_TICKET_H_
#define URMA_PROVIDERS_VERBS_CONTROL_TICKET_H_

#include <cstdint>
#include <span>

#include "urma/providers/verbs/datagram.h"
#include "urma/providers/verbs/messages.h"

namespace urma::verbs {

// SipHash-2-4.
uint64_t keyed_hash(const uint64_t (&key)[2], std::span<const uint8_t> bytes);

// Stores none of the tickets it makes.
class TicketOffice {
 public:
  explicit TicketOffice(const uint64_t (&key)[2]) : key_{key[0], key[1]} {}

  Ticket issue(const NetAddress& to, uint64_t nonce);
  bool valid(const Ticket& ticket, const NetAddress& from, uint64_t nonce) const;
  // Tickets up to this number are no longer valid.
  void expire(uint64_t number) { expired_ = number > expired_ ? number : expired_; }

 private:
  uint64_t seal(uint64_t number, const NetAddress& address, uint64_t nonce) const;

  const uint64_t key_[2];
  uint64_t last_ = 0;
  uint64_t expired_ = 0;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTROL_TICKET_H_
