// SPDX-License-Identifier: MIT
#include "jetty/work_request.h"

#include "urma/base/log.h"

namespace urma {
namespace {

bool refuse_list(const char* side, const urma_sg_t& list, uint32_t min, uint32_t max) {
  if (list.num_sge >= min && list.num_sge <= max && (list.num_sge == 0 || list.sge != nullptr)) {
    return false;
  }
  if (max == UINT32_MAX) {
    URMA_LOG_LIMITED(ERR, "post: {} has num_sge {} at {}; give a list of {} or more elements", side,
                     list.num_sge, static_cast<const void*>(list.sge), min);
  } else {
    URMA_LOG_LIMITED(ERR, "post: {} has num_sge {} at {}; give a list of {} to {} elements", side,
                     list.num_sge, static_cast<const void*>(list.sge), min, max);
  }
  return true;
}

uint64_t sum_lengths(std::span<const urma_sge_t> list) {
  uint64_t bytes = 0;
  for (const urma_sge_t& sge : list) bytes += sge.len;
  return bytes;
}

bool refuse_remote(const urma_sge_t& sge) {
  if (sge.tseg != nullptr || sge.user_tseg != nullptr) return false;
  URMA_LOG_LIMITED(ERR,
                   "post: a remote sge has neither tseg nor user_tseg; import the segment, or give "
                   "its token id and token");
  return true;
}

urma_status_t view_transfer(const urma_sg_t& local, const urma_sg_t* remote,
                            const SendLimits& limits, RequestView* view) {
  if (refuse_list("the local side", local, 0, limits.max_sge)) return URMA_EINVAL;
  // More than one remote element is legal; all but the first are ignored.
  if (remote != nullptr &&
      (refuse_list("the remote side", *remote, 1, UINT32_MAX) || refuse_remote(remote->sge[0]))) {
    return URMA_EINVAL;
  }
  view->local = {local.sge, local.num_sge};
  view->remote = remote != nullptr ? &remote->sge[0] : nullptr;
  view->bytes = sum_lengths(view->local);
  if (view->bytes > limits.max_message) {
    URMA_LOG_LIMITED(ERR, "post: {} bytes exceed the limit of {}; split the request", view->bytes,
                     limits.max_message);
    return URMA_EINVAL;
  }
  return URMA_SUCCESS;
}

// The value goes to the second remote element.
urma_status_t view_notify(const urma_jfs_wr_t& wr, const SendLimits& limits, RequestView* view) {
  if (refuse_list("the remote side of WRITE_NOTIFY", wr.rw.dst, 2, UINT32_MAX) ||
      refuse_remote(wr.rw.dst.sge[1])) {
    return URMA_EINVAL;
  }
  view->notified = &wr.rw.dst.sge[1];
  return view_transfer(wr.rw.src, &wr.rw.dst, limits, view);
}

urma_status_t view_write_atomic(const urma_jfs_wr_t& wr, const SendLimits& limits,
                                RequestView* view) {
  const urma_status_t status = view_transfer(wr.rw.src, &wr.rw.dst, limits, view);
  if (status != URMA_SUCCESS || valid_width(wr.opcode, view->bytes)) return status;
  URMA_LOG_LIMITED(ERR, "post: WRITE_ATOMIC of {} bytes; src must have 1, 2, 4, 8{} bytes together",
                   view->bytes, kHasWideAtomics ? " or 16" : "");
  return URMA_EINVAL;
}

urma_status_t view_send(const urma_jfs_wr_t& wr, const SendLimits& limits, RequestView* view) {
  if (wr.opcode == URMA_OPC_SEND_INVALIDATE &&
      (wr.send.tseg == nullptr || static_cast<const SegmentHandle*>(wr.send.tseg)->registered)) {
    URMA_LOG_LIMITED(ERR,
                     "post: SEND_INVALIDATE with send.tseg {}; give a segment of the peer that was "
                     "imported here",
                     static_cast<const void*>(wr.send.tseg));
    return URMA_EINVAL;
  }
  return view_transfer(wr.send.src, nullptr, limits, view);
}

// 16 bytes are too many for the members that hold 4 and 8.
bool refuse_operands(const urma_jfs_wr_t& wr) {
  if (wr.cas.src->len <= sizeof(uint64_t)) return false;
  if (wr.cas.cmp_addr != 0 && wr.cas.swap_addr != 0) return false;
  URMA_LOG_LIMITED(ERR, "post: CAS of {} bytes with cmp_addr {:#x} and swap_addr {:#x}; give both",
                   wr.cas.src->len, wr.cas.cmp_addr, wr.cas.swap_addr);
  return true;
}

urma_status_t view_atomic(const urma_jfs_wr_t& wr, RequestView* view) {
  // cas and faa begin with the same two members.
  const urma_sge_t* local = wr.cas.src;
  const urma_sge_t* remote = wr.cas.dst;
  if (local == nullptr || remote == nullptr) {
    URMA_LOG_LIMITED(ERR, "post: an atomic needs src (the local result) and dst (the target)");
    return URMA_EINVAL;
  }
  if (remote->tseg == nullptr) {
    URMA_LOG_LIMITED(ERR,
                     "post: the dst of an atomic has no tseg; import the segment (user_tseg {} is "
                     "for reads and writes)",
                     static_cast<const void*>(remote->user_tseg));
    return URMA_EINVAL;
  }
  if (!valid_width(wr.opcode, local->len)) {
    URMA_LOG_LIMITED(ERR, "post: an atomic of {} bytes; src->len must be 4 or 8{}", local->len,
                     kHasWideAtomics ? ", or 16 for CAS" : "");
    return URMA_EINVAL;
  }
  if (refuse_operands(wr)) return URMA_EINVAL;
  view->local = {local, 1};
  view->remote = remote;
  view->bytes = local->len;
  return URMA_SUCCESS;
}

urma_status_t check_inline(const urma_jfs_wr_t& wr, const SendLimits& limits,
                           const RequestView& view) {
  if (wr.flag.bs.inline_flag == 0) return URMA_SUCCESS;
  if (view.kind == OpKind::kRead || view.kind == OpKind::kAtomic) {
    URMA_LOG_LIMITED(ERR, "post: inline_flag with opcode {}; only sends and writes can be inline",
                     static_cast<int>(wr.opcode));
    return URMA_EINVAL;
  }
  if (view.bytes <= limits.max_inline) return URMA_SUCCESS;
  URMA_LOG_LIMITED(ERR, "post: {} inline bytes exceed the queue's max_inline_data of {}",
                   view.bytes, limits.max_inline);
  return URMA_EINVAL;
}

uint64_t immediate_of(const urma_jfs_wr_t& wr) {
  if (wr.opcode == URMA_OPC_SEND_IMM) return wr.send.imm_data;
  const bool notifies = wr.opcode == URMA_OPC_WRITE_IMM || wr.opcode == URMA_OPC_WRITE_NOTIFY;
  return notifies ? wr.rw.notify_data : 0;
}

}  // namespace

OpKind kind_of(urma_opcode_t opcode) {
  switch (opcode) {
    case URMA_OPC_WRITE:
      return OpKind::kWrite;
    case URMA_OPC_WRITE_IMM:
      return OpKind::kWriteImm;
    case URMA_OPC_WRITE_NOTIFY:
      return OpKind::kWriteNotify;
    case URMA_OPC_WRITE_ATOMIC:
      return OpKind::kWriteAtomic;
    case URMA_OPC_READ:
      return OpKind::kRead;
    case URMA_OPC_SEND:
    case URMA_OPC_SEND_IMM:
    case URMA_OPC_SEND_INVALIDATE:
      return OpKind::kSend;
    case URMA_OPC_CAS:
    case URMA_OPC_SWAP:
    case URMA_OPC_FADD:
    case URMA_OPC_FSUB:
    case URMA_OPC_FAND:
    case URMA_OPC_FOR:
    case URMA_OPC_FXOR:
      return OpKind::kAtomic;
    case URMA_OPC_NOP:
      return OpKind::kNop;
    default:
      return OpKind::kNone;
  }
}

const char* kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::kWrite:
      return "WRITE";
    case OpKind::kWriteNotify:
      return "WRITE_NOTIFY";
    case OpKind::kWriteAtomic:
      return "WRITE_ATOMIC";
    case OpKind::kRead:
      return "READ";
    case OpKind::kAtomic:
      return "atomic";
    case OpKind::kSend:
      return "SEND";
    case OpKind::kWriteImm:
      return "WRITE_IMM";
    default:
      return "request";
  }
}

bool valid_width(uint32_t opcode, uint64_t bytes) {
  switch (opcode) {
    case URMA_OPC_CAS:
      return bytes == 4 || bytes == 8 || (kHasWideAtomics && bytes == 16);
    case URMA_OPC_SWAP:
    case URMA_OPC_FADD:
    case URMA_OPC_FSUB:
    case URMA_OPC_FAND:
    case URMA_OPC_FOR:
    case URMA_OPC_FXOR:
      return bytes == 4 || bytes == 8;
    case URMA_OPC_WRITE_ATOMIC:
      return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 ||
             (kHasWideAtomics && bytes == 16);
    default:
      return false;
  }
}

urma_status_t view_request(const urma_jfs_wr_t& wr, const SendLimits& limits, RequestView* view) {
  *view = {};
  view->kind = kind_of(wr.opcode);
  view->immediate = immediate_of(wr);
  urma_status_t status = URMA_EINVAL;
  switch (view->kind) {
    case OpKind::kWrite:
    case OpKind::kWriteImm:
      status = view_transfer(wr.rw.src, &wr.rw.dst, limits, view);
      break;
    case OpKind::kRead:
      status = view_transfer(wr.rw.dst, &wr.rw.src, limits, view);
      break;
    case OpKind::kWriteNotify:
      status = view_notify(wr, limits, view);
      break;
    case OpKind::kWriteAtomic:
      status = view_write_atomic(wr, limits, view);
      break;
    case OpKind::kSend:
      status = view_send(wr, limits, view);
      break;
    case OpKind::kAtomic:
      status = view_atomic(wr, view);
      break;
    case OpKind::kNop:
      status = URMA_SUCCESS;
      break;
    case OpKind::kNone:
      URMA_LOG_LIMITED(ERR,
                       "post: unsupported opcode {:#x} (of urma_opcode_t, only FLUSH_DMA is not "
                       "supported)",
                       static_cast<int>(wr.opcode));
      break;
  }
  return status == URMA_SUCCESS ? check_inline(wr, limits, *view) : status;
}

bool piece_without_segment(const urma_sge_t& sge, LocalPiece* piece) {
  *piece = {sge.addr, sge.len, sge.len == 0, {}, 0};
  if (sge.len != 0 && sge.tseg == nullptr) {
    URMA_LOG_LIMITED(ERR,
                     "post: a local sge of {} bytes has no tseg; register the buffer, or send "
                     "it inline",
                     sge.len);
    return false;
  }
  return true;
}

std::string why_piece_fails(const SegmentTable& segments, const LocalPiece& piece) {
  if (piece.len == 0) return "";
  if (piece.ref.generation == 0) {
    return urma::format("the segment of the {} bytes at {:#x} was imported; register the memory",
                        piece.len, piece.addr);
  }
  std::string why;
  const bool stands = segments.with_segment(piece.ref, [&](const Segment& segment) {
    if (segment.holds(piece.addr, piece.len)) return;
    why = urma::format("the {} bytes at {:#x} leave their segment of {} bytes at {:#x}", piece.len,
                       piece.addr, segment.registered_len(), segment.base);
  });
  if (stands) return why;
  return urma::format("the segment of the {} bytes at {:#x} was unregistered", piece.len,
                      piece.addr);
}

namespace {

// As "READ|WRITE".
std::string names_of(uint32_t access) {
  constexpr struct {
    uint32_t bit;
    const char* name;
  } kRights[] = {
      {URMA_ACCESS_READ, "READ"}, {URMA_ACCESS_WRITE, "WRITE"}, {URMA_ACCESS_ATOMIC, "ATOMIC"}};
  std::string text;
  for (const auto& right : kRights) {
    if ((access & right.bit) == 0) continue;
    if (!text.empty()) text += '|';
    text += right.name;
  }
  return text.empty() ? "LOCAL_ONLY" : text;
}

}  // namespace

std::string why_access_fails(uint32_t token_id, uint64_t addr, uint64_t bytes, uint32_t rights) {
  return urma::format("no registration of token id {:#x} grants {} on the {} bytes at {:#x}",
                      token_id, names_of(rights), bytes, addr);
}

const char* failure_text(urma_cr_status_t status) {
  switch (status) {
    case URMA_CR_LOC_LEN_ERR:
      return "its length does not fit";
    case URMA_CR_LOC_ACCESS_ERR:
      return "its own memory is not usable";
    case URMA_CR_REM_RESP_LEN_ERR:
      return "the peer's receive is too short";
    case URMA_CR_REM_UNSUPPORTED_REQ_ERR:
      return "the peer does not support it";
    case URMA_CR_REM_OPERATION_ERR:
      return "the peer could not finish it";
    case URMA_CR_REM_ACCESS_ABORT_ERR:
      return "the peer refuses the access";
    case URMA_CR_RNR_RETRY_CNT_EXC_ERR:
      return "the peer posted no receive within the retries of rnr_retry";
    default:
      return nullptr;
  }
}

}  // namespace urma
