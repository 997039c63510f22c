// SPDX-License-Identifier: MIT
//
// The HSA runtime of the process, from the search for it to its end.
#ifndef URMA_PROVIDERS_ROCM_RUNTIME_H_
#define URMA_PROVIDERS_ROCM_RUNTIME_H_

#include <memory>
#include <string>

#include "urma/providers/rocm/hsa_api.h"
#include "urma/providers/rocm/topology.h"

namespace urma::rocm {

// The runtime is initialised while this object exists.
class HsaRuntime {
 public:
  // NULL if it has nothing to offer; *why says why. `library` is "" for the usual one, which is
  // not even looked for if the kernel has no driver. Throws Error.
  static std::unique_ptr<HsaRuntime> open(const std::string& library, bool with_cpus,
                                          std::string* why);
  ~HsaRuntime();
  HsaRuntime(const HsaRuntime&) = delete;
  HsaRuntime& operator=(const HsaRuntime&) = delete;

  const HsaApi& api() const { return api_; }
  const Topology& topology() const { return topology_; }

 private:
  explicit HsaRuntime(const HsaApi& api) : api_(api) {}

  const HsaApi api_;
  Topology topology_;
};

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_RUNTIME_H_
