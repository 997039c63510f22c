// SPDX-License-Identifier: MIT
//
// The view of a request that the short ways take: without a list of pieces.
#ifndef JETTY_SIMPLE_REQUEST_H_
#define JETTY_SIMPLE_REQUEST_H_

#include <cstdint>

#include "jetty/work_request.h"
#include "urma_types.h"

namespace urma {

struct SimpleRequest {
  const urma_sge_t* local;
  const urma_sge_t* remote;  // NULL for messages
};

// False if the request has no local piece or several, or if its atomic is not aligned or has
// another width than 4 or 8. view_request() then finds out what is wrong, if anything.
template <OpKind kKind>
[[gnu::always_inline]] inline bool view_simple(const urma_jfs_wr_t& wr, SimpleRequest* request) {
  if constexpr (kKind == OpKind::kSend) {
    *request = {wr.send.src.sge, nullptr};
    return wr.send.src.num_sge == 1 && request->local != nullptr;
  } else if constexpr (kKind == OpKind::kAtomic) {
    // cas and faa begin with the same two members.
    *request = {wr.cas.src, wr.cas.dst};
    if (request->local == nullptr || request->remote == nullptr) return false;
    const uint32_t width = request->local->len;
    return (width == 8 || width == 4) && (request->remote->addr & (width - 1)) == 0;
  } else {
    const urma_sg_t& local = kKind == OpKind::kRead ? wr.rw.dst : wr.rw.src;
    const urma_sg_t& remote = kKind == OpKind::kRead ? wr.rw.src : wr.rw.dst;
    *request = {local.sge, remote.sge};
    // All remote elements but the first are ignored.
    return local.num_sge == 1 && remote.num_sge != 0 && request->local != nullptr &&
           request->remote != nullptr;
  }
}

}  // namespace urma

#endif  // JETTY_SIMPLE_REQUEST_H_
