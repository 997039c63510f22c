// SPDX-License-Identifier: MIT
//
// The faults of URMA_FAULT, on the way from one process to another. Where the variable is not set
// none of this is used: it takes the places of the ordinary senders and posts.
#ifndef URMA_PROVIDERS_LOCAL_FAULTY_H_
#define URMA_PROVIDERS_LOCAL_FAULTY_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "jetty/faults.h"
#include "urma/providers/local/path.h"
#include "urma/providers/local/sender.h"
#include "urma_provider.h"

namespace urma::local {

class FaultyPath final : public QueuePath {
 public:
  FaultyPath(Sender* sender, RemoteQueue* target, uint32_t hint, Faults* faults)
      : QueuePath(sender, target, hint), faults_(faults) {}

  void give_up_first() override;
  void flush() override;

 private:
  Step execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  Step befall(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status);
  void break_connection();

  Faults* const faults_;
  // Of the first request that waits, which is looked at again and again.
  bool judged_ = false;
  std::optional<Fault> fault_;
  uint64_t not_before_ns_ = 0;
};

class FaultySender final : public Sender {
 public:
  FaultySender(Transport* transport, const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
               const urma_jetty_id_t& id, Faults* faults)
      : Sender(transport, cfg, identity, id), faults_(faults) {}

  // Every request goes the long way, on which it can be held up. *fails: the queue has to fail now.
  urma_status_t post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr, bool* fails) noexcept;

 private:
  std::unique_ptr<TargetPath> make_path(RemoteQueue* target, uint32_t hint) override {
    return std::make_unique<FaultyPath>(this, target, hint, faults_);
  }

  Faults* const faults_;
};

// As add_post_ops(), for a transport that has faults.
void add_faulty_post_ops(urma_ops_t* ops);

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_FAULTY_H_
