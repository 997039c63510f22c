// SPDX-License-Identifier: MIT
#include "jetty/work_request.h"

#include "urma/base/log.h"

namespace urma {
namespace {

bool refuse_list(const char* side, const urma_sg_t& list, uint32_t min, uint32_t max) {
  if (list.num_sge >= min && list.num_sge <= max && (list.num_sge == 0 || list.sge != nullptr)) {
    return false;
  }
  URMA_LOG_LIMITED(ERR, "post: {} has num_sge {} at {}; give {} to {} elements and a list", side,
                   list.num_sge, static_cast<const void*>(list.sge), min, max);
  return true;
}

uint64_t sum_lengths(std::span<const urma_sge_t> list) {
  uint64_t bytes = 0;
  for (const urma_sge_t& sge : list) bytes += sge.len;
  return bytes;
}

bool refuse_remote(const urma_sge_t& sge) {
  if (sge.tseg != nullptr) return false;
  URMA_LOG_LIMITED(ERR,
                   "post: the remote sge has no tseg; import the segment (user_tseg {} is not "
                   "accepted by this provider)",
                   static_cast<const void*>(sge.user_tseg));
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
    URMA_LOG_LIMITED(ERR, "post: {} bytes are over the limit of {}; split the request", view->bytes,
                     limits.max_message);
    return URMA_EINVAL;
  }
  return URMA_SUCCESS;
}

urma_status_t view_atomic(const urma_sge_t* local, const urma_sge_t* remote, RequestView* view) {
  if (local == nullptr || remote == nullptr) {
    URMA_LOG_LIMITED(ERR, "post: an atomic needs src (the local result) and dst (the target)");
    return URMA_EINVAL;
  }
  if (refuse_remote(*remote)) return URMA_EINVAL;
  if (local->len != 4 && local->len != 8) {
    URMA_LOG_LIMITED(ERR, "post: an atomic of {} bytes; src->len must be 4 or 8", local->len);
    return URMA_EINVAL;
  }
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
  URMA_LOG_LIMITED(ERR, "post: {} inline bytes are over the queue's max_inline_data of {}",
                   view.bytes, limits.max_inline);
  return URMA_EINVAL;
}

uint64_t immediate_of(const urma_jfs_wr_t& wr) {
  if (wr.opcode == URMA_OPC_SEND_IMM) return wr.send.imm_data;
  return wr.opcode == URMA_OPC_WRITE_IMM ? wr.rw.notify_data : 0;
}

}  // namespace

OpKind kind_of(urma_opcode_t opcode) {
  switch (opcode) {
    case URMA_OPC_WRITE:
      return OpKind::kWrite;
    case URMA_OPC_WRITE_IMM:
      return OpKind::kWriteImm;
    case URMA_OPC_READ:
      return OpKind::kRead;
    case URMA_OPC_SEND:
    case URMA_OPC_SEND_IMM:
      return OpKind::kSend;
    case URMA_OPC_CAS:
    case URMA_OPC_FADD:
      return OpKind::kAtomic;
    default:
      return OpKind::kNone;
  }
}

urma_status_t view_request(const urma_jfs_wr_t& wr, const SendLimits& limits, RequestView* view) {
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
    case OpKind::kSend:
      status = view_transfer(wr.send.src, nullptr, limits, view);
      break;
    case OpKind::kAtomic:
      // cas and faa begin with the same two members.
      status = view_atomic(wr.cas.src, wr.cas.dst, view);
      break;
    case OpKind::kNone:
      URMA_LOG_LIMITED(ERR,
                       "post: opcode {} is not offered; this provider executes WRITE, "
                       "WRITE_IMM, READ, SEND, SEND_IMM, CAS and FADD",
                       static_cast<int>(wr.opcode));
      break;
  }
  return status == URMA_SUCCESS ? check_inline(wr, limits, *view) : status;
}

bool local_piece(const urma_sge_t& sge, LocalPiece* piece) {
  *piece = {sge.addr, sge.len, false, {}};
  if (sge.len == 0) {
    piece->valid = true;
    return true;
  }
  if (sge.tseg == nullptr) {
    URMA_LOG_LIMITED(ERR,
                     "post: a local sge of {} bytes has no tseg; register the buffer, or send "
                     "it inline",
                     sge.len);
    return false;
  }
  const auto* handle = static_cast<const SegmentHandle*>(sge.tseg);
  if (!handle->registered) return true;
  const auto* segment = static_cast<const Segment*>(handle);
  piece->ref = segment->ref;
  piece->valid = segment->covers(sge.addr, sge.len);
  return true;
}

}  // namespace urma
