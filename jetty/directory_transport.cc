// SPDX-License-Identifier: MIT
#include "jetty/directory_transport.h"

#include <sys/mman.h>

#include <algorithm>
#include <optional>

#include "segment/memory_map.h"
#include "urma/base/error.h"
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

// A right to write memory that this process itself may not write would fail at the first request. A
// kernel before 6.11 cannot be asked quickly. An area that was writable a moment ago is assumed to
// still be: asking takes four times as long as everything else.
void DirectoryTransport::require_writable(const Segment& segment) {
  if ((segment.access & (URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC)) == 0) return;
  const MutexLock lock(writable_mutex_);
  if (lies_in(segment.base, segment.len, writable_base_, writable_len_)) return;
  MemoryMap map;
  const uint64_t end = segment.base + segment.len;
  for (uint64_t va = segment.base; va < end;) {
    const std::optional<Vma> area = map.usable() ? map.query(va) : std::nullopt;
    if (!area.has_value()) return;
    if ((area->protection & (PROT_READ | PROT_WRITE)) == 0) {
      fail(URMA_EINVAL,
           "register_seg: memory at {:#x} cannot be accessed, and access {:#x} lets peers write to "
           "it; leave guard pages out, or make it writable",
           std::max(va, area->start), segment.access);
    }
    if ((area->protection & PROT_WRITE) == 0) {
      fail(URMA_EINVAL,
           "register_seg: memory at {:#x} is read-only, and access {:#x} lets peers write to it; "
           "leave out WRITE and ATOMIC, or make it writable",
           std::max(va, area->start), segment.access);
    }
    writable_base_ = area->start;
    writable_len_ = area->end - area->start;
    va = area->end;
  }
}

}  // namespace urma
