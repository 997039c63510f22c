// SPDX-License-Identifier: MIT
//
// Further names of devices, for programs that look for a device by another name.
#ifndef URMA_CORE_PROCESS_ALIASES_H_
#define URMA_CORE_PROCESS_ALIASES_H_

#include <string>
#include <string_view>
#include <vector>

namespace urma::core {

struct Alias {
  std::string name;
  std::string device;
  // That asks for it, for log lines. NULL: it exists by default, and no line says that it cannot.
  const char* setting = "URMA_DEVICE_ALIAS";
};

// bonding_dev_0 over urma_shm0, or over urma_bond0 if `bond` (URMA_BOND) names a network; then the
// entries of URMA_DEVICE_ALIAS, "name=device,name2=device2". An entry "-", or one with its name,
// removes the first. Logs one line for each invalid entry; the others count.
std::vector<Alias> parse_aliases(std::string_view text, std::string_view bond = "none");

// The name of the provider of aggregated devices.
inline constexpr char kAggregatingProvider[] = "ub_agg";

// Whether programs treat a device of this name as aggregated.
bool is_aggregated_name(std::string_view name);

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_ALIASES_H_
