// SPDX-License-Identifier: MIT
//
// The number of ports of each object of an aggregated context, and the targets imported for its
// jetties.
#ifndef URMA_CORE_API_OBJECT_PORTS_H_
#define URMA_CORE_API_OBJECT_PORTS_H_

#include <cstdint>
#include <map>
#include <optional>

#include "urma/base/mutex.h"
#include "urma_types.h"
#include "urma_ubagg.h"

namespace urma::core {

// Thread-safe. Entries are allocated before they are added, so that nothing fails once an object is
// made.
class ObjectPorts {
 public:
  struct Object {
    uint32_t ports;
    urma_jetty_t* jetty = nullptr;  // the object, where it is a jetty
  };
  using Objects = std::map<const void*, Object>;
  using Pairs = std::map<const urma_target_jetty_t*, urma_jetty_t*>;

  static Objects::node_type object_of(uint32_t ports);
  static Pairs::node_type pair_with(urma_jetty_t* jetty);

  void add(Objects::node_type node, const void* object, urma_jetty_t* jetty);
  void add(Objects::node_type node);
  // Empty if the object is not listed.
  Objects::node_type remove(const void* object);
  // 1 for an object that is not listed.
  uint32_t of(const void* object) const;
  // The jetty at this address, or NULL.
  urma_jetty_t* jetty_at(const void* object) const;

  // Make the target the peer of its jetty, and undo that if it still is.
  void pair(Pairs::node_type node, urma_target_jetty_t* target);
  Pairs::node_type part(urma_target_jetty_t* target);

 private:
  mutable Mutex mutex_;
  Objects objects_ URMA_GUARDED_BY(mutex_);
  Pairs pairs_ URMA_GUARDED_BY(mutex_);
};

// The length of a list of ports behind a configuration, 1 for an empty one. Nothing, with a log
// line, if it is invalid.
std::optional<uint32_t> check_ports(const char* call, const bondp_port_id_t* ports, uint32_t count);

}  // namespace urma::core

#endif  // URMA_CORE_API_OBJECT_PORTS_H_
