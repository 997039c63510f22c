// SPDX-License-Identifier: MIT
#include "tools/perftest/device.h"

#include "urma_provider.h"
#include "urma_types_str.h"
#include "urma_ubagg.h"

namespace perftest {
namespace {

urma_device_t* find_device(const Config& config) {
  std::string name = config.device;
  urma_device_t* const device = urma_get_device_by_name(name.data());
  if (device == nullptr) throw unknown_device(config);
  return device;
}

urma_tp_type_t wanted_channel(const Config& config) {
  if (config.ctp) return URMA_CTP;
  return config.mode == URMA_TM_UM ? URMA_UTP : URMA_RTP;
}

const char* channel_name(urma_tp_type_t type) {
  switch (type) {
    case URMA_RTP:
      return "RTP";
    case URMA_CTP:
      return "CTP";
    case URMA_UTP:
      return "UTP";
  }
  return "?";
}

// Whether a priority carries only this type of channel.
bool carries(const urma_sl_info& priority, urma_tp_type_t type) {
  return priority.tp_type.value == 1U << type;
}

}  // namespace

Device::Device(const Config& config) : device_(find_device(config)) {
  ok(urma_query_device(device_, &attributes_), "urma_query_device");
  check_against_device(config, attributes_);
  context_.reset(urma_create_context(device_, config.eid_index));
  if (!context_)
    fail_errno("opening " + config.device + " with --eid_idx " + std::to_string(config.eid_index));
  if (config.user_tp) throw RunError("UB device does not support user_tp");
  if (config.uboe && limits().feature.bs.uboe == 0) {
    throw RunError(config.device + " does not support UBoE (-u)");
  }
  aggregate(config);
  choose_channel(config);
}

std::string Device::transport() const {
  switch (device_->type) {
    case URMA_TRANSPORT_UB:
      return "UB";
    case URMA_TRANSPORT_IB:
      return "IB";
    case URMA_TRANSPORT_IP:
      return "IP";
    case URMA_TRANSPORT_SOFTUB:
      return "SOFTUB";
    case URMA_TRANSPORT_HNS_UB:
      return "HNS_UB";
    default:
      return "INVALID";
  }
}

void Device::choose_channel(const Config& config) {
  channel_type_ = wanted_channel(config);
  const bool asked = config.priority != kAutoPriority;
  // A provider without this call has no channel types.
  if (context_->ops->import_jetty_ex == nullptr) {
    priority_ = asked ? config.priority : 0;
    return;
  }
  const auto& priorities = limits().priority_info;
  for (uint8_t i = 0; i < URMA_MAX_PRIORITY_CNT; i++) {
    if (!carries(priorities[i], channel_type_) || (asked && i != config.priority)) continue;
    priority_ = i;
    return;
  }
  const std::string which =
      asked ? "priority " + std::to_string(config.priority) + " (-O)" : "no priority";
  throw RunError(which + " of " + config.device + (asked ? " does not carry " : " carries ") +
                 channel_name(channel_type_) + " channels" +
                 (asked ? ": leave -O out to have one chosen" : ""));
}

void Device::aggregate(const Config& config) const {
  if (!config.device.starts_with("bonding_dev")) return;
  bondp_set_bonding_mode_in_t mode = {};
  mode.bonding_mode =
      static_cast<bondp_bonding_mode_t>(config.aggr_mode.value_or(URMA_AGGR_MODE_STANDALONE));
  const bool port = config.single_path || config.bond_level == "port";
  mode.bonding_level = port ? BONDP_BONDING_LEVEL_PORT : BONDP_BONDING_LEVEL_IODIE;
  urma_user_ctl_in_t in = {reinterpret_cast<uintptr_t>(&mode), sizeof(mode),
                           BONDP_USER_CTL_SET_BONDING_MODE};
  urma_user_ctl_out_t out = {};
  ok(urma_user_ctl(context_.get(), &in, &out), "setting --aggr_mode and --bond_level");
}

}  // namespace perftest
