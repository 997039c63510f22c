// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_HOST_IDS_H_
#define URMA_PROVIDERS_VERBS_HOST_IDS_H_

#include <cstdint>

#include "urma/base/id_blocks.h"
#include "urma/base/service.h"
#include "urma/providers/verbs/control.h"

namespace urma::verbs {

// The owners of an EID's ids on this machine, by names and ports of its network. No name stands for
// "a context has chosen an id of this block"; instead each side first takes its own, then checks
// the other: one that chooses an id checks its block, and the owner of a block checks each id
// before handing it out.
class HostIds final : public IdClaims {
 public:
  explicit HostIds(Service* service) : service_(service) {}
  // Before anything else; stays while anything is called.
  void start(Control* control) { control_ = control; }

  bool claim(uint32_t block) override {
    bool claimed = false;
    service_->run([&] { claimed = control_->claim_block(block); });
    return claimed;
  }
  void release(uint32_t block) override {
    service_->run([=, this] { control_->release_block(block); });
  }
  bool join(uint32_t block) override { return !control_->is_claimed(block); }
  void leave(uint32_t /*block*/) override {}
  void reserve(IdKind kind, uint32_t /*eid_index*/, uint32_t id) override {
    service_->run([=, this] { control_->reserve(kind, id); });
  }
  void unreserve(IdKind kind, uint32_t /*eid_index*/, uint32_t id) override {
    service_->run([=, this] { control_->release(kind, id); });
  }
  bool reserved_elsewhere(IdKind kind, uint32_t id) override {
    return control_->is_reserved(kind, id);
  }

 private:
  Service* const service_;
  Control* control_ = nullptr;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_HOST_IDS_H_
