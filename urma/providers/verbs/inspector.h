// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_INSPECTOR_H_
#define URMA_PROVIDERS_VERBS_INSPECTOR_H_

#include <vector>

#include "urma/base/host.h"
#include "urma/base/mutex.h"
#include "urma/providers/verbs/transport.h"

namespace urma::verbs {

// Tells which queues and segments the contexts of this provider have.
class Inspector final : public SegmentInspector {
 public:
  void add(Transport* transport);
  // On return, nobody looks at it any more.
  void remove(Transport* transport);

  std::vector<urma_ext_part_t> parts(const urma_target_seg_t& segment) const override;
  void list_queues(size_t most, std::vector<urma_ext_queue_t>* queues) const override;
  void list_segments(size_t most, std::vector<urma_ext_segment_t>* segments) const override;
  void list_connections(size_t most,
                        std::vector<urma_ext_connection_t>* connections) const override;

 private:
  mutable Mutex mutex_;
  std::vector<Transport*> transports_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_INSPECTOR_H_
