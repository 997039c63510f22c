// SPDX-License-Identifier: MIT
//
// The shortest ways: plain loads and stores in a peer's memory that this process has mapped, and
// messages that fit into a ring as they are.
#ifndef URMA_PROVIDERS_LOCAL_DIRECT_H_
#define URMA_PROVIDERS_LOCAL_DIRECT_H_

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "jetty/work_request.h"
#include "urma/providers/local/iovecs.h"
#include "urma/providers/local/remote.h"
#include "urma_types.h"

namespace urma::local {

// Up to 8 bytes, in stores of one, two, four or eight of them: a word is written as a whole.
inline void copy_word(char* to, const char* from, uint64_t bytes) {
  if (bytes == 8) {
    std::memcpy(to, from, 8);
    return;
  }
  // Each of a size that the compiler knows, so that it is one store.
  if ((bytes & 4) != 0) {
    std::memcpy(to, from, 4);
    to += 4;
    from += 4;
    // As below.
    std::atomic_thread_fence(std::memory_order_release);
  }
  if ((bytes & 2) != 0) {
    std::memcpy(to, from, 2);
    to += 2;
    from += 2;
    std::atomic_thread_fence(std::memory_order_release);
  }
  if ((bytes & 1) != 0) *to = *from;
}

// More than 8 bytes, as copy_in_order().
inline void copy_words(char* to, const char* from, uint64_t bytes) {
  const uint64_t tail = (reinterpret_cast<uint64_t>(to) + bytes - 1) % 8 + 1;
  std::memcpy(to, from, bytes - tail);
  // Pairs with the acquire that the owner's own program makes.
  std::atomic_thread_fence(std::memory_order_release);
  copy_word(to + (bytes - tail), from + (bytes - tail), tail);
}

// Copies so that the last word is the last to arrive: the owner may be spinning on it.
[[gnu::always_inline]] inline void copy_in_order(char* to, const char* from, uint64_t bytes) {
  if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else if (bytes < 8) {
    copy_word(to, from, bytes);
  } else {
    copy_words(to, from, bytes);
  }
}

// Copies between a mapped stretch and a list of local pieces that has as many bytes.
void copy_mapped(Direction direction, char* mapped, std::span<const iovec> local);

// Returns what was there before. `width` is 4 or 8, and the target aligned to it. `first` is
// compared with the old value or changes it, `second` replaces it.
uint64_t execute_atomic(uint32_t opcode, void* target, uint32_t width, uint64_t first,
                        uint64_t second);

// The same for every opcode and width that valid_width() knows: 16 bytes of each operand.
void execute_wide(uint32_t opcode, void* target, uint32_t width, const uint64_t operand[4],
                  uint64_t before[2]);

// 1, 2, 4, 8 or 16 bytes that the target, aligned to as much, shows all or none of.
void write_whole(void* target, const void* from, uint64_t bytes);

inline bool replaces(uint32_t opcode) { return opcode == URMA_OPC_CAS || opcode == URMA_OPC_SWAP; }

// A one-sided request with one local piece whose remote side is mapped.
struct DirectAccess {
  char* mapped;
  char* local;
  uint64_t bytes;
  const urma_jfs_wr_t* wr;
};

// A message of at most one local piece.
struct DirectSend {
  const void* data;
  uint64_t bytes;
  uint64_t immediate;
};

// Where the remote bytes lie here; NULL where they are not mapped for this access.
inline char* mapped_at(const urma_sge_t& sge, uint64_t bytes, uint32_t access) {
  const auto* handle = static_cast<const SegmentHandle*>(sge.tseg);
  if (handle == nullptr || handle->registered) return nullptr;
  const Grant* grant = static_cast<const RemoteSegment*>(handle)->grant();
  if (grant == nullptr || sge.addr < grant->begin || sge.addr >= grant->end ||
      bytes > grant->end - sge.addr || (grant->direct_access & access) == 0 || !grant->stands()) {
    return nullptr;
  }
  return reinterpret_cast<char*>(sge.addr + grant->distance);
}

inline bool local_stands(const urma_sge_t& sge) {
  const auto* handle = static_cast<const SegmentHandle*>(sge.tseg);
  return handle != nullptr && handle->registered &&
         static_cast<const Segment*>(handle)->covers(sge.addr, sge.len);
}

inline bool view_transfer(const urma_sg_t& local, const urma_sg_t& remote, uint32_t access,
                          bool in_wr, DirectAccess* request) {
  if (local.num_sge != 1 || remote.num_sge == 0 || local.sge == nullptr || remote.sge == nullptr) {
    return false;
  }
  const urma_sge_t& piece = local.sge[0];
  if (piece.len == 0 || piece.len > kCopyPerTurn || (!in_wr && !local_stands(piece))) return false;
  request->local = reinterpret_cast<char*>(piece.addr);
  request->bytes = piece.len;
  request->mapped = mapped_at(remote.sge[0], piece.len, access);
  return request->mapped != nullptr;
}

inline bool view_atomic(const urma_sge_t* local, const urma_sge_t* remote, DirectAccess* request) {
  if (local == nullptr || remote == nullptr || (local->len != 4 && local->len != 8) ||
      remote->addr % local->len != 0 || !local_stands(*local)) {
    return false;
  }
  request->local = reinterpret_cast<char*>(local->addr);
  request->bytes = local->len;
  request->mapped = mapped_at(*remote, local->len, URMA_ACCESS_ATOMIC);
  return request->mapped != nullptr;
}

// False where the request is not of that kind, or anything about it is not as it should be: then
// the long way finds out what. Nothing was executed.
inline bool view_direct(const urma_jfs_wr_t& wr, uint32_t max_inline, DirectAccess* request) {
  request->wr = &wr;
  const bool in_wr = wr.flag.bs.inline_flag != 0;
  switch (wr.opcode) {
    case URMA_OPC_WRITE:
      return view_transfer(wr.rw.src, wr.rw.dst, URMA_ACCESS_WRITE, in_wr, request) &&
             (!in_wr || request->bytes <= max_inline);
    case URMA_OPC_READ:
      return !in_wr && view_transfer(wr.rw.dst, wr.rw.src, URMA_ACCESS_READ, in_wr, request);
    case URMA_OPC_CAS:
    case URMA_OPC_SWAP:
    case URMA_OPC_FADD:
    case URMA_OPC_FSUB:
    case URMA_OPC_FAND:
    case URMA_OPC_FOR:
    case URMA_OPC_FXOR:
      // cas and faa begin with the same two members.
      return !in_wr && view_atomic(wr.cas.src, wr.cas.dst, request);
    case URMA_OPC_WRITE_ATOMIC:
      return view_transfer(wr.rw.src, wr.rw.dst, URMA_ACCESS_WRITE, in_wr, request) &&
             (!in_wr || request->bytes <= max_inline) && valid_width(wr.opcode, request->bytes) &&
             wr.rw.dst.sge[0].addr % request->bytes == 0;
    default:
      return false;
  }
}

inline bool view_direct(const urma_jfs_wr_t& wr, uint32_t max_inline, DirectSend* request) {
  const urma_sg_t& local = wr.send.src;
  *request = {nullptr, 0, wr.opcode == URMA_OPC_SEND_IMM ? wr.send.imm_data : 0};
  if (local.num_sge == 0) return true;
  if (local.num_sge != 1 || local.sge == nullptr) return false;
  const urma_sge_t& piece = local.sge[0];
  request->data = reinterpret_cast<const void*>(piece.addr);
  request->bytes = piece.len;
  if (piece.len == 0) return true;
  return wr.flag.bs.inline_flag != 0 ? piece.len <= max_inline : local_stands(piece);
}

[[gnu::always_inline]] inline void execute_direct(const DirectAccess& request) {
  const urma_jfs_wr_t& wr = *request.wr;
  if (wr.opcode == URMA_OPC_WRITE) {
    return copy_in_order(request.mapped, request.local, request.bytes);
  }
  if (wr.opcode == URMA_OPC_READ) {
    return copy_in_order(request.local, request.mapped, request.bytes);
  }
  if (wr.opcode == URMA_OPC_WRITE_ATOMIC) {
    return write_whole(request.mapped, request.local, request.bytes);
  }
  // faa.operand lies where cas.cmp_data does.
  const uint64_t second = replaces(wr.opcode) ? wr.cas.swap_data : 0;
  const uint64_t before = execute_atomic(
      wr.opcode, request.mapped, static_cast<uint32_t>(request.bytes), wr.cas.cmp_data, second);
  copy_word(request.local, reinterpret_cast<const char*>(&before), request.bytes);
}

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_DIRECT_H_
