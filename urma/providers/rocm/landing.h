// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_ROCM_LANDING_H_
#define URMA_PROVIDERS_ROCM_LANDING_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "jetty/work_request.h"
#include "segment/segment.h"
#include "urma/providers/rocm/copies.h"
#include "urma/providers/shm/opaque_memory.h"

namespace urma::rocm {

// Whether the piece lies in memory of a device, whose segment stands.
bool is_device_memory(const SegmentTable& segments, const LocalPiece& piece);

// A message for memory of a device: gathered in host memory, and then copied there.
class Landing final : public shm::OpaqueLanding {
 public:
  // All outlive it.
  Landing(Copies* copies, const SegmentTable* segments, std::span<const LocalPiece> receive)
      : copies_(copies), segments_(segments), receive_(receive.begin(), receive.end()) {}
  // Throws Error.
  void make_room(uint32_t bytes);

  char* data() const override { return buffer_->data(); }
  bool stands() const override;
  bool landed(urma_cr_status_t* status) override;

 private:
  Copies* const copies_;
  const SegmentTable* const segments_;
  const std::vector<LocalPiece> receive_;
  uint32_t bytes_ = 0;  // of the message
  std::unique_ptr<Buffer> buffer_;
  CopyHandle copy_;
};

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_LANDING_H_
