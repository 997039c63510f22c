/* SPDX-License-Identifier: MIT */

#include "ofi/rdm_buffers.h"

#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include "ofi/log.h"

namespace urma_fi {

int Buffers::make(urma_context_t* context) {
  // Pages that no message needs stay empty.
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return -FI_ENOMEM;
  memory_ = static_cast<char*>(memory);
  urma_seg_cfg_t cfg{};
  cfg.va = reinterpret_cast<uintptr_t>(memory_);
  cfg.len = kBytes;
  cfg.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
  segment_ = urma_register_seg(context, &cfg);
  if (segment_ == nullptr) return error_of_errno();
  pieces_.resize(kBounces);
  requests_.resize(kBounces);
  for (uint32_t i = 0; i < kBounces; i++) {
    pieces_[i] = {};
    pieces_[i].addr = reinterpret_cast<uintptr_t>(at(i));
    pieces_[i].len = kEagerSize + kMaxHead;
    pieces_[i].tseg = segment_;
    requests_[i] = {};
    requests_[i].src = {&pieces_[i], 1};
  }
  for (uint32_t i = 0; i < kCopies; i++) free_copies_.push_back(at(kBounces + i));
  return 0;
}

void Buffers::drop() {
  if (segment_ != nullptr) urma_unregister_seg(segment_);
  if (memory_ != nullptr) munmap(memory_, kBytes);
  segment_ = nullptr;
  memory_ = nullptr;
  returned_count_ = 0;
  free_copies_.clear();
}

int Buffers::post_all(urma_jfr_t* queue) {
  for (uint32_t i = 0; i < kBounces; i++) {
    requests_[i].user_ctx = uint64_t{i} << kOwnerBits | kBounce;
    returned_[returned_count_++] = i;
    if (returned_count_ < kBatch) continue;
    const int error = post_returned(queue);
    if (error != 0) return error;
  }
  return 0;
}

int Buffers::post_returned(urma_jfr_t* queue) {
  const uint32_t count = returned_count_;
  returned_count_ = 0;
  for (uint32_t i = 0; i < count; i++)
    requests_[returned_[i]].next = i + 1 < count ? &requests_[returned_[i + 1]] : nullptr;
  urma_jfr_wr_t* bad = nullptr;
  const urma_status_t status = urma_post_jfr_wr(queue, &requests_[returned_[0]], &bad);
  if (status == URMA_SUCCESS) return 0;
  FI_WARN_SPARSE(&provider, FI_LOG_EP_DATA, "receives of an endpoint are lost: status %d\n",
                 status);
  return error_of_status(status);
}

}  // namespace urma_fi
