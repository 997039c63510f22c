// SPDX-License-Identifier: MIT
//
// What the parts of a Control share: its socket, its name and its time.
#ifndef URMA_PROVIDERS_VERBS_CONTROL_WIRE_H_
#define URMA_PROVIDERS_VERBS_CONTROL_WIRE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "urma/base/service.h"
#include "urma/providers/verbs/datagram.h"
#include "urma/providers/verbs/messages.h"

namespace urma::verbs {

struct ControlWire {
  Service* service;
  std::function<uint64_t()> clock;
  std::unique_ptr<DatagramSocket> socket;
  uint64_t nonce;
  uint64_t last_transaction;  // of this context; each is used once

  // Of a request, `receiver` may be 0.
  void ask(const NetAddress& to, uint64_t receiver, const Ticket& ticket, uint64_t transaction,
           uint64_t oldest, const Request& request) const {
    socket->send(to, encode({{nonce, receiver, ticket, transaction, oldest}, request}));
  }
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTROL_WIRE_H_
