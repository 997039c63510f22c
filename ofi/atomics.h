/* SPDX-License-Identifier: MIT */

// What libfabric's atomic operations are in URMA.

#ifndef OFI_ATOMICS_H
#define OFI_ATOMICS_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>

#include <cstdint>

#include "urma_types.h"

namespace urma_fi {

// fi_atomic, fi_fetch_atomic and fi_compare_atomic; a bit each.
enum AtomicCall : uint8_t { kChange = 1, kFetch = 2, kCompare = 4 };

struct Atomic {
  urma_opcode_t opcode;
  uint32_t bytes;
};

// Returns whether the device supports the operation on this type, and then fills *atomic.
bool find_atomic(const urma_device_cap_t& cap, AtomicCall call, fi_datatype type, fi_op op,
                 Atomic* atomic);

// Whether the device supports every operation of fi_urma(7).
bool has_atomics(const urma_device_cap_t& cap);

// fi_ops_domain.query_atomic.
int query_atomic(fid_domain* domain, fi_datatype type, fi_op op, fi_atomic_attr* attr,
                 uint64_t flags);

}  // namespace urma_fi

#endif  // OFI_ATOMICS_H
