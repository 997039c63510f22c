// SPDX-License-Identifier: MIT
//
// Further names of devices, for programs that look for names which the device does not have.
#ifndef URMA_CORE_PROCESS_ALIASES_H_
#define URMA_CORE_PROCESS_ALIASES_H_

#include <string>
#include <string_view>
#include <vector>

namespace urma::core {

struct Alias {
  std::string name;
  std::string device;
  bool asked_for = true;  // else it is there by itself, and nothing is said where it cannot be
};

// bonding_dev_0 over urma_shm0, and behind it the entries of URMA_DEVICE_ALIAS,
// "name=device,name2=device2". An entry "-", or one of its name, takes the first away. One line
// goes to the log for each that is none; the others count.
std::vector<Alias> parse_aliases(std::string_view text);

// The name of the provider of aggregated devices.
inline constexpr char kAggregatingProvider[] = "ub_agg";

// Whether programs take a device of this name for an aggregated one.
bool is_aggregated_name(std::string_view name);

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_ALIASES_H_
