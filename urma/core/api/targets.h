// SPDX-License-Identifier: MIT
//
// Shared by importing and binding at once and in the background.
#ifndef URMA_CORE_API_TARGETS_H_
#define URMA_CORE_API_TARGETS_H_

#include <atomic>

#include "urma/core/api/checks.h"

namespace urma::core {

// Makes a child of the context of an import. A provider that fills in nothing leaves trans_mode at
// 0; then the target gets what its descriptor says.
void adopt_target(urma_context_t* ctx, urma_target_jetty_t& target, const urma_rjetty_t& remote);

// Ends an import with `op` of its provider, also one in the background without a result yet.
urma_status_t end_import(urma_target_jetty_t* target, urma_status_t (*op)(urma_target_jetty_t*));

template <auto Op>
urma_status_t unimport(const char* call, urma_target_jetty_t* target) {
  return entry(call, [&](const char*) -> urma_status_t {
    auto* op = slot<Op>(call, target);
    return op == nullptr ? URMA_EINVAL : end_import(target, op);
  });
}

// The peer of an RC jetty. Any thread may bind and unbind it.
inline std::atomic_ref<urma_target_jetty_t*> peer_of(urma_jetty_t& jetty) {
  return std::atomic_ref(jetty.remote_jetty);
}

// Whether the two are of a kind that can be bound.
urma_status_t check_bind(const char* call, const urma_jetty_t& jetty,
                         const urma_target_jetty_t& target);

// URMA_SUCCESS if `peer`, to which the jetty is bound, is the target.
urma_status_t check_bound(const char* call, const urma_jetty_t& jetty,
                          const urma_target_jetty_t* peer, const urma_target_jetty_t& target);

// Whether the jetty can be unbound.
urma_status_t check_unbind(const char* call, urma_jetty_t& jetty);

// Whether the provider is also called for a pair that is bound already.
enum class Again { kIgnore, kConnect };

// The checks of bind, then `connect`, which reaches the provider.
template <typename Connect>
urma_status_t bind(const char* call, urma_jetty_t* jetty, urma_target_jetty_t* target,
                   Connect connect, Again again = Again::kIgnore) {
  return entry(call, [&](const char*) -> urma_status_t {
    if (!given(call, "jetty", jetty) || !given(call, "tjetty", target)) return URMA_EINVAL;
    const urma_status_t allowed = check_bind(call, *jetty, *target);
    if (allowed != URMA_SUCCESS) return allowed;
    // Claimed before connect(): another thread may bind the jetty too, and a bind in the background
    // may have failed, and been undone, by the time that connect() returns.
    urma_target_jetty_t* peer = nullptr;
    if (!peer_of(*jetty).compare_exchange_strong(peer, target)) {
      const urma_status_t bound = check_bound(call, *jetty, peer, *target);
      return bound == URMA_SUCCESS && again == Again::kConnect ? connect() : bound;
    }
    const urma_status_t status = connect();
    if (status != URMA_SUCCESS) peer_of(*jetty).store(nullptr);
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
    if (status == URMA_SUCCESS) peer_of(*jetty).store(nullptr);
    return status;
  });
}

}  // namespace urma::core

#endif  // URMA_CORE_API_TARGETS_H_
