// SPDX-License-Identifier: MIT
//
// The shortest ways: plain loads and stores in a peer's memory that this process has mapped, and
// messages that fit into a ring as they are.
#ifndef URMA_PROVIDERS_SHM_DIRECT_H_
#define URMA_PROVIDERS_SHM_DIRECT_H_

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "jetty/iovecs.h"
#include "jetty/memory_access.h"
#include "jetty/simple_request.h"
#include "jetty/work_request.h"
#include "urma/providers/shm/remote.h"
#include "urma_types.h"

namespace urma::shm {

// Copies between a mapped stretch and a list of local pieces of the same total size.
inline void copy_mapped(Direction direction, char* mapped, std::span<const iovec> local) {
  for (const iovec& piece : local) {
    char* here = static_cast<char*>(piece.iov_base);
    if (direction == Direction::kWrite) {
      copy_in_order(mapped, here, piece.iov_len);
    } else {
      std::memcpy(here, mapped, piece.iov_len);
    }
    mapped += piece.iov_len;
  }
}

// The kind of a request that can be executed at once; kNone for all others.
[[gnu::always_inline]] inline OpKind direct_kind_of(uint32_t opcode) {
  if (opcode == URMA_OPC_WRITE) return OpKind::kWrite;
  if (opcode == URMA_OPC_SEND || opcode == URMA_OPC_SEND_IMM) return OpKind::kSend;
  if (opcode == URMA_OPC_READ) return OpKind::kRead;
  if (opcode >= URMA_OPC_CAS && opcode <= URMA_OPC_FXOR) return OpKind::kAtomic;
  return opcode == URMA_OPC_WRITE_ATOMIC ? OpKind::kWriteAtomic : OpKind::kNone;
}

// A one-sided request with one local piece whose remote side is mapped.
struct DirectAccess {
  char* mapped;
  char* local;
  uint64_t bytes;
  const Grant* grant;
};

// A message of at most one local piece.
struct DirectSend {
  const char* data;
  uint32_t bytes;
};

// False if the remote bytes are not mapped for this access; else `request` says where they lie.
[[gnu::always_inline]] inline bool find_mapped(const urma_sge_t& sge, uint64_t bytes,
                                               uint32_t access, DirectAccess* request) {
  if (sge.tseg == nullptr) return false;
  const Grant* grant = RemoteSegment::grant_of(static_cast<const SegmentHandle&>(*sge.tseg));
  if (grant == nullptr || (grant->direct_access & access) == 0) return false;
  const uint64_t offset = sge.addr - grant->begin;
  if (offset >= grant->mapped_bytes || bytes > grant->mapped_bytes - offset || !grant->stands()) {
    return false;
  }
  request->mapped = grant->mapped + offset;
  request->grant = grant;
  return true;
}

// Whether the bytes, at least one, lie in a segment registered here.
[[gnu::always_inline]] inline bool local_stands(const urma_sge_t& sge) {
  const auto* handle = static_cast<const SegmentHandle*>(sge.tseg);
  if (handle == nullptr || !handle->registered) return false;
  const auto* segment = static_cast<const Segment*>(handle);
  const uint64_t offset = sge.addr - segment->base;
  return offset < segment->len && sge.len <= segment->len - offset;
}

// The functions below return false if a request is invalid or not simple: the long way then
// finds out what is wrong. Nothing was executed.

template <OpKind kKind>
[[gnu::always_inline]] inline bool view_direct(const urma_jfs_wr_t& wr, uint32_t max_inline,
                                               uint32_t limit, DirectAccess* access) {
  SimpleRequest request;
  if (!view_simple<kKind>(wr, &request)) return false;
  const urma_sge_t& piece = *request.local;
  if (kKind != OpKind::kAtomic && piece.len - 1 >= limit) return false;
  if (wr.flag.bs.inline_flag != 0) [[unlikely]] {
    if (kKind == OpKind::kRead || kKind == OpKind::kAtomic || piece.len > max_inline) return false;
  } else if (!local_stands(piece)) {
    return false;
  }
  if (kKind == OpKind::kWriteAtomic &&
      (!valid_width(wr.opcode, piece.len) || request.remote->addr % piece.len != 0)) {
    return false;
  }
  access->local = reinterpret_cast<char*>(piece.addr);
  access->bytes = piece.len;
  return find_mapped(*request.remote, piece.len, right_of(kKind), access);
}

[[gnu::always_inline]] inline bool view_send(const urma_jfs_wr_t& wr, uint32_t max_inline,
                                             DirectSend* send) {
  *send = {nullptr, 0};
  if (wr.send.src.num_sge == 0) return true;
  SimpleRequest request;
  if (!view_simple<OpKind::kSend>(wr, &request)) return false;
  const urma_sge_t& piece = *request.local;
  *send = {reinterpret_cast<const char*>(piece.addr), piece.len};
  if (piece.len == 0) return true;
  return wr.flag.bs.inline_flag != 0 ? piece.len <= max_inline : local_stands(piece);
}

// For a send that was viewed: whether its bytes lie in a segment that everybody may read.
inline bool is_open(const urma_jfs_wr_t& wr) {
  return wr.flag.bs.inline_flag == 0 &&
         static_cast<const Segment*>(wr.send.src.sge[0].tseg)->open_token_id != 0;
}

// False if a read may have brought what the owner has stored there after the registration. One of
// few bytes is not worth the look.
template <OpKind kKind, bool kFew>
[[gnu::always_inline]] inline bool execute_direct(const urma_jfs_wr_t& wr,
                                                  const DirectAccess& request) {
  if constexpr (kKind == OpKind::kWrite) {
    copy_in_order<kFew>(request.mapped, request.local, request.bytes);
  } else if constexpr (kKind == OpKind::kRead) {
    copy_in_order<kFew>(request.local, request.mapped, request.bytes);
    if constexpr (!kFew) {
      // SYNC(segment-gone): this acquire fence, after the copy, pairs with the release fence in
      // SegmentTable::end_for_peers.
      std::atomic_thread_fence(std::memory_order_acquire);
      return request.grant->stands();
    }
  } else if constexpr (kKind == OpKind::kWriteAtomic) {
    write_whole(request.mapped, request.local, request.bytes);
  } else {
    // faa.operand lies where cas.cmp_data does.
    const uint64_t second = replaces(wr.opcode) ? wr.cas.swap_data : 0;
    const uint64_t before = execute_atomic(
        wr.opcode, request.mapped, static_cast<uint32_t>(request.bytes), wr.cas.cmp_data, second);
    copy_word(request.local, reinterpret_cast<const char*>(&before), request.bytes);
  }
  return true;
}

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_DIRECT_H_
