// SPDX-License-Identifier: MIT
//
// Segments that requests name by token id and token, without having imported them.
#ifndef URMA_PROVIDERS_VERBS_IMPLICIT_REGIONS_H_
#define URMA_PROVIDERS_VERBS_IMPLICIT_REGIONS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "urma/providers/verbs/remote_region.h"

namespace urma::verbs {

// Of one send queue, and guarded by its lock.
class ImplicitRegions {
 public:
  ImplicitRegions(Transport* transport, Connector* connector)
      : transport_(transport), connector_(connector) {}

  // The one that holds these bytes, with a reference for the caller.
  RemoteRegion* find(const urma_eid_t& owner, const TokenKey& key, uint64_t addr, uint64_t bytes);

 private:
  struct DropRef {
    void operator()(RemoteRegion* region) const { region->drop_ref(); }
  };
  struct Known {
    urma_eid_t owner;
    TokenKey key;
    std::unique_ptr<RemoteRegion, DropRef> region;
  };

  Transport* const transport_;
  Connector* const connector_;
  std::vector<Known> known_;  // the one that was used last comes first
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_IMPLICIT_REGIONS_H_
