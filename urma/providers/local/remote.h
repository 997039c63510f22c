// SPDX-License-Identifier: MIT
//
// What this process has imported: queues and segments of other processes. Importing is bookkeeping;
// the owner is asked when the first request needs it, and again when it has been replaced.
#ifndef URMA_PROVIDERS_LOCAL_REMOTE_H_
#define URMA_PROVIDERS_LOCAL_REMOTE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "segment/segment.h"
#include "urma/providers/local/link.h"

namespace urma::local {

class Transport;

// Kept by the import and by every request that still needs it.
template <typename Derived>
class Shared {
 public:
  void add_ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void drop_ref() {
    // Acquire-release: what other holders did happens before the deletion.
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete static_cast<Derived*>(this);
  }

 private:
  std::atomic<uint32_t> refs_{1};
};

// An imported JFR or jetty.
struct RemoteQueue : urma_target_jetty_t, Shared<RemoteQueue> {
  Transport* transport;
  urma_token_t token;
  uint64_t serial;                   // never reused, unlike the address
  std::atomic<bool> imported{true};  // cleared by unimport
};

// What the owner of a segment granted, and the link over which it did.
struct Grant {
  std::shared_ptr<Link> link;
  SegmentGrant segment;

  bool stands() const { return !link->gone() && link->segment_alive(segment.ref); }
};

// An imported segment. Any thread may use it.
class RemoteSegment : public SegmentHandle, public Shared<RemoteSegment> {
 public:
  RemoteSegment(Transport* transport, urma_context_t* ctx, const urma_seg_t& imported,
                urma_token_t token);

  // The newest grant, which may no longer stand; NULL where none was given yet.
  std::shared_ptr<const Grant> grant() const;

  // Asks the owner, unless that is under way, and returns the number of the attempt.
  uint64_t ask();
  // True once the attempt has ended; *status then says how, URMA_CR_SUCCESS with a new grant.
  bool ended(uint64_t attempt, urma_cr_status_t* status) const;

  // On the service thread: the answer.
  void finish(std::shared_ptr<Link> link, const Reply& reply);

 private:
  void ask_owner();
  void log_refusal(Answer answer) const;

  Transport* transport_;
  const urma_token_t token_;
  mutable std::mutex mutex_;  // guards the next four
  std::shared_ptr<const Grant> grant_;
  uint64_t asked_ = 0;
  uint64_t ended_ = 0;
  urma_cr_status_t last_status_ = URMA_CR_SUCCESS;
};

// The status with which a request ends whose owner answered so.
urma_cr_status_t status_of(Answer answer);

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_REMOTE_H_
