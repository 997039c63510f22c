// SPDX-License-Identifier: MIT
//
// The operations table of a provider: C functions that lead into the C++ objects.
#ifndef JETTY_OPS_H_
#define JETTY_OPS_H_

#include "jetty/queues.h"
#include "urma/base/guard.h"
#include "urma_provider.h"

namespace urma {

// The table for urma_context_t::ops under the provider's name, without posting: posts take the
// shortest way to the provider's own class, see add_post_ops().
urma_ops_t make_ops(const char* name);
// Parts of it: what JFC, JFS, JFR and jetty do apart from the way of a request; and channels,
// notifiers, groups, addresses and advice.
void add_queue_ops(urma_ops_t* ops);
void add_control_ops(urma_ops_t* ops);

// Keeps its arguments, also those that it does not read; only gcc takes some away.
#if __has_cpp_attribute(gnu::noipa)
#define URMA_KEEPS_ARGUMENTS gnu::noipa
#else
#define URMA_KEEPS_ARGUMENTS gnu::noinline
#endif

// Has the arguments of a post: so that a post moves none of them first.
template <typename Handle, typename Wr>
[[gnu::cold, URMA_KEEPS_ARGUMENTS]] urma_status_t reject_inactive(Handle* /*handle*/, Wr* wr,
                                                                  Wr** bad_wr) noexcept {
  *bad_wr = wr;
  return guarded(URMA_LOG_SITE, [] { return refuse_inactive("post"); });
}

// An object that was deactivated, or not activated yet, executes nothing.
template <typename Half, auto half_of, typename Object, typename Handle, typename Wr>
urma_status_t post(Handle* handle, Wr* wr, Wr** bad_wr) noexcept {
  auto* half = static_cast<Half*>((static_cast<Object*>(handle)->*half_of)());
  if (half == nullptr) [[unlikely]]
    return reject_inactive(handle, wr, bad_wr);
  return half->post(wr, bad_wr);
}

// `OwnSender` and `OwnReceiver` are the types that the provider's make_sender() and make_receiver()
// make.
template <typename OwnSender, typename OwnReceiver>
void add_post_ops(urma_ops_t* ops) {
  ops->post_jfs_wr = post<OwnSender, &Jfs::sender, Jfs, urma_jfs_t, urma_jfs_wr_t>;
  ops->post_jfr_wr = post<OwnReceiver, &Jfr::receiver, Jfr, urma_jfr_t, urma_jfr_wr_t>;
  ops->post_jetty_send_wr = post<OwnSender, &Jetty::sender, Jetty, urma_jetty_t, urma_jfs_wr_t>;
  ops->post_jetty_recv_wr = post<OwnReceiver, &Jetty::receiver, Jetty, urma_jetty_t, urma_jfr_wr_t>;
}

}  // namespace urma

#endif  // JETTY_OPS_H_
