// SPDX-License-Identifier: MIT
//
// The sending half of a JFS or jetty whose requests may name memory of devices.
#ifndef URMA_PROVIDERS_ROCM_SENDER_H_
#define URMA_PROVIDERS_ROCM_SENDER_H_

#include <cstdint>
#include <memory>

#include "urma/providers/rocm/copies.h"
#include "urma/providers/rocm/path.h"
#include "urma/providers/shm/sender.h"

namespace urma::rocm {

class Sender : public shm::Sender {
 public:
  // `copies` outlives it.
  Sender(shm::Transport* transport, Copies* copies, const urma_jfs_cfg_t& cfg,
         const QueueIdentity& identity, const urma_jetty_id_t& id)
      : shm::Sender(transport, cfg, identity, id), copies_(copies) {}

  Copies* copies() const { return copies_; }

 protected:
  std::unique_ptr<TargetPath> make_path(RemoteQueue* target, uint32_t hint) override {
    return std::make_unique<Path>(this, target, hint);
  }

 private:
  Copies* const copies_;
};

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_SENDER_H_
