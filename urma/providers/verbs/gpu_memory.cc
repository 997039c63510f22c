// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/gpu_memory.h"

#include <utility>

#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/base/mutex.h"

namespace urma::verbs {

// A pin, and its registration once there is one.
struct GpuMemory::Pinned {
  explicit Pinned(GpuMemory* gpu_memory) : owner(gpu_memory) {}

  GpuMemory* const owner;
  urma_ext_pinned_t* pin = nullptr;
  Mutex mutex;
  const Segment* segment URMA_GUARDED_BY(mutex) = nullptr;
  bool freed URMA_GUARDED_BY(mutex) = false;

  // Once both are known: neither peers nor this process use the memory any more.
  void end() URMA_REQUIRES(mutex) {
    const TokenKey key = {segment->token_id_value, segment->token.token};
    owner->registrations_->revoke(segment->eid, key, segment->base, segment->len);
    owner->table_->end(segment->ref);
    owner->events_->raise(URMA_EVENT_ELR_ERR, segment->token_id_value);
    URMA_LOG_LIMITED(WARNING,
                     "the GPU memory of the segment at va {:#x} of token id {:#x} is freed; "
                     "unregister segments first",
                     segment->base, segment->token_id_value);
  }
};

GpuMemory::GpuMemory(const Registry* registry, Registrations* registrations, SegmentTable* table,
                     AsyncEvents* events)
    : registry_(registry), registrations_(registrations), table_(table), events_(events) {}

GpuMemory::~GpuMemory() = default;

bool GpuMemory::has(uint64_t va) const {
  const auto* const rdma = registry_->rdma_interface();
  return rdma != nullptr && rdma->is_device_va(va) == 1;
}

urma_target_seg_t* GpuMemory::enter(uint64_t va, uint64_t bytes, const char* device,
                                    const Enter& enter) {
  const auto* const rdma = registry_->rdma_interface();
  auto pinned = std::make_shared<Pinned>(this);
  const int error = rdma->pin(va, bytes, device, &pinned->pin, on_freed, pinned.get());
  if (error != 0) {
    fail(URMA_EINVAL, "register_seg: the {} bytes of GPU memory at va {:#x} cannot be pinned: {}",
         bytes, va, error);
  }
  urma_target_seg_t* segment = nullptr;
  try {
    segment = enter(pinned->pin->dmabuf, pinned->pin->offset);
  } catch (...) {
    rdma->unpin(&pinned->pin);
    throw;
  }
  {
    const MutexLock lock(pinned->mutex);
    pinned->segment = static_cast<const Segment*>(segment);
    if (pinned->freed) pinned->end();
  }
  const MutexLock lock(mutex_);
  pinned_.emplace(segment, std::move(pinned));
  return segment;
}

// In the call that frees the memory.
void GpuMemory::on_freed(void* of) {
  guarded(URMA_LOG_SITE, [&] {
    auto* const pinned = static_cast<Pinned*>(of);
    const MutexLock lock(pinned->mutex);
    pinned->freed = true;
    if (pinned->segment != nullptr) pinned->end();
    return URMA_SUCCESS;
  });
}

std::function<void()> GpuMemory::leave(const urma_target_seg_t* segment) {
  std::shared_ptr<Pinned> left;
  {
    const MutexLock lock(mutex_);
    const auto found = pinned_.find(segment);
    if (found == pinned_.end()) return nullptr;
    left = std::move(found->second);
    pinned_.erase(found);
  }
  {
    // A later free finds nothing to end.
    const MutexLock lock(left->mutex);
    left->segment = nullptr;
  }
  // If the other provider has ended, nothing is pinned any more.
  return [left, registry = registry_] {
    const auto* const rdma = registry->rdma_interface();
    if (rdma != nullptr) rdma->unpin(&left->pin);
  };
}

}  // namespace urma::verbs
