// SPDX-License-Identifier: MIT
//
// What importing and binding at once and in the background share.
#ifndef URMA_CORE_TARGETS_H_
#define URMA_CORE_TARGETS_H_

#include "urma/core/checks.h"

namespace urma::core {

// Makes a child of the context of an import. A provider that fills in nothing leaves trans_mode at
// 0; then the target gets what its descriptor says.
void adopt_target(urma_context_t* ctx, urma_target_jetty_t& target, const urma_rjetty_t& remote);

// Whether the two can be bound; also URMA_SUCCESS where they are bound to each other.
urma_status_t check_bind(const char* call, const urma_jetty_t& jetty,
                         const urma_target_jetty_t& target);

// Whether the jetty can be unbound.
urma_status_t check_unbind(const char* call, const urma_jetty_t& jetty);

// The checks of bind, then `connect`, which reaches the provider.
template <typename Connect>
urma_status_t bind(const char* call, urma_jetty_t* jetty, urma_target_jetty_t* target,
                   Connect connect) {
  return entry(call, [&](const char*) -> urma_status_t {
    if (!given(call, "jetty", jetty) || !given(call, "tjetty", target)) return URMA_EINVAL;
    const urma_status_t allowed = check_bind(call, *jetty, *target);
    if (allowed != URMA_SUCCESS || jetty->remote_jetty == target) return allowed;
    const urma_status_t status = connect();
    if (status == URMA_SUCCESS) jetty->remote_jetty = target;
    return status;
  });
}

template <auto Op>
urma_status_t unbind(const char* call, urma_jetty_t* jetty) {
  return entry(call, [&](const char*) -> urma_status_t {
    auto* op = slot<Op>(call, jetty);
    if (op == nullptr) return URMA_EINVAL;
    const urma_status_t allowed = check_unbind(call, *jetty);
    if (allowed != URMA_SUCCESS) return allowed;
    const urma_status_t status = op(jetty);
    if (status == URMA_SUCCESS) jetty->remote_jetty = nullptr;
    return status;
  });
}

}  // namespace urma::core

#endif  // URMA_CORE_TARGETS_H_
