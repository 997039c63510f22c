// SPDX-License-Identifier: MIT
//
// The owners of ids on this machine, and the ports where others ask for them.
#ifndef URMA_PROVIDERS_VERBS_CONTROL_NAMES_H_
#define URMA_PROVIDERS_VERBS_CONTROL_NAMES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "urma/base/runtime.h"
#include "urma/base/service.h"
#include "urma/providers/verbs/datagram.h"
#include "urma_types.h"

namespace urma::verbs {

// An id has this many well-known ports, so that several processes of a machine can serve ids that
// share one. The ports of a block's first id are the block's: as many blocks share them as there
// are ports, and no others, so that each block may belong to another process.
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
  bool claim_block(uint32_t block);
  void release_block(uint32_t block);
  bool serves(const urma_eid_t& eid, IdKind kind, uint32_t id) const;

  // Any thread. Whether any context on this machine, including this one, has the id as a program's
  // choice, or the block.
  bool is_reserved(IdKind kind, uint32_t id) const;
  bool is_claimed(uint32_t block) const;

 private:
  struct Port {
    std::unique_ptr<DatagramSocket> socket;
    uint64_t uses = 0;
  };
  struct Name {
    std::shared_ptr<void> claim;
    uint16_t port = 0;  // 0: nobody asks for this kind
  };

  std::string name_of(IdKind kind, uint32_t id) const;
  std::string name_of_block(uint32_t block) const;
  uint16_t take_port(uint32_t id);
  void drop_port(uint16_t port);
  std::unique_ptr<DatagramSocket> open(uint16_t port);

  Service* const service_;
  DatagramNetwork* const network_;
  const urma_eid_t eid_;
  std::string eid_text_;
  const NetAddress local_;
  const OnReady on_ready_;
  std::map<uint16_t, Port> ports_;
  std::map<std::pair<IdKind, uint32_t>, Name> names_;
  std::map<uint32_t, Name> blocks_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTROL_NAMES_H_
