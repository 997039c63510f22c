// SPDX-License-Identifier: MIT
//
// Segments that requests name by a user_tseg, or by an import that was granted other memory of the
// token id: imported when the first request needs them, and kept for the next ones.
#ifndef URMA_PROVIDERS_LOCAL_IMPLICIT_IMPORTS_H_
#define URMA_PROVIDERS_LOCAL_IMPLICIT_IMPORTS_H_

#include <cstdint>
#include <vector>

#include "jetty/work_request.h"
#include "urma/providers/local/remote.h"

namespace urma::local {

// Of one send queue, and guarded by its lock.
class ImplicitImports {
 public:
  explicit ImplicitImports(Transport* transport) : transport_(transport) {}

  // The segment that holds `bytes` bytes at `addr` and allows `access`, with a reference for the
  // caller. Whether it exists, and may be used, shows when it is used, as with every import.
  RemoteSegment* find(const urma_eid_t& owner, const TokenKey& key, uint64_t addr, uint64_t bytes,
                      uint32_t access);

 private:
  struct Known {
    urma_eid_t owner;
    TokenKey key;
    RemoteSegmentRef segment;
  };

  RemoteSegment* import(const urma_eid_t& owner, const TokenKey& key, uint64_t addr,
                        uint64_t bytes);

  Transport* transport_;
  std::vector<Known> known_;  // the one that was used last comes first
};

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_IMPLICIT_IMPORTS_H_
