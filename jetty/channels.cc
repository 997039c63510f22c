// SPDX-License-Identifier: MIT
#include "jetty/channels.h"

#include <algorithm>
#include <cstring>

#include "jetty/network.h"
#include "urma/base/error.h"

namespace urma {
namespace {

constexpr uint32_t kNumberBits = 32;
constexpr uint8_t kHops = 64;

// The members of urma_tp_attr_value_t, in its order; the reserved ones have no bit.
enum Member : uint32_t {
  kRetryTimes,
  kAckTime,
  kSourceIp,
  kTargetIp,
  kSourceMac,
  kTargetMac,
  kVlanId,
  kVlan,
  kDscp,
  kAckTimes,
  kServiceLevel,
  kTtl,
  kAckPort,
  kDataPort,
  kPortRange,
  kSpray,
  kGlobalPort,
  kServiceLevels,
  kDscpMode,
  kMembers,
};

// The addresses are those of the two ends; the rest are the typical values of urma_opcode.h.
urma_tp_attr_value_t first_attr(const ChannelKey& key) {
  urma_tp_attr_value_t attr = {};
  attr.retry_times_init = URMA_TYPICAL_RNR_RETRY;
  attr.at = URMA_TYPICAL_ERR_TIMEOUT;
  std::memcpy(attr.sip, key.local.raw, sizeof(attr.sip));
  std::memcpy(attr.dip, key.peer.raw, sizeof(attr.dip));
  std::ranges::copy(mac_of(key.local), attr.sma);
  std::ranges::copy(mac_of(key.peer), attr.dma);
  attr.ttl = kHops;
  return attr;
}

void merge(uint32_t bitmap, const urma_tp_attr_value_t& from, urma_tp_attr_value_t* to) {
  const auto has = [bitmap](Member member) { return (bitmap >> member & 1) != 0; };
  if (has(kRetryTimes)) to->retry_times_init = from.retry_times_init;
  if (has(kAckTime)) to->at = from.at;
  if (has(kSourceIp)) std::memcpy(to->sip, from.sip, sizeof(to->sip));
  if (has(kTargetIp)) std::memcpy(to->dip, from.dip, sizeof(to->dip));
  if (has(kSourceMac)) std::memcpy(to->sma, from.sma, sizeof(to->sma));
  if (has(kTargetMac)) std::memcpy(to->dma, from.dma, sizeof(to->dma));
  if (has(kVlanId)) to->vlan_id = from.vlan_id;
  if (has(kVlan)) to->vlan_en = from.vlan_en;
  if (has(kDscp)) to->dscp = from.dscp;
  if (has(kAckTimes)) to->at_times = from.at_times;
  if (has(kServiceLevel)) to->sl = from.sl;
  if (has(kTtl)) to->ttl = from.ttl;
  if (has(kAckPort)) to->ack_udp_srcport = from.ack_udp_srcport;
  if (has(kDataPort)) to->data_udp_srcport = from.data_udp_srcport;
  if (has(kPortRange)) to->udp_srcport_range = from.udp_srcport_range;
  if (has(kSpray)) to->spray_en = from.spray_en;
  if (has(kGlobalPort)) to->udp_global_en = from.udp_global_en;
  if (has(kServiceLevels)) to->sl_bitmap = from.sl_bitmap;
  if (has(kDscpMode)) to->dscp_config_mode = from.dscp_config_mode;
}

bool same(const ChannelKey& a, const ChannelKey& b) {
  return same_eid(a.local, b.local) && same_eid(a.peer, b.peer) && a.mode == b.mode &&
         a.type == b.type;
}

}  // namespace

bool type_allowed(urma_transport_mode_t mode, urma_tp_type_t type) {
  return type == URMA_CTP || type == (mode == URMA_TM_UM ? URMA_UTP : URMA_RTP);
}

ChannelTable::Channel ChannelTable::at(const ChannelKey& key) {
  const MutexLock lock(mutex_);
  const auto known = std::find_if(channels_.begin(), channels_.end(),
                                  [&](const Channel& channel) { return same(channel.key, key); });
  if (known != channels_.end()) return *known;
  const auto number = static_cast<uint32_t>(channels_.size() + 1);
  channels_.push_back({key, serial_ << kNumberBits | number, number, first_attr(key)});
  return channels_.back();
}

ChannelTable::Channel* ChannelTable::find(uint64_t handle) {
  const uint64_t index = (handle & UINT32_MAX) - 1;
  if (index >= channels_.size() || channels_[index].handle != handle) {
    fail(URMA_EINVAL, "tp_handle {:#x} is not a channel of this context; see urma_get_tp_list",
         handle);
  }
  return &channels_[index];
}

ChannelTable::Channel ChannelTable::at(uint64_t handle) {
  const MutexLock lock(mutex_);
  return *find(handle);
}

void ChannelTable::set(uint64_t handle, uint32_t bitmap, const urma_tp_attr_value_t& attr) {
  if ((bitmap & ~members()) != 0) {
    fail(URMA_EINVAL, "tp_attr_bitmap {:#x} has undefined bits; the highest bit is {}", bitmap,
         kMembers - 1);
  }
  const MutexLock lock(mutex_);
  merge(bitmap, attr, &find(handle)->attr);
}

uint32_t ChannelTable::members() { return (uint32_t{1} << kMembers) - 1; }

bool ChannelTable::in_use(uint32_t number) const {
  const MutexLock lock(mutex_);
  return uses_.contains(number) || (number != 0 && number <= channels_.size());
}

ChannelUse::ChannelUse(std::shared_ptr<ChannelTable> table, uint32_t number)
    : table_(std::move(table)), number_(number) {
  const MutexLock lock(table_->mutex_);
  ++table_->uses_[number_];
}

ChannelUse::~ChannelUse() {
  if (table_ == nullptr) return;
  const MutexLock lock(table_->mutex_);
  const auto entry = table_->uses_.find(number_);
  if (--entry->second == 0) table_->uses_.erase(entry);
}

}  // namespace urma
