// SPDX-License-Identifier: MIT
#include "urma/core/process/aliases.h"

#include <algorithm>
#include <utility>

#include "urma/base/log.h"
#include "urma_types.h"

namespace urma::core {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

bool is_name(std::string_view text) { return !text.empty() && text.size() < URMA_MAX_DEV_NAME; }

constexpr char kOwnAlias[] = "bonding_dev_0";
constexpr char kOwnDevice[] = "urma_shm0";
constexpr char kBondDevice[] = "urma_bond0";

}  // namespace

std::vector<Alias> parse_aliases(std::string_view text, std::string_view bond) {
  const bool bonded = bond != "none";
  std::vector<Alias> aliases = {
      {kOwnAlias, bonded ? kBondDevice : kOwnDevice, bonded ? "URMA_BOND" : nullptr}};
  bool has_own = true;
  const auto drop_own = [&] {
    if (std::exchange(has_own, false)) aliases.erase(aliases.begin());
  };
  while (!text.empty()) {
    const auto entry = trimmed(text.substr(0, text.find(',')));
    text.remove_prefix(std::min(text.find(','), text.size() - 1) + 1);
    if (entry.empty()) continue;
    if (entry == "-") {
      drop_own();
      continue;
    }
    const auto equals = entry.find('=');
    const auto name = trimmed(entry.substr(0, equals));
    const auto device =
        equals == std::string_view::npos ? std::string_view() : trimmed(entry.substr(equals + 1));
    if (!is_name(name) || !is_name(device)) {
      URMA_LOG(WARNING,
               "URMA_DEVICE_ALIAS: '{:.128}' is left out; write name=device, both of 1 to {} "
               "characters",
               entry, URMA_MAX_DEV_NAME - 1);
      continue;
    }
    if (name == kOwnAlias) drop_own();
    aliases.push_back({std::string(name), std::string(device)});
  }
  return aliases;
}

bool is_aggregated_name(std::string_view name) { return name.starts_with("bonding_dev"); }

}  // namespace urma::core
