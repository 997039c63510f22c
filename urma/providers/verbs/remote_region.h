// SPDX-License-Identifier: MIT
//
// An imported segment: its key is asked for when the first request needs it, and again when a
// request has found that it is none any more.
#ifndef URMA_PROVIDERS_VERBS_REMOTE_REGION_H_
#define URMA_PROVIDERS_VERBS_REMOTE_REGION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "jetty/remote.h"
#include "urma/base/mutex.h"
#include "urma/providers/verbs/connector.h"

namespace urma::verbs {

// Thread-safe.
class RemoteRegion : public ImportedSegment {
 public:
  // Both outlive it.
  RemoteRegion(Transport* transport, Connector* connector, urma_context_t* ctx,
               const urma_seg_t& imported, urma_token_t token);
  ~RemoteRegion() override;

  // The name of the device that it was imported at.
  const char* device() const { return device_; }

  // The newest grant, NULL where there is none in force. It stays as long as the segment does.
  const KeyGrant* granted() const {
    // SYNC(key-grant): acquire pairs with the release in finish().
    return grant.load(std::memory_order_acquire);
  }
  // A request with this grant was refused: the next one asks anew.
  void doubt(const KeyGrant* refused);
  // Asks the owner, unless that is under way, and returns the number of the attempt.
  uint64_t ask(const Wanted& wanted);
  // Whether the newest attempt was for this.
  bool asked_for(const Wanted& wanted) const;
  // True once the attempt has ended; *status then says how, URMA_CR_SUCCESS with a new grant.
  bool ended(uint64_t attempt, urma_cr_status_t* status) const;

 private:
  void finish(const Wanted& wanted, const SegmentAnswer& answer);

  Transport* const transport_;
  Connector* const connector_;
  const uint64_t serial_;
  const char* const device_;
  mutable Mutex mutex_;
  // Older ones may be in use by requests that are under way.
  std::vector<std::unique_ptr<const KeyGrant>> grants_ URMA_GUARDED_BY(mutex_);
  uint64_t asked_ URMA_GUARDED_BY(mutex_) = 0;
  uint64_t ended_ URMA_GUARDED_BY(mutex_) = 0;
  Wanted wanted_ URMA_GUARDED_BY(mutex_) = {};
  urma_cr_status_t last_status_ URMA_GUARDED_BY(mutex_) = URMA_CR_SUCCESS;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_REMOTE_REGION_H_
