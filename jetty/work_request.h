// SPDX-License-Identifier: MIT
//
// Work requests as the library keeps them, and the contract's reasons to refuse some.
#ifndef JETTY_WORK_REQUEST_H_
#define JETTY_WORK_REQUEST_H_

#include <cstdint>
#include <span>
#include <string>

#include "segment/segment.h"
#include "urma_types.h"

namespace urma {

// A piece of local memory. `ref` names its registration, so that one that has ended by the time of
// the copy is noticed; `valid` is false if the piece never lay inside its segment.
struct LocalPiece {
  uint64_t addr;
  uint32_t len;
  bool valid;
  SegmentRef ref;
  uint32_t open_token_id;  // Segment::open_token_id
};

// Limits of one queue.
struct SendLimits {
  uint32_t max_sge;
  uint32_t max_inline;
  uint64_t max_message;
};

enum class OpKind : uint8_t {
  kWrite,
  kWriteNotify,
  kWriteAtomic,
  kRead,
  kAtomic,
  kNop,
  kNone,
  // From here on, kinds that need a posted receive.
  kSend = 8,
  kWriteImm = 9,
};
// 1 or 0, which a short path adds up.
[[gnu::always_inline]] inline uint32_t receives_for(OpKind kind) {
  return static_cast<uint32_t>(kind) >> 3;
}
OpKind kind_of(urma_opcode_t opcode);
const char* kind_name(OpKind kind);
// The right that a one-sided request needs, URMA_ACCESS_*.
inline uint32_t right_of(OpKind kind) {
  if (kind == OpKind::kRead) return URMA_ACCESS_READ;
  return kind == OpKind::kAtomic ? URMA_ACCESS_ATOMIC : URMA_ACCESS_WRITE;
}
// Whether an atomic has a second operand, which replaces the old value.
inline bool replaces(uint32_t opcode) { return opcode == URMA_OPC_CAS || opcode == URMA_OPC_SWAP; }

// Whether 16 bytes can be changed at once. A library that used a lock of its own for it would not
// be atomic with other processes.
#if defined(__x86_64__) || defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
inline constexpr bool kHasWideAtomics = true;
#else
inline constexpr bool kHasWideAtomics = false;
#endif
// Whether an atomic or a WRITE_ATOMIC may have this width; false for every other opcode.
bool valid_width(uint32_t opcode, uint64_t bytes);

// How a user_tseg names a segment. The segment's owner is that of the target.
struct TokenKey {
  uint32_t token_id;
  uint32_t token;

  bool operator==(const TokenKey&) const = default;
};

// The parts of a work request that do not depend on the queue's memory.
struct RequestView {
  OpKind kind;
  std::span<const urma_sge_t> local;
  const urma_sge_t* remote;    // NULL for two-sided operations
  const urma_sge_t* notified;  // of WRITE_NOTIFY, else NULL
  uint64_t bytes;              // sum of the local lengths, or the atomic's width
  uint64_t immediate;          // of SEND_IMM, WRITE_IMM and WRITE_NOTIFY, else 0
};

// Takes a work request apart, or returns URMA_EINVAL after one log line with the refused argument,
// its value and the limit.
urma_status_t view_request(const urma_jfs_wr_t& wr, const SendLimits& limits, RequestView* view);

// Finds the registration of one sge of local memory. False if it is empty, or names none.
[[gnu::always_inline]] inline bool piece_of_segment(const urma_sge_t& sge, LocalPiece* piece) {
  const auto* handle = static_cast<const SegmentHandle*>(sge.tseg);
  if (sge.len == 0 || handle == nullptr || !handle->registered) [[unlikely]]
    return false;
  const auto& segment = static_cast<const Segment&>(*handle);
  *piece = {sge.addr, sge.len, segment.covers(sge.addr, sge.len), segment.ref,
            segment.open_token_id};
  return true;
}
// local_piece() for those.
bool piece_without_segment(const urma_sge_t& sge, LocalPiece* piece);
// The same for any sge. False, with one log line, if it has bytes and no registration.
[[gnu::always_inline]] inline bool local_piece(const urma_sge_t& sge, LocalPiece* piece) {
  return piece_of_segment(sge, piece) || piece_without_segment(sge, piece);
}

// Why a piece cannot be used; "" if it can.
std::string why_piece_fails(const SegmentTable& segments, const LocalPiece& piece);
// Why an owner refuses an access to its memory.
std::string why_access_fails(uint32_t token_id, uint64_t addr, uint64_t bytes, uint32_t rights);
// What a status says of the request that it ends; NULL if the request is not the cause.
const char* failure_text(urma_cr_status_t status);

}  // namespace urma

#endif  // JETTY_WORK_REQUEST_H_
