// SPDX-License-Identifier: MIT
//
// What the parts of a Control share: its socket, name and clock, and how they name peers.
#ifndef URMA_PROVIDERS_VERBS_CONTROL_WIRE_H_
#define URMA_PROVIDERS_VERBS_CONTROL_WIRE_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include "urma/base/service.h"
#include "urma/providers/verbs/control_ticket.h"
#include "urma/providers/verbs/datagram.h"
#include "urma/providers/verbs/messages.h"

namespace urma::verbs {

// One incarnation of a context: a restarted process has another nonce.
struct PeerRef {
  NetAddress address;
  uint64_t nonce;

  // The default compares with 0, not this code. NOLINTNEXTLINE(modernize-use-nullptr)
  auto operator<=>(const PeerRef&) const = default;
};

enum class PeerLoss {
  kRefused,    // its host reports that the port is closed
  kSilent,     // no answer for as long as URMA_VERBS_TIMEOUT_MS
  kRestarted,  // another incarnation is there now
};
const char* loss_text(PeerLoss loss);

// The outcome of a request, and who has answered.
using OnReply = std::function<void(const Reply& reply, const PeerRef& owner)>;

struct ControlWire {
  Service* service;
  std::function<uint64_t()> clock;
  std::unique_ptr<DatagramSocket> socket;
  uint64_t nonce;
  uint64_t key[2];  // of the numbers of transactions
  uint64_t last_transaction = 0;

  // Transactions with one peer have increasing numbers. Those that one peer sees reveal nothing of
  // the others' numbers: otherwise it could answer in their place.
  uint64_t next_transaction(const NetAddress& to) {
    uint8_t bytes[sizeof(to.ip) + sizeof(to.port)];
    std::memcpy(bytes, to.ip, sizeof(to.ip));
    std::memcpy(bytes + sizeof(to.ip), &to.port, sizeof(to.port));
    // Half of the range is left for counting.
    return (keyed_hash(key, bytes) >> 1) + ++last_transaction;
  }

  // Of a request, `receiver` may be 0.
  void ask(const NetAddress& to, uint64_t receiver, const Ticket& ticket, uint64_t transaction,
           uint64_t oldest, const Request& request) const {
    socket->send(to, encode({{nonce, receiver, ticket, transaction, oldest}, request}));
  }
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTROL_WIRE_H_
