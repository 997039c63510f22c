// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_HOST_IDS_H_
#define URMA_PROVIDERS_VERBS_HOST_IDS_H_

#include <cstdint>

#include "jetty/port_names.h"
#include "urma/base/service.h"

namespace urma::verbs {

// PortNames of a context, for any thread: ports are opened and closed on the service thread.
class HostIds final : public IdClaims {
 public:
  explicit HostIds(Service* service) : service_(service) {}
  // Before anything else; stays while anything is called.
  void start(PortNames* names) { names_ = names; }

  bool claim(uint32_t block) override {
    bool claimed = false;
    service_->run([&] { claimed = names_->claim(block); });
    return claimed;
  }
  void release(uint32_t block) override {
    service_->run([=, this] { names_->release(block); });
  }
  bool join(uint32_t block) override { return names_->join(block); }
  void leave(uint32_t /*block*/) override {}
  void reserve(IdKind kind, uint32_t /*eid_index*/, uint32_t id) override {
    service_->run([=, this] { names_->reserve(kind, kOnlyEid, id); });
  }
  void unreserve(IdKind kind, uint32_t /*eid_index*/, uint32_t id) override {
    service_->run([=, this] { names_->unreserve(kind, kOnlyEid, id); });
  }
  bool reserved_elsewhere(IdKind kind, uint32_t id) override {
    return names_->reserved_elsewhere(kind, id);
  }

 private:
  static constexpr uint32_t kOnlyEid = 0;  // of a control socket

  Service* const service_;
  PortNames* names_ = nullptr;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_HOST_IDS_H_
