// SPDX-License-Identifier: MIT
#include "urma/providers/shm/kept_segments.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "urma/providers/shm/remote.h"

namespace urma::shm {
namespace {

constexpr size_t kMaxKept = 256;
// Of the 65530 that the kernel gives a process by default.
constexpr uint64_t kMaxMappings = 2048;
// Address space: what of it was touched costs page tables, a 512th of it.
constexpr uint64_t kMaxMappedSpace = 64ULL << 30;

}  // namespace

KeptSegments::KeptSegments() {
  const MutexLock lock(mutex_);
  // So that keeping one allocates nothing.
  kept_.reserve(kMaxKept + 1);
}

KeptSegments::~KeptSegments() = default;

RemoteSegment* KeptSegments::take_out(List::iterator place) {
  RemoteSegment* const segment = place->segment.release();
  mappings_ -= place->mappings;
  mapped_space_ -= place->mapped_space;
  kept_.erase(place);
  return segment;
}

RemoteSegment* KeptSegments::take(const urma_context_t* ctx, const urma_seg_t& imported,
                                  urma_token_t token, uint32_t access) {
  const TokenKey key = {imported.token_id, token.token};
  const urma_eid_t& owner = imported.ubva.eid;
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
      return kept.key == key &&
             std::memcmp(&kept.segment->seg.ubva.eid, &owner, sizeof(owner)) == 0 &&
             kept.segment->serves(ctx, imported, access);
    });
    if (found != kept_.end()) return take_out(found);
  }
  // The owner will be asked, which costs far more than this.
  drop_ended();
  return nullptr;
}

void KeptSegments::keep(RemoteSegment* segment) {
  segment->rest();
  Kept fresh = {{segment->seg.token_id, segment->token().token},
                std::unique_ptr<RemoteSegment>(segment),
                segment->mappings(),
                segment->mapped_space()};
  {
    const MutexLock lock(mutex_);
    // It may have ended since it was looked at; drop_ended() then ran too early for it.
    if (closed_ || fresh.segment->stale()) return;
    mappings_ += fresh.mappings;
    mapped_space_ += fresh.mapped_space;
    kept_.insert(kept_.begin(), std::move(fresh));
  }
  for (std::unique_ptr<RemoteSegment> gone;; gone.reset()) {
    const MutexLock lock(mutex_);
    if (!too_many()) return;
    gone.reset(take_out(kept_.end() - 1));
  }
}

// The most recently used one may have any size.
bool KeptSegments::too_many() const {
  return kept_.size() > 1 &&
         (kept_.size() > kMaxKept || mappings_ > kMaxMappings || mapped_space_ > kMaxMappedSpace);
}

void KeptSegments::drop_ended() {
  for (std::unique_ptr<RemoteSegment> gone;; gone.reset()) {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(),
                                    [](const Kept& kept) { return kept.segment->stale(); });
    if (found == kept_.end()) return;
    gone.reset(take_out(found));
  }
}

void KeptSegments::close() {
  List all;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    all.swap(kept_);
  }
}

}  // namespace urma::shm
