// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/settings.h"

#include <charconv>
#include <string>

#include "urma/base/error.h"
#include "urma/providers/tcp/trust.h"

namespace urma::tcp {
namespace {

constexpr PortRange kPorts = {20000, 28191};

}  // namespace

PortRange port_range(const Settings& settings) {
  const std::string text = settings.text("URMA_TCP_PORT");
  if (text.empty()) return kPorts;
  unsigned first = 0;
  unsigned last = 0;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, first);
  last = first;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, last);
  }
  if (read.ec != std::errc() || read.ptr != end || first == 0 || last < first || last > 65535) {
    fail(URMA_EINVAL, "URMA_TCP_PORT={}: give one port, or low-high, of 1 to 65535", text);
  }
  return {static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
}

uint64_t timeout_ms(const Settings& settings) { return settings.number("URMA_TCP_TIMEOUT_MS"); }

CarrierConfig carrier_config(const Settings& settings, std::span<const urma_eid_t> addresses,
                             const PortRange& ports) {
  CarrierConfig config;
  config.addresses.assign(addresses.begin(), addresses.end());
  config.first_port = ports.first;
  config.last_port = ports.last;
  config.timeout_ms = timeout_ms(settings);
  read_trust(settings, &config);
  return config;
}

}  // namespace urma::tcp
