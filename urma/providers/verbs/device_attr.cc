// SPDX-License-Identifier: MIT
//
// How a device is described.
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "jetty/device_limits.h"
#include "urma/providers/verbs/atomics.h"
#include "urma/providers/verbs/device.h"

namespace urma::verbs {
namespace {

constexpr uint32_t kMaxSge = 16;
constexpr uint32_t kMaxTransfer = 1U << 31;
// The pieces of a datagram's own: one in front of the program's buffers, and at the receiver one
// behind them too.
constexpr uint32_t kSentDatagramSge = 1;
constexpr uint32_t kReceivedDatagramSge = 2;

uint32_t limited(int64_t limit, uint32_t ours) {
  return static_cast<uint32_t>(std::clamp<int64_t>(limit, 0, ours));
}

// Megabits a second of one lane, and the number of lanes, by the bit that ibv_port_attr sets.
constexpr uint64_t kLaneSpeeds[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000};
constexpr uint64_t kLanes[] = {1, 4, 8, 12, 2};

template <size_t kCount>
uint64_t by_bit(const uint64_t (&values)[kCount], uint8_t bits, uint64_t otherwise) {
  const auto bit = static_cast<size_t>(std::countr_zero(bits));
  return std::has_single_bit(bits) && bit < kCount ? values[bit] : otherwise;
}

urma_mtu_t mtu_of(ibv_mtu mtu) {
  return std::clamp(static_cast<urma_mtu_t>(mtu), URMA_MTU_256, URMA_MTU_4096);
}

urma_port_attr_t describe_port(const ibv_port_attr& port) {
  urma_port_attr_t attr = {};
  attr.active_mtu = mtu_of(port.active_mtu);
  // Soft-iWARP reports a largest unit smaller than the one in use.
  attr.max_mtu = std::max(mtu_of(port.max_mtu), attr.active_mtu);
  attr.state = state_of(port.state);
  const uint64_t lanes = by_bit(kLanes, port.active_width, 1);
  // There is no width of twelve lanes.
  attr.active_width = static_cast<urma_link_width_t>(std::bit_floor(std::min<uint64_t>(lanes, 8)));
  attr.active_speed = speed_of(by_bit(kLaneSpeeds, port.active_speed, 0) * lanes);
  return attr;
}

void limit_objects(const ibv_device_attr& limits, urma_device_cap_t* cap) {
  fill_object_limits(cap);
  // Each JFS and JFR has its own completion queue, and a JFC has none. A JFS needs at least a queue
  // pair to send.
  cap->max_jfs = limited(std::min(limits.max_cq, limits.max_qp), kMaxObjects);
  cap->max_jfr = limited(std::min(limits.max_cq, limits.max_srq), kMaxObjects);
  cap->max_jetty = std::min(cap->max_jfs, cap->max_jfr);
  cap->max_jfc_depth = limited(limits.max_cqe, kMaxQueueDepth);
  cap->max_jfs_depth = limited(limits.max_qp_wr, kMaxQueueDepth);
  // All posted receives have room in one completion queue.
  cap->max_jfr_depth = limited(std::min(limits.max_srq_wr, limits.max_cqe), kMaxQueueDepth);
}

void limit_requests(const DeviceInfo& info, urma_device_cap_t* cap) {
  const auto& limits = info.limits.orig_attr;
  const uint32_t sent = info.has_datagrams() ? kSentDatagramSge : 0;
  const uint32_t received = info.has_datagrams() ? kReceivedDatagramSge : 0;
  cap->max_jfs_inline_len = info.max_inline;
  cap->max_jfs_sge = limited(int64_t{limits.max_sge} - sent, kMaxSge);
  // Requests have one remote piece, WRITE_NOTIFY a second one; programs may list more than they
  // use.
  cap->max_jfs_rsge = kMaxSge;
  cap->max_jfr_sge =
      limited(std::min<int64_t>(limits.max_srq_sge, int64_t{limits.max_sge} - received), kMaxSge);
  cap->max_msg_size = std::min(info.port_attr.max_msg_sz, kMaxTransfer);
  cap->max_read_size = static_cast<uint32_t>(cap->max_msg_size);
  cap->max_write_size = static_cast<uint32_t>(cap->max_msg_size);
}

// The kinds of request that must work on memory that is not pinned.
bool has_on_demand(const ibv_odp_caps& odp) {
  constexpr uint32_t kRequests =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  return (odp.general_caps & IBV_ODP_SUPPORT) != 0 &&
         (odp.per_transport_caps.rc_odp_caps & kRequests) == kRequests;
}

}  // namespace

urma_port_state_t state_of(ibv_port_state state) {
  static_assert(int{URMA_PORT_DOWN} == IBV_PORT_DOWN && int{URMA_PORT_ACTIVE} == IBV_PORT_ACTIVE);
  return state <= IBV_PORT_ACTIVE_DEFER ? static_cast<urma_port_state_t>(state) : URMA_PORT_NOP;
}

urma_device_attr_t describe_device(const DeviceInfo& info) {
  const auto& limits = info.limits.orig_attr;
  urma_device_attr_t attr = {};
  // The GUID of the card, and the port: ports are devices of their own here.
  std::memcpy(attr.guid.raw, &limits.node_guid, sizeof(limits.node_guid));
  attr.guid.raw[URMA_GUID_SIZE - 1] = info.port;
  auto& cap = attr.dev_cap;
  limit_objects(limits, &cap);
  limit_requests(info, &cap);
  fill_transport(&cap, info.has_datagrams());
  fill_priorities(&cap);
  if (limits.atomic_cap != IBV_ATOMIC_NONE) fill_atomics(&cap, 8);
  cap.ceq_cnt = 1;
  cap.max_eid_cnt = static_cast<uint32_t>(info.eids.size());
  cap.max_netaddr_cnt = cap.max_eid_cnt;
  cap.feature.bs.non_pin = has_on_demand(info.limits.odp_caps);
  cap.feature.bs.muti_seg_per_token_id = 1;
  cap.feature.bs.jetty_grp = 1;
  cap.page_size_cap = limits.page_size_cap;
  attr.port_cnt = 1;
  attr.port_attr[0] = describe_port(info.port_attr);
  attr.reserved_jetty_id_min = 1;
  attr.reserved_jetty_id_max = kMaxObjects;
  return attr;
}

urma_ext_device_t describe_further(const DeviceInfo& info) {
  // In the order of the bits.
  constexpr urma_opcode_t kAtomics[] = {URMA_OPC_CAS,  URMA_OPC_SWAP, URMA_OPC_FADD, URMA_OPC_FSUB,
                                        URMA_OPC_FAND, URMA_OPC_FOR,  URMA_OPC_FXOR};
  urma_ext_device_t further = {};
  further.dmabuf = info.has_dmabuf ? 1 : 0;
  further.immediate = info.has_immediates() ? 1 : 0;
  if (!info.has_atomics()) return further;
  for (uint32_t bit = 0; bit < std::size(kAtomics); ++bit) {
    const uint32_t mask = 1U << bit;
    if (!native_atomic(kAtomics[bit], 8)) further.emulated_atomics.value |= mask;
    if (!native_atomic(kAtomics[bit], 4)) further.emulated_atomics_4.value |= mask;
  }
  return further;
}

}  // namespace urma::verbs
