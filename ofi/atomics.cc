/* SPDX-License-Identifier: MIT */

#include "ofi/atomics.h"

#include <rdma/fi_errno.h>

#include "ofi/domain.h"

namespace urma_fi {
namespace {

struct Operation {
  fi_op op;
  uint8_t calls;  // that support it, of AtomicCall
  urma_opcode_t opcode;
  uint32_t urma_device_cap_t::*limit;  // of the operand, of a device
};

// To read is to add nothing, and to write is to swap.
constexpr Operation kOperations[] = {
    {FI_SUM, kChange | kFetch, URMA_OPC_FADD, &urma_device_cap_t::max_fetch_and_add_size},
    {FI_BOR, kChange | kFetch, URMA_OPC_FOR, &urma_device_cap_t::max_fetch_and_or_size},
    {FI_BAND, kChange | kFetch, URMA_OPC_FAND, &urma_device_cap_t::max_fetch_and_and_size},
    {FI_BXOR, kChange | kFetch, URMA_OPC_FXOR, &urma_device_cap_t::max_fetch_and_xor_size},
    {FI_ATOMIC_READ, kFetch, URMA_OPC_FADD, &urma_device_cap_t::max_fetch_and_add_size},
    {FI_ATOMIC_WRITE, kChange | kFetch, URMA_OPC_SWAP, &urma_device_cap_t::max_swap_size},
    {FI_CSWAP, kCompare, URMA_OPC_CAS, &urma_device_cap_t::max_cas_size}};

// 0: not supported.
uint32_t bytes_of(fi_datatype type) {
  switch (type) {
    case FI_INT32:
    case FI_UINT32:
      return 4;
    case FI_INT64:
    case FI_UINT64:
      return 8;
    default:
      return 0;
  }
}

AtomicCall call_of(uint64_t flags) {
  if ((flags & FI_COMPARE_ATOMIC) != 0) return kCompare;
  return (flags & FI_FETCH_ATOMIC) != 0 ? kFetch : kChange;
}

}  // namespace

bool find_atomic(const urma_device_cap_t& cap, AtomicCall call, fi_datatype type, fi_op op,
                 Atomic* atomic) {
  const uint32_t bytes = bytes_of(type);
  for (const Operation& operation : kOperations) {
    if (operation.op != op || (operation.calls & call) == 0) continue;
    *atomic = {operation.opcode, bytes};
    return bytes != 0 && bytes <= cap.*operation.limit;
  }
  return false;
}

bool has_atomics(const urma_device_cap_t& cap) {
  for (const Operation& operation : kOperations)
    if (cap.*operation.limit < sizeof(uint64_t)) return false;
  return true;
}

int query_atomic(fid_domain* domain, fi_datatype type, fi_op op, fi_atomic_attr* attr,
                 uint64_t flags) {
  // With FI_TAGGED it asks about messages.
  if ((flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) != 0) return -FI_EOPNOTSUPP;
  Atomic atomic;
  const urma_device_cap_t& cap = static_cast<Domain*>(domain)->device()->cap();
  if (!find_atomic(cap, call_of(flags), type, op, &atomic)) return -FI_EOPNOTSUPP;
  *attr = {1, atomic.bytes};
  return 0;
}

}  // namespace urma_fi
