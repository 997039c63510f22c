// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_INSPECTOR_H_
#define URMA_PROVIDERS_VERBS_INSPECTOR_H_

#include <vector>

#include "urma/base/guard.h"
#include "urma/base/host.h"
#include "urma/base/mutex.h"
#include "urma/providers/verbs/transport.h"

namespace urma::verbs {

// Tells which queues and segments the contexts of this provider have.
class Inspector final : public SegmentInspector {
 public:
  void add(Transport* transport) {
    const MutexLock lock(mutex_);
    transports_.push_back(transport);
  }
  // On return, nobody looks at it any more.
  void remove(Transport* transport) {
    const MutexLock lock(mutex_);
    std::erase(transports_, transport);
  }

  // The library ends before these contexts.
  void abandon() {
    const MutexLock lock(mutex_);
    for (Transport* transport : transports_) {
      guarded(URMA_LOG_SITE, [transport] { transport->abandon(); });
    }
  }

  std::vector<urma_ext_part_t> parts(const urma_target_seg_t& segment) const override {
    return moved_part(segment);
  }
  void list_queues(size_t most, std::vector<urma_ext_queue_t>* queues) const override {
    const MutexLock lock(mutex_);
    for (const Transport* transport : transports_) transport->list_queues(most, queues);
  }
  void list_segments(size_t most, std::vector<urma_ext_segment_t>* segments) const override {
    const MutexLock lock(mutex_);
    for (const Transport* transport : transports_) transport->list_segments(most, segments);
  }
  void list_connections(size_t most,
                        std::vector<urma_ext_connection_t>* connections) const override {
    const MutexLock lock(mutex_);
    for (const Transport* transport : transports_) transport->list_connections(most, connections);
  }

 private:
  mutable Mutex mutex_;
  std::vector<Transport*> transports_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_INSPECTOR_H_
