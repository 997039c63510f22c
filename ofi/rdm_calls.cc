/* SPDX-License-Identifier: MIT */

// Endpoints for datagrams: the calls of libfabric, with and without tags.

#include <rdma/fi_errno.h>

#include "ofi/rdm_endpoint.h"

namespace urma_fi {

fi_ops_msg RdmEndpoint::msg_ops_ = {
    sizeof(fi_ops_msg),    RdmEndpoint::recv,      RdmEndpoint::recvv,   RdmEndpoint::recvmsg,
    RdmEndpoint::send_one, RdmEndpoint::sendv,     RdmEndpoint::sendmsg, RdmEndpoint::inject,
    RdmEndpoint::senddata, RdmEndpoint::injectdata};
fi_ops_tagged RdmEndpoint::tagged_ops_ = {
    sizeof(fi_ops_tagged),  RdmEndpoint::trecv,      RdmEndpoint::trecvv,   RdmEndpoint::trecvmsg,
    RdmEndpoint::tsend,     RdmEndpoint::tsendv,     RdmEndpoint::tsendmsg, RdmEndpoint::tinject,
    RdmEndpoint::tsenddata, RdmEndpoint::tinjectdata};

ssize_t RdmEndpoint::recv(fid_ep* ep, void* buffer, size_t size, void*, fi_addr_t from,
                          void* context) {
  const iovec piece = {buffer, size};
  return of(ep)->receive({{&piece, 1}, from, FI_MSG, 0, 0, context, of(ep)->receive_flags()});
}

ssize_t RdmEndpoint::recvv(fid_ep* ep, const iovec* pieces, void**, size_t count, fi_addr_t from,
                           void* context) {
  return of(ep)->receive({{pieces, count}, from, FI_MSG, 0, 0, context, of(ep)->receive_flags()});
}

ssize_t RdmEndpoint::recvmsg(fid_ep* ep, const fi_msg* message, uint64_t flags) {
  return of(ep)->receive({{message->msg_iov, message->iov_count},
                          message->addr,
                          FI_MSG,
                          0,
                          0,
                          message->context,
                          flags});
}

ssize_t RdmEndpoint::send_one(fid_ep* ep, const void* buffer, size_t size, void*, fi_addr_t to,
                              void* context) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->send({{&piece, 1}, to, FI_MSG, 0, 0, context, of(ep)->call_flags()});
}

ssize_t RdmEndpoint::sendv(fid_ep* ep, const iovec* pieces, void**, size_t count, fi_addr_t to,
                           void* context) {
  return of(ep)->send({{pieces, count}, to, FI_MSG, 0, 0, context, of(ep)->call_flags()});
}

ssize_t RdmEndpoint::sendmsg(fid_ep* ep, const fi_msg* message, uint64_t flags) {
  return of(ep)->send({{message->msg_iov, message->iov_count},
                       message->addr,
                       FI_MSG,
                       0,
                       message->data,
                       message->context,
                       of(ep)->send_flags(flags)});
}

ssize_t RdmEndpoint::inject(fid_ep* ep, const void* buffer, size_t size, fi_addr_t to) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->send({{&piece, 1}, to, FI_MSG, 0, 0, nullptr, FI_INJECT});
}

ssize_t RdmEndpoint::senddata(fid_ep* ep, const void* buffer, size_t size, void*, uint64_t data,
                              fi_addr_t to, void* context) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->send(
      {{&piece, 1}, to, FI_MSG, 0, data, context, of(ep)->call_flags() | FI_REMOTE_CQ_DATA});
}

ssize_t RdmEndpoint::injectdata(fid_ep* ep, const void* buffer, size_t size, uint64_t data,
                                fi_addr_t to) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->send({{&piece, 1}, to, FI_MSG, 0, data, nullptr, FI_INJECT | FI_REMOTE_CQ_DATA});
}

ssize_t RdmEndpoint::trecv(fid_ep* ep, void* buffer, size_t size, void*, fi_addr_t from,
                           uint64_t tag, uint64_t ignore, void* context) {
  const iovec piece = {buffer, size};
  return of(ep)->receive(
      {{&piece, 1}, from, FI_TAGGED, tag, ignore, context, of(ep)->receive_flags()});
}

ssize_t RdmEndpoint::trecvv(fid_ep* ep, const iovec* pieces, void**, size_t count, fi_addr_t from,
                            uint64_t tag, uint64_t ignore, void* context) {
  return of(ep)->receive(
      {{pieces, count}, from, FI_TAGGED, tag, ignore, context, of(ep)->receive_flags()});
}

ssize_t RdmEndpoint::trecvmsg(fid_ep* ep, const fi_msg_tagged* message, uint64_t flags) {
  return of(ep)->receive({{message->msg_iov, message->iov_count},
                          message->addr,
                          FI_TAGGED,
                          message->tag,
                          message->ignore,
                          message->context,
                          flags});
}

ssize_t RdmEndpoint::tsend(fid_ep* ep, const void* buffer, size_t size, void*, fi_addr_t to,
                           uint64_t tag, void* context) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->send({{&piece, 1}, to, FI_TAGGED, tag, 0, context, of(ep)->call_flags()});
}

ssize_t RdmEndpoint::tsendv(fid_ep* ep, const iovec* pieces, void**, size_t count, fi_addr_t to,
                            uint64_t tag, void* context) {
  return of(ep)->send({{pieces, count}, to, FI_TAGGED, tag, 0, context, of(ep)->call_flags()});
}

ssize_t RdmEndpoint::tsendmsg(fid_ep* ep, const fi_msg_tagged* message, uint64_t flags) {
  return of(ep)->send({{message->msg_iov, message->iov_count},
                       message->addr,
                       FI_TAGGED,
                       message->tag,
                       message->data,
                       message->context,
                       of(ep)->send_flags(flags)});
}

ssize_t RdmEndpoint::tinject(fid_ep* ep, const void* buffer, size_t size, fi_addr_t to,
                             uint64_t tag) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->send({{&piece, 1}, to, FI_TAGGED, tag, 0, nullptr, FI_INJECT});
}

ssize_t RdmEndpoint::tsenddata(fid_ep* ep, const void* buffer, size_t size, void*, uint64_t data,
                               fi_addr_t to, uint64_t tag, void* context) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->send(
      {{&piece, 1}, to, FI_TAGGED, tag, data, context, of(ep)->call_flags() | FI_REMOTE_CQ_DATA});
}

ssize_t RdmEndpoint::tinjectdata(fid_ep* ep, const void* buffer, size_t size, uint64_t data,
                                 fi_addr_t to, uint64_t tag) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->send(
      {{&piece, 1}, to, FI_TAGGED, tag, data, nullptr, FI_INJECT | FI_REMOTE_CQ_DATA});
}

}  // namespace urma_fi
