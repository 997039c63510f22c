// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_HOST_IDS_H_
#define URMA_PROVIDERS_VERBS_HOST_IDS_H_

#include <cstdint>

#include "urma/base/id_blocks.h"
#include "urma/base/service.h"
#include "urma/providers/verbs/control.h"

namespace urma::verbs {

// Who has which ids of an EID on this machine, by names and ports of its network. Nothing stands
// for "somebody has chosen an id of this block"; instead each side first takes what it wants, then
// looks whether the other has: who chooses an id for its block, and who has claimed a block for
// each id before it is handed out.
class HostIds final : public IdClaims {
 public:
  explicit HostIds(Service* service) : service_(service) {}
  // Before anything else; stays as long as anything is called.
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
