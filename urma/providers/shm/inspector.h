// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_SHM_INSPECTOR_H_
#define URMA_PROVIDERS_SHM_INSPECTOR_H_

#include <vector>

#include "urma/base/host.h"

namespace urma::shm {

class Transport;

// Tells which queues and segments this provider has, and how their parts are reached.
class Inspector : public SegmentInspector {
 public:
  explicit Inspector(Transport* transport) : transport_(transport) {}
  std::vector<urma_ext_part_t> parts(const urma_target_seg_t& segment) const override;
  void list_queues(size_t most, std::vector<urma_ext_queue_t>* queues) const override;
  void list_segments(size_t most, std::vector<urma_ext_segment_t>* segments) const override;

 private:
  Transport* transport_;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_INSPECTOR_H_
