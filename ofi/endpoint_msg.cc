/* SPDX-License-Identifier: MIT */

// Endpoints: messages.

#include "ofi/cntr.h"
#include "ofi/endpoint.h"
#include "ofi/info.h"
#include "ofi/log.h"
#include "ofi/mr.h"

namespace urma_fi {

fi_ops_msg Endpoint::msg_ops_ = {sizeof(fi_ops_msg),  Endpoint::recv,     Endpoint::recvv,
                                 Endpoint::recvmsg,   Endpoint::send_one, Endpoint::sendv,
                                 Endpoint::sendmsg,   Endpoint::inject,   Endpoint::senddata,
                                 Endpoint::injectdata};

bool Endpoint::by_value(std::span<const iovec> pieces, void** descriptors, uint64_t flags) const {
  if ((flags & FI_INJECT) != 0) return true;
  size_t bytes = 0;
  bool registered = true;
  for (size_t i = 0; i < pieces.size(); i++) {
    bytes += pieces[i].iov_len;
    registered = registered && descriptors != nullptr && descriptors[i] != nullptr;
  }
  return !registered && bytes <= info_->tx_attr->inject_size;
}

ssize_t Endpoint::gather(std::span<const iovec> pieces, void** descriptors, bool by_value,
                         urma_sge_t* sges) const {
  if (pieces.size() > kMaxPieces) return -FI_EINVAL;
  size_t bytes = 0;
  for (size_t i = 0; i < pieces.size(); i++) {
    const size_t size = pieces[i].iov_len;
    urma_target_seg_t* segment = descriptors == nullptr ? nullptr : segment_of(descriptors[i]);
    bytes += size;
    if (segment == nullptr && size > 0 && !by_value) {
      URMA_FI_WARN(FI_LOG_EP_DATA, "%zu bytes without a descriptor; see FI_MR_LOCAL\n", size);
      return -FI_EINVAL;
    }
    if (size > info_->ep_attr->max_msg_size) return -FI_EMSGSIZE;
    sges[i] = {};
    sges[i].addr = reinterpret_cast<uintptr_t>(pieces[i].iov_base);
    sges[i].len = static_cast<uint32_t>(size);
    sges[i].tseg = segment;
  }
  const size_t most = by_value ? info_->tx_attr->inject_size : info_->ep_attr->max_msg_size;
  if (bytes <= most) return static_cast<ssize_t>(bytes);
  URMA_FI_WARN(FI_LOG_EP_DATA, "%zu bytes exceed the limit of %zu\n", bytes, most);
  return -FI_EMSGSIZE;
}

ssize_t Endpoint::receive(std::span<const iovec> pieces, void** descriptors, void* context,
                          uint64_t flags) {
  urma_sge_t sges[kMaxPieces];
  const ssize_t bytes = gather(pieces, descriptors, false, sges);
  if (bytes < 0) return bytes;
  if (jfr_ == nullptr) return -FI_EOPBADSTATE;
  Op* op = receives_.take();
  if (op == nullptr) return -FI_EAGAIN;
  op->context = context;
  op->buffer = pieces.empty() ? nullptr : pieces.front().iov_base;
  op->flags = FI_RECV | FI_MSG;
  op->counter = counters_.receive;
  op->report = report_receives_ || (flags & FI_COMPLETION) != 0;
  op->silent = false;
  urma_jfr_wr_t request{};
  request.src = {sges, static_cast<uint32_t>(pieces.size())};
  request.user_ctx = reinterpret_cast<uintptr_t>(op);
  urma_jfr_wr_t* bad = nullptr;
  const urma_status_t status = urma_post_jfr_wr(jfr_, &request, &bad);
  if (status == URMA_SUCCESS) return 0;
  receives_.put(op);
  return status == URMA_ENOMEM ? -FI_EAGAIN : error_of_status(status);
}

ssize_t Endpoint::post(urma_jfs_wr_t* request, void* context, uint64_t kind, uint64_t flags,
                       Cntr* counter, urma_sge_t* unwanted) {
  // Pairs with the release of join.
  if (!bound_.load(std::memory_order_acquire)) return -FI_ENOTCONN;
  Op* op = sends_.take();
  if (op == nullptr) return -FI_EAGAIN;
  op->context = context;
  op->buffer = nullptr;
  op->flags = kind;
  op->counter = counter;
  op->report = (flags & FI_COMPLETION) != 0;
  op->silent = !op->report && (flags & FI_INJECT) != 0 && context == nullptr;
  if (unwanted != nullptr) {
    unwanted->addr = reinterpret_cast<uintptr_t>(&op->unwanted);
    unwanted->tseg = results_;
  }
  request->flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
  request->flag.bs.fence = (flags & FI_FENCE) != 0;
  if ((flags & FI_FENCE) != 0) request->flag.bs.place_order = URMA_STRONG_ORDER;
  request->user_ctx = reinterpret_cast<uintptr_t>(op);
  request->tjetty = target_;
  urma_jfs_wr_t* bad = nullptr;
  const urma_status_t status = urma_post_jetty_send_wr(jetty_, request, &bad);
  if (status == URMA_SUCCESS) return 0;
  sends_.put(op);
  return status == URMA_ENOMEM ? -FI_EAGAIN : error_of_status(status);
}

ssize_t Endpoint::send(std::span<const iovec> pieces, void** descriptors, uint64_t data,
                       void* context, uint64_t flags) {
  urma_sge_t sges[kMaxPieces];
  const bool copied = by_value(pieces, descriptors, flags);
  const ssize_t bytes = gather(pieces, descriptors, copied, sges);
  if (bytes < 0) return bytes;
  urma_jfs_wr_t request{};
  request.opcode = (flags & FI_REMOTE_CQ_DATA) != 0 ? URMA_OPC_SEND_IMM : URMA_OPC_SEND;
  request.flag.bs.inline_flag = copied;
  request.send.src = {sges, static_cast<uint32_t>(pieces.size())};
  request.send.imm_data = data;
  return post(&request, context, FI_SEND | FI_MSG, flags, counters_.send);
}

ssize_t Endpoint::recv(fid_ep* ep, void* buffer, size_t size, void* descriptor, fi_addr_t,
                       void* context) {
  const iovec piece = {buffer, size};
  return of(ep)->receive({&piece, 1}, &descriptor, context, of(ep)->info_->rx_attr->op_flags);
}

ssize_t Endpoint::recvv(fid_ep* ep, const iovec* pieces, void** descriptors, size_t count,
                        fi_addr_t, void* context) {
  return of(ep)->receive({pieces, count}, descriptors, context, of(ep)->info_->rx_attr->op_flags);
}

ssize_t Endpoint::recvmsg(fid_ep* ep, const fi_msg* message, uint64_t flags) {
  return of(ep)->receive({message->msg_iov, message->iov_count}, message->desc, message->context,
                         flags);
}

ssize_t Endpoint::send_one(fid_ep* ep, const void* buffer, size_t size, void* descriptor, fi_addr_t,
                           void* context) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->send({&piece, 1}, &descriptor, 0, context, of(ep)->call_flags());
}

ssize_t Endpoint::sendv(fid_ep* ep, const iovec* pieces, void** descriptors, size_t count,
                        fi_addr_t, void* context) {
  return of(ep)->send({pieces, count}, descriptors, 0, context, of(ep)->call_flags());
}

ssize_t Endpoint::sendmsg(fid_ep* ep, const fi_msg* message, uint64_t flags) {
  return of(ep)->send({message->msg_iov, message->iov_count}, message->desc, message->data,
                      message->context, of(ep)->message_flags(flags));
}

ssize_t Endpoint::inject(fid_ep* ep, const void* buffer, size_t size, fi_addr_t) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->send({&piece, 1}, nullptr, 0, nullptr, FI_INJECT);
}

ssize_t Endpoint::senddata(fid_ep* ep, const void* buffer, size_t size, void* descriptor,
                           uint64_t data, fi_addr_t, void* context) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->send({&piece, 1}, &descriptor, data, context,
                      of(ep)->call_flags() | FI_REMOTE_CQ_DATA);
}

ssize_t Endpoint::injectdata(fid_ep* ep, const void* buffer, size_t size, uint64_t data,
                             fi_addr_t) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->send({&piece, 1}, nullptr, data, nullptr, FI_INJECT | FI_REMOTE_CQ_DATA);
}

}  // namespace urma_fi
