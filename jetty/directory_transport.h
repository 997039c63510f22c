// SPDX-License-Identifier: MIT
//
// A transport whose ids and EIDs are those of the runtime directory.
#ifndef JETTY_DIRECTORY_TRANSPORT_H_
#define JETTY_DIRECTORY_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "jetty/peer_grants.h"
#include "jetty/transport.h"
#include "urma/base/host.h"
#include "urma/base/mutex.h"
#include "urma/base/runtime.h"

namespace urma {

// The bytes that an owner is asked to grant.
struct GrantRequest {
  urma_eid_t eid;
  uint32_t token_id;
  uint32_t token;
  Wanted wanted;
};

class DirectoryTransport : public Transport {
 public:
  DirectoryTransport(const urma_host& host, std::unique_ptr<Faults> faults)
      : Transport(host.service, std::move(faults)), runtime_(host.runtime()) {}

  Runtime& runtime() const { return *runtime_; }

  // Grants what `who` asks for; `grants` are its earlier grants, and the log names it. Any thread.
  Answer grant(const GrantRequest& asked, const std::string& who, PeerGrants* grants,
               SegmentGrant* granted);

  std::span<const urma_eid_t> eids() const override { return runtime_->all_eids(); }
  uint32_t uasid() const override { return runtime_->uasid(); }
  uint32_t take_id(IdKind kind, uint32_t eid_index, uint32_t chosen) override;
  void free_id(IdKind kind, uint32_t eid_index, uint32_t id) override;

 protected:
  // Throws Error(URMA_EINVAL) if peers could write to read-only memory.
  void require_writable(const Segment& segment);

 private:
  Runtime* const runtime_;

  Mutex writable_mutex_;
  // The area that was last found writable.
  uint64_t writable_base_ URMA_GUARDED_BY(writable_mutex_) = 0;
  uint64_t writable_len_ URMA_GUARDED_BY(writable_mutex_) = 0;
};

}  // namespace urma

#endif  // JETTY_DIRECTORY_TRANSPORT_H_
