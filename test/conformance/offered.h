// SPDX-License-Identifier: MIT
//
// What a device supports of the products of operations and sizes: devices between machines have
// less than shared memory.
#ifndef TEST_CONFORMANCE_OFFERED_H_
#define TEST_CONFORMANCE_OFFERED_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "test/process/endpoint.h"
#include "urma_api.h"

namespace urma_test {

// A UM message is one packet. The packets of all networks have room for this many bytes.
inline constexpr size_t kAnyPacket = 128;

// Devices whose peers are processes on one machine.
inline bool is_shared_memory(const urma_context_t* ctx) {
  // Peers of the bonded device in another directory are reached by the network.
  const char* const bond =
      std::getenv("URMA_PEER_DIRECTORY") == nullptr ? "bonding_dev" : "urma_shm";
  for (const char* prefix : {"urma_shm", "urma_rocm", "urma_hsa", bond}) {
    if (std::strncmp(ctx->dev->name, prefix, std::strlen(prefix)) == 0) return true;
  }
  return false;
}

inline urma_device_cap_t cap_of(const urma_context_t* ctx) {
  urma_device_attr_t attr = {};
  EXPECT_EQ(urma_query_device(ctx->dev, &attr), URMA_SUCCESS);
  return attr.dev_cap;
}

// The largest operand of an atomic; other requests have no limit that a test reaches.
inline size_t largest_operand(const urma_device_cap_t& cap, urma_opcode_t opcode) {
  switch (opcode) {
    case URMA_OPC_WRITE_ATOMIC:
    case URMA_OPC_CAS:
      return cap.max_cas_size;
    case URMA_OPC_SWAP:
      return cap.max_swap_size;
    case URMA_OPC_FADD:
      return cap.max_fetch_and_add_size;
    case URMA_OPC_FSUB:
      return cap.max_fetch_and_sub_size;
    case URMA_OPC_FAND:
      return cap.max_fetch_and_and_size;
    case URMA_OPC_FOR:
      return cap.max_fetch_and_or_size;
    case URMA_OPC_FXOR:
      return cap.max_fetch_and_xor_size;
    default:
      return SIZE_MAX;
  }
}

inline bool needs_immediates(urma_opcode_t opcode) {
  return opcode == URMA_OPC_WRITE_IMM || opcode == URMA_OPC_SEND_IMM ||
         opcode == URMA_OPC_SEND_INVALIDATE;
}

inline bool is_offered(const urma_context_t* ctx, urma_opcode_t opcode, urma_transport_mode_t mode,
                       size_t size) {
  if (mode == URMA_TM_UM && size > kAnyPacket && !is_shared_memory(ctx)) return false;
  if (needs_immediates(opcode) && !traits_of(ctx).immediates) return false;
  return size <= largest_operand(cap_of(ctx), opcode);
}

}  // namespace urma_test

#endif  // TEST_CONFORMANCE_OFFERED_H_
