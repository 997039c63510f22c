// SPDX-License-Identifier: MIT
#include "jetty/directory_transport.h"

#include "urma/base/log.h"

namespace urma {

Answer DirectoryTransport::grant(const GrantRequest& asked, const std::string& who,
                                 PeerGrants* grants, SegmentGrant* granted) {
  GrantError error;
  const auto& [va, len, access] = asked.wanted;
  const std::optional<SegmentGrant> grant = segments().grant(
      asked.eid, asked.token_id, va, len, urma_token_t{asked.token}, &error, access);
  if (grant.has_value()) {
    grants->add(grant->ref);
    // A peer that ended it meanwhile may not have found it among the grants.
    if (!segments().granted(grant->ref)) return Answer::kNoSuchObject;
    *granted = *grant;
    return Answer::kAccepted;
  }
  if (error != GrantError::kWrongToken) return Answer::kNoSuchObject;
  URMA_LOG_LIMITED(WARNING, "{} presented a wrong token for {} {:#x}", who, "token id",
                   asked.token_id);
  return Answer::kWrongToken;
}

uint32_t DirectoryTransport::take_id(IdKind kind, uint32_t eid_index, uint32_t chosen) {
  if (chosen == 0) return runtime_->alloc_id(kind);
  runtime_->reserve_id(kind, eid_index, chosen);
  return chosen;
}

void DirectoryTransport::free_id(IdKind kind, uint32_t eid_index, uint32_t id) {
  runtime_->free_id(kind, eid_index, id);
}

}  // namespace urma
