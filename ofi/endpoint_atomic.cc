/* SPDX-License-Identifier: MIT */

// Endpoints: atomic operations on the memory of the peer.

#include <rdma/fi_atomic.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "ofi/atomics.h"
#include "ofi/cntr.h"
#include "ofi/endpoint.h"
#include "ofi/log.h"
#include "ofi/mr.h"

namespace urma_fi {
namespace {

uint64_t value_of(const void* buffer, uint32_t bytes) {
  static_assert(std::endian::native == std::endian::little, "4 bytes are the low half");
  uint64_t value = 0;
  std::memcpy(&value, buffer, bytes);
  return value;
}

// The address of a list's only element; NULL unless the list has exactly one.
void* only(const fi_ioc* pieces, size_t count) {
  return count == 1 && pieces->count == 1 ? pieces->addr : nullptr;
}

void* first(void** descriptors, size_t count) {
  return descriptors == nullptr || count == 0 ? nullptr : descriptors[0];
}

ssize_t count_error(const char* what) {
  URMA_FI_WARN(FI_LOG_EP_DATA, "an atomic request needs exactly one element as its %s\n", what);
  return -FI_EINVAL;
}

template <AtomicCall kCall>
int valid(fid_ep* ep, fi_datatype type, fi_op op, size_t* count) {
  Atomic atomic;
  const urma_device_cap_t& cap = static_cast<const Endpoint*>(ep)->device()->cap();
  if (!find_atomic(cap, kCall, type, op, &atomic)) return -FI_EOPNOTSUPP;
  *count = 1;
  return 0;
}

}  // namespace

fi_ops_atomic Endpoint::atomic_ops_ = {
    sizeof(fi_ops_atomic),   Endpoint::change,   Endpoint::changev,    Endpoint::changemsg,
    Endpoint::inject_change, Endpoint::fetch,    Endpoint::fetchv,     Endpoint::fetchmsg,
    Endpoint::compare,       Endpoint::comparev, Endpoint::comparemsg, valid<kChange>,
    valid<kFetch>,           valid<kCompare>};

// Atomic requests of URMA name an imported segment. One import for each key, until the endpoint
// ends.
urma_target_seg_t* Endpoint::import(uint64_t key) {
  // Pairs with the release of join.
  if (!bound_.load(std::memory_order_acquire)) return errno = ENOTCONN, nullptr;
  std::lock_guard lock(imports_mutex_);
  urma_target_seg_t*& import = imports_[key];
  if (import != nullptr) return import;
  const urma_user_tseg_t named = target_of_key(key);
  urma_seg_t segment{};
  segment.ubva.eid = peer.eid;
  segment.attr.bs.token_policy = named.attr.bs.token_policy;
  segment.attr.bs.access = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;
  segment.token_id = named.token_id;
  urma_token_t token = named.token_value;
  return import = urma_import_seg(device_->context(), &segment, &token, 0, {});
}

void Endpoint::drop_imports() {
  for (const auto& [key, import] : imports_)
    if (import != nullptr) urma_unimport_seg(import);
  imports_.clear();
}

ssize_t Endpoint::atomic_remote(AtomicCall call, const AtomicData& data, Remote at,
                                fi_datatype type, fi_op op, void* context, uint64_t flags) {
  Atomic atomic;
  if (results_ == nullptr || !find_atomic(device_->cap(), call, type, op, &atomic))
    return -FI_EOPNOTSUPP;
  if ((flags & FI_REMOTE_CQ_DATA) != 0) return -FI_EINVAL;
  const bool changes = call == kChange;
  if (data.operand == nullptr && op != FI_ATOMIC_READ) return count_error("operand");
  if (data.compare == nullptr && call == kCompare) return count_error("compared value");
  if (data.result == nullptr && !changes) return count_error("result");
  urma_sge_t local{};
  if (!changes) {
    const iovec piece = {data.result, atomic.bytes};
    void* descriptor = data.descriptor;
    const ssize_t bytes = gather({&piece, 1}, &descriptor, false, &local);
    if (bytes < 0) return bytes;
  }
  local.len = atomic.bytes;
  urma_sge_t remote{};
  remote.addr = at.address;
  remote.len = atomic.bytes;
  remote.tseg = import(at.key);
  if (remote.tseg == nullptr) return error_of_errno();
  const uint64_t operand = op == FI_ATOMIC_READ ? 0 : value_of(data.operand, atomic.bytes);
  urma_jfs_wr_t request{};
  request.opcode = atomic.opcode;
  if (atomic.opcode == URMA_OPC_CAS || atomic.opcode == URMA_OPC_SWAP) {
    request.cas.dst = &remote;
    request.cas.src = &local;
    request.cas.cmp_data = data.compare == nullptr ? 0 : value_of(data.compare, atomic.bytes);
    request.cas.swap_data = operand;
  } else {
    request.faa.dst = &remote;
    request.faa.src = &local;
    request.faa.operand = operand;
  }
  return post(&request, context, FI_ATOMIC | (changes ? FI_WRITE : FI_READ), flags,
              changes ? counters_.write : counters_.read, changes ? &local : nullptr);
}

ssize_t Endpoint::change(fid_ep* ep, const void* buffer, size_t count, void*, fi_addr_t,
                         uint64_t address, uint64_t key, fi_datatype type, fi_op op,
                         void* context) {
  return of(ep)->atomic_remote(kChange, {count == 1 ? buffer : nullptr}, {address, key}, type, op,
                               context, of(ep)->call_flags());
}

ssize_t Endpoint::changev(fid_ep* ep, const fi_ioc* pieces, void**, size_t count, fi_addr_t,
                          uint64_t address, uint64_t key, fi_datatype type, fi_op op,
                          void* context) {
  return of(ep)->atomic_remote(kChange, {only(pieces, count)}, {address, key}, type, op, context,
                               of(ep)->call_flags());
}

ssize_t Endpoint::changemsg(fid_ep* ep, const fi_msg_atomic* message, uint64_t flags) {
  return of(ep)->atomicmsg(kChange, message, {}, flags);
}

ssize_t Endpoint::inject_change(fid_ep* ep, const void* buffer, size_t count, fi_addr_t,
                                uint64_t address, uint64_t key, fi_datatype type, fi_op op) {
  return of(ep)->atomic_remote(kChange, {count == 1 ? buffer : nullptr}, {address, key}, type, op,
                               nullptr, FI_INJECT);
}

ssize_t Endpoint::fetch(fid_ep* ep, const void* buffer, size_t count, void*, void* result,
                        void* result_descriptor, fi_addr_t, uint64_t address, uint64_t key,
                        fi_datatype type, fi_op op, void* context) {
  return of(ep)->atomic_remote(kFetch,
                               {buffer, nullptr, count == 1 ? result : nullptr, result_descriptor},
                               {address, key}, type, op, context, of(ep)->call_flags());
}

ssize_t Endpoint::fetchv(fid_ep* ep, const fi_ioc* pieces, void**, size_t count, fi_ioc* results,
                         void** result_descriptors, size_t result_count, fi_addr_t,
                         uint64_t address, uint64_t key, fi_datatype type, fi_op op,
                         void* context) {
  return of(ep)->atomic_remote(kFetch,
                               {only(pieces, count), nullptr, only(results, result_count),
                                first(result_descriptors, result_count)},
                               {address, key}, type, op, context, of(ep)->call_flags());
}

ssize_t Endpoint::fetchmsg(fid_ep* ep, const fi_msg_atomic* message, fi_ioc* results,
                           void** result_descriptors, size_t result_count, uint64_t flags) {
  return of(ep)->atomicmsg(
      kFetch, message,
      {nullptr, nullptr, only(results, result_count), first(result_descriptors, result_count)},
      flags);
}

ssize_t Endpoint::compare(fid_ep* ep, const void* buffer, size_t count, void*, const void* compared,
                          void*, void* result, void* result_descriptor, fi_addr_t, uint64_t address,
                          uint64_t key, fi_datatype type, fi_op op, void* context) {
  return of(ep)->atomic_remote(kCompare,
                               {buffer, compared, count == 1 ? result : nullptr, result_descriptor},
                               {address, key}, type, op, context, of(ep)->call_flags());
}

ssize_t Endpoint::comparev(fid_ep* ep, const fi_ioc* pieces, void**, size_t count,
                           const fi_ioc* compared, void**, size_t compared_count, fi_ioc* results,
                           void** result_descriptors, size_t result_count, fi_addr_t,
                           uint64_t address, uint64_t key, fi_datatype type, fi_op op,
                           void* context) {
  return of(ep)->atomic_remote(
      kCompare,
      {only(pieces, count), only(compared, compared_count), only(results, result_count),
       first(result_descriptors, result_count)},
      {address, key}, type, op, context, of(ep)->call_flags());
}

ssize_t Endpoint::comparemsg(fid_ep* ep, const fi_msg_atomic* message, const fi_ioc* compared,
                             void**, size_t compared_count, fi_ioc* results,
                             void** result_descriptors, size_t result_count, uint64_t flags) {
  return of(ep)->atomicmsg(kCompare, message,
                           {nullptr, only(compared, compared_count), only(results, result_count),
                            first(result_descriptors, result_count)},
                           flags);
}

// The operand comes from the message.
ssize_t Endpoint::atomicmsg(AtomicCall call, const fi_msg_atomic* message, AtomicData data,
                            uint64_t flags) {
  if (message->rma_iov_count != 1 || message->rma_iov->count != 1) return count_error("target");
  data.operand = only(message->msg_iov, message->iov_count);
  return atomic_remote(call, data, {message->rma_iov->addr, message->rma_iov->key},
                       message->datatype, message->op, message->context, message_flags(flags));
}

}  // namespace urma_fi
