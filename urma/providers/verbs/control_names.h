// SPDX-License-Identifier: MIT
//
// Ids that programs chose: who has them on this machine, and the ports where others ask for them.
#ifndef URMA_PROVIDERS_VERBS_CONTROL_NAMES_H_
#define URMA_PROVIDERS_VERBS_CONTROL_NAMES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "urma/base/runtime.h"
#include "urma/base/service.h"
#include "urma/providers/verbs/datagram.h"
#include "urma_types.h"

namespace urma::verbs {

// An id has this many well-known ports, so that several processes of a machine can serve ids that
// share one.
inline constexpr uint32_t kWellKnownPorts = 8;
uint16_t well_known_port(uint32_t id, uint32_t index);

class ControlNames {
 public:
  // Called with each socket that becomes ready.
  using OnReady = std::function<void(DatagramSocket*)>;

  ControlNames(Service* service, DatagramNetwork* network, const urma_eid_t& eid,
               const NetAddress& local, OnReady on_ready);
  ~ControlNames();

  // As Control's.
  void reserve(IdKind kind, uint32_t id);
  void release(IdKind kind, uint32_t id);
  bool serves(const urma_eid_t& eid, IdKind kind, uint32_t id) const;

 private:
  struct Port {
    std::unique_ptr<DatagramSocket> socket;
    uint64_t ids = 0;
  };
  struct Name {
    std::shared_ptr<void> claim;
    uint16_t port = 0;  // 0: nobody asks for this kind
  };

  uint16_t take_port(uint32_t id);
  std::unique_ptr<DatagramSocket> open(uint16_t port);

  Service* const service_;
  DatagramNetwork* const network_;
  const urma_eid_t eid_;
  const NetAddress local_;
  const OnReady on_ready_;
  std::map<uint16_t, Port> ports_;
  std::map<std::pair<IdKind, uint32_t>, Name> names_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTROL_NAMES_H_
