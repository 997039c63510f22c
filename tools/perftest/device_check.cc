// SPDX-License-Identifier: MIT
//
// Options that only the device can judge.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/perftest/config.h"
#include "tools/perftest/options.h"
#include "tools/perftest/values.h"
#include "urma_api.h"

namespace perftest {
namespace {

void at_most(const Config& config, const std::string& option, uint64_t given, uint64_t limit,
             const std::string& what) {
  if (given <= limit) return;
  throw refusal(option + " " + std::to_string(given),
                "at most " + std::to_string(limit) + " (" + what + " of " + config.device + ")",
                option + " " + std::to_string(limit));
}

void needs(const Config& config, bool wanted, bool offered, const std::string& option,
           const std::string& what) {
  if (!wanted || offered) return;
  throw refusal(option, "it on a device that has " + what + ", which " + config.device + " lacks",
                config.test + " -d " + config.device);
}

uint64_t largest_message(const Config& config, const urma_device_cap_t& cap) {
  switch (config.api) {
    case Api::kRead:
      return cap.max_read_size;
    case Api::kWrite:
      return cap.max_write_size;
    case Api::kSend:
      return cap.max_msg_size;
    case Api::kAtomic:
      break;
  }
  return config.atomic_type == AtomicType::kCas ? cap.max_cas_size : cap.max_fetch_and_add_size;
}

void check_queues(const Config& config, const urma_device_cap_t& cap) {
  at_most(config, "-T", config.jfs_depth, cap.max_jfs_depth, "max_jfs_depth");
  at_most(config, "-R", config.jfr_depth, cap.max_jfr_depth, "max_jfr_depth");
  at_most(config, "-C", config.jfc_depth, cap.max_jfc_depth, "max_jfc_depth");
  at_most(config, "--sge_num", config.sge_num, cap.max_jfs_sge, "max_jfs_sge");
  if (config.api == Api::kSend) {
    at_most(config, "--sge_num", config.sge_num, cap.max_jfr_sge, "max_jfr_sge");
  }
  if (config.duplex()) {
    at_most(config, "-J", config.jettys, cap.max_jetty, "max_jetty");
  } else {
    at_most(config, "-J", config.jettys, std::min(cap.max_jfs, cap.max_jfr), "max_jfs, max_jfr");
  }
  if (config.notify && config.sge_num + 1 > cap.max_jfs_rsge) {
    throw refusal("--enable_notify with --sge_num " + std::to_string(config.sge_num),
                  "max_jfs_rsge of " + config.device + ", " + std::to_string(cap.max_jfs_rsge) +
                      ", above --sge_num",
                  config.test + " -d " + config.device + " --enable_notify");
  }
}

void check_messages(const Config& config, const urma_device_cap_t& cap) {
  const uint32_t largest = config.sizes().back();
  at_most(config, config.all_sizes ? "-a, up to" : "-s", largest, largest_message(config, cap),
          "the largest message of this kind");
  at_most(config, config.layout == Layout::kShort ? "--layout short with -s" : "-I",
          config.inline_size, cap.max_jfs_inline_len, "max_jfs_inline_len");
}

// The bit of an order type in urma_order_type_cap_t; the default order has none and is everywhere.
bool has_order(const Config& config, const urma_device_cap_t& cap) {
  if (config.order_type == URMA_DEF_ORDER) return true;
  if (config.mode == URMA_TM_UM) return config.order_type == URMA_NO;
  const urma_order_type_cap_t& orders =
      config.mode == URMA_TM_RM ? cap.rm_order_cap : cap.rc_order_cap;
  return (orders.value >> (config.order_type - 1) & 1) != 0;
}

bool has_ctp(const Config& config, const urma_device_cap_t& cap) {
  switch (config.mode) {
    case URMA_TM_RM:
      return cap.rm_tp_cap.bs.ctp != 0;
    case URMA_TM_RC:
      return cap.rc_tp_cap.bs.ctp != 0;
    case URMA_TM_UM:
      return cap.um_tp_cap.bs.ctp != 0;
  }
  return false;
}

// UMDK's tool requires a priority with exactly the channel type of the run.
bool has_priority(const Config& config, const urma_device_cap_t& cap) {
  if (config.priority == kAutoPriority) return true;
  const auto& types = cap.priority_info[config.priority].tp_type.bs;
  if (config.ctp) return types.ctp != 0;
  return config.mode == URMA_TM_UM ? types.utp != 0 : types.rtp != 0;
}

void check_features(const Config& config, const urma_device_cap_t& cap) {
  needs(config, config.api == Api::kAtomic && config.atomic_type == AtomicType::kCas,
        cap.atomic_feat.bs.cas != 0, config.test + " -A cas", "compare and swap");
  needs(config, config.api == Api::kAtomic && config.atomic_type == AtomicType::kFetchAdd,
        cap.atomic_feat.bs.fetch_and_add != 0, config.test + " -A faa", "fetch and add");
  needs(config, true, (cap.trans_mode & config.mode) != 0,
        "-p " + std::string(config.mode == URMA_TM_RM   ? "0"
                            : config.mode == URMA_TM_RC ? "1"
                                                        : "2"),
        "that transport mode");
  needs(config, config.oor, cap.feature.bs.oor != 0, "--oor_en", "out-of-order receive");
  needs(config, config.spray, cap.feature.bs.spray_en != 0, "--spray_en", "spraying");
  needs(config, config.uboe, cap.feature.bs.uboe != 0, "-u", "UB over Ethernet");
  needs(config, config.ctp, has_ctp(config, cap), "--ctp", "compact channels in this mode");
  needs(config, true, has_order(config, cap), "--order_type " + std::to_string(config.order_type),
        "that order in this mode");
  needs(config, true, has_priority(config, cap), "-O " + std::to_string(config.priority),
        "that priority for the channels of this run");
  needs(config, config.user_tp, false, "--enable_user_tp", "channels of the user");
}

std::vector<std::string> device_names() {
  int count = 0;
  urma_device_t** devices = urma_get_device_list(&count);
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; i++) names.emplace_back(devices[i]->name);
  if (devices != nullptr) urma_free_device_list(devices);
  return names;
}

}  // namespace

void default_device(Config& config) {
  if (!config.device.empty()) return;
  std::vector<std::string> names = device_names();
  // Excludes aliases of devices, and a network, which is measured only by name.
  std::erase_if(names, [](const std::string& name) {
    return name.starts_with("bonding") || name.starts_with("urma_net");
  });
  if (names.size() == 1) {
    config.device = names.front();
    return;
  }
  throw refusal("no device", "-d with one of: " + list_devices(),
                config.test + " -d " + (names.empty() ? "urma_shm0" : names.front()));
}

void check_device(const Config& config) {
  std::string name = config.device;  // the library takes no const char*
  urma_device_t* device = urma_get_device_by_name(name.data());
  if (device == nullptr) throw unknown_device(config);
  urma_device_attr_t attributes = {};
  if (urma_query_device(device, &attributes) != URMA_SUCCESS) {
    throw RunError("cannot query the device " + config.device);
  }
  check_against_device(config, attributes);
  if (config.jfc_inline && attributes.dev_cap.feature.bs.jfc_inline == 0) {
    std::fprintf(stderr, "warning: -c is ignored: %s delivers no messages in completion records\n",
                 config.device.c_str());
  }
}

void check_against_device(const Config& config, const urma_device_attr_t& attributes) {
  check_queues(config, attributes.dev_cap);
  check_messages(config, attributes.dev_cap);
  check_features(config, attributes.dev_cap);
}

std::string list_devices() {
  std::string text;
  for (const std::string& name : device_names()) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

UsageError unknown_device(const Config& config) {
  const std::string devices = list_devices();
  return refusal("-d " + config.device, "one of: " + devices,
                 config.test + " -d " + devices.substr(0, devices.find(',')));
}

}  // namespace perftest
