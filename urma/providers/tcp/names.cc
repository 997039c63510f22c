// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/names.h"

namespace urma::tcp {

std::vector<uint16_t> ports_of(const PortRange& range, IdKind kind, uint32_t id) {
  if (kind == IdKind::kToken) return {static_cast<uint16_t>(id >> 16)};
  std::vector<uint16_t> ports;
  for (uint32_t index = 0; index < kPortsOfId; ++index) {
    ports.push_back(port_of(range, block_of(id) * kBlockIds, index));
    const uint16_t own = port_of(range, id, index);
    if (own != ports.back()) ports.push_back(own);
  }
  return ports;
}

}  // namespace urma::tcp
