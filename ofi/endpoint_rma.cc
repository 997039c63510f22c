/* SPDX-License-Identifier: MIT */

// Endpoints: reading and writing the memory of the peer.

#include "ofi/cntr.h"
#include "ofi/endpoint.h"
#include "ofi/info.h"
#include "ofi/log.h"
#include "ofi/mr.h"

namespace urma_fi {

fi_ops_rma Endpoint::rma_ops_ = {sizeof(fi_ops_rma),  Endpoint::read,
                                 Endpoint::readv,     Endpoint::readmsg,
                                 Endpoint::write,     Endpoint::writev,
                                 Endpoint::writemsg,  Endpoint::inject_write,
                                 Endpoint::writedata, Endpoint::inject_writedata};

ssize_t Endpoint::read_remote(std::span<const iovec> pieces, void** descriptors, Remote from,
                              void* context, uint64_t flags) {
  urma_sge_t sges[kMaxPieces];
  const ssize_t bytes = gather(pieces, descriptors, false, sges);
  if (bytes < 0) return bytes;
  urma_user_tseg_t segment = target_of_key(from.key);
  urma_sge_t remote{};
  remote.addr = from.address;
  remote.len = static_cast<uint32_t>(bytes);
  remote.user_tseg = &segment;
  urma_jfs_wr_t request{};
  request.opcode = URMA_OPC_READ;
  request.rw.src = {&remote, 1};
  request.rw.dst = {sges, static_cast<uint32_t>(pieces.size())};
  return post(&request, context, FI_READ | FI_RMA, flags, counters_.read);
}

ssize_t Endpoint::write_remote(std::span<const iovec> pieces, void** descriptors, Remote to,
                               uint64_t data, void* context, uint64_t flags) {
  urma_sge_t sges[kMaxPieces];
  const bool copied = by_value(pieces, descriptors, flags);
  const ssize_t bytes = gather(pieces, descriptors, copied, sges);
  if (bytes < 0) return bytes;
  urma_user_tseg_t segment = target_of_key(to.key);
  urma_sge_t remote{};
  remote.addr = to.address;
  remote.len = static_cast<uint32_t>(bytes);
  remote.user_tseg = &segment;
  urma_jfs_wr_t request{};
  request.opcode = (flags & FI_REMOTE_CQ_DATA) != 0 ? URMA_OPC_WRITE_IMM : URMA_OPC_WRITE;
  request.flag.bs.inline_flag = copied;
  request.rw.src = {sges, static_cast<uint32_t>(pieces.size())};
  request.rw.dst = {&remote, 1};
  request.rw.notify_data = data;
  return post(&request, context, FI_WRITE | FI_RMA, flags, counters_.write);
}

ssize_t Endpoint::read(fid_ep* ep, void* buffer, size_t size, void* descriptor, fi_addr_t,
                       uint64_t address, uint64_t key, void* context) {
  const iovec piece = {buffer, size};
  return of(ep)->read_remote({&piece, 1}, &descriptor, {address, key}, context,
                             of(ep)->call_flags());
}

ssize_t Endpoint::readv(fid_ep* ep, const iovec* pieces, void** descriptors, size_t count,
                        fi_addr_t, uint64_t address, uint64_t key, void* context) {
  return of(ep)->read_remote({pieces, count}, descriptors, {address, key}, context,
                             of(ep)->call_flags());
}

ssize_t Endpoint::readmsg(fid_ep* ep, const fi_msg_rma* message, uint64_t flags) {
  if (message->rma_iov_count != 1) return -FI_EINVAL;
  return of(ep)->read_remote({message->msg_iov, message->iov_count}, message->desc,
                             {message->rma_iov->addr, message->rma_iov->key}, message->context,
                             of(ep)->message_flags(flags));
}

ssize_t Endpoint::write(fid_ep* ep, const void* buffer, size_t size, void* descriptor, fi_addr_t,
                        uint64_t address, uint64_t key, void* context) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->write_remote({&piece, 1}, &descriptor, {address, key}, 0, context,
                              of(ep)->call_flags());
}

ssize_t Endpoint::writev(fid_ep* ep, const iovec* pieces, void** descriptors, size_t count,
                         fi_addr_t, uint64_t address, uint64_t key, void* context) {
  return of(ep)->write_remote({pieces, count}, descriptors, {address, key}, 0, context,
                              of(ep)->call_flags());
}

ssize_t Endpoint::writemsg(fid_ep* ep, const fi_msg_rma* message, uint64_t flags) {
  if (message->rma_iov_count != 1) return -FI_EINVAL;
  return of(ep)->write_remote({message->msg_iov, message->iov_count}, message->desc,
                              {message->rma_iov->addr, message->rma_iov->key}, message->data,
                              message->context, of(ep)->message_flags(flags));
}

ssize_t Endpoint::inject_write(fid_ep* ep, const void* buffer, size_t size, fi_addr_t,
                               uint64_t address, uint64_t key) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->write_remote({&piece, 1}, nullptr, {address, key}, 0, nullptr, FI_INJECT);
}

ssize_t Endpoint::writedata(fid_ep* ep, const void* buffer, size_t size, void* descriptor,
                            uint64_t data, fi_addr_t, uint64_t address, uint64_t key,
                            void* context) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->write_remote({&piece, 1}, &descriptor, {address, key}, data, context,
                              of(ep)->call_flags() | FI_REMOTE_CQ_DATA);
}

ssize_t Endpoint::inject_writedata(fid_ep* ep, const void* buffer, size_t size, uint64_t data,
                                   fi_addr_t, uint64_t address, uint64_t key) {
  const iovec piece = {const_cast<void*>(buffer), size};
  return of(ep)->write_remote({&piece, 1}, nullptr, {address, key}, data, nullptr,
                              FI_INJECT | FI_REMOTE_CQ_DATA);
}

}  // namespace urma_fi
