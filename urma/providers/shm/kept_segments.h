// SPDX-License-Identifier: MIT
//
// Grants of imports that have ended. A grant is kept for the next import of the same memory with
// the same token, which then asks and maps nothing.
#ifndef URMA_PROVIDERS_SHM_KEPT_SEGMENTS_H_
#define URMA_PROVIDERS_SHM_KEPT_SEGMENTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "jetty/work_request.h"
#include "urma/base/mutex.h"
#include "urma_types.h"

namespace urma::shm {

class RemoteSegment;

// Thread-safe. The segments in it have no references; nothing else knows them.
class KeptSegments {
 public:
  KeptSegments();
  ~KeptSegments();
  KeptSegments(const KeptSegments&) = delete;
  KeptSegments& operator=(const KeptSegments&) = delete;

  // Takes out one that serves such an import; else NULL. A grant that no longer stands serves none.
  // `ctx` is NULL if a request imports.
  RemoteSegment* take(const urma_context_t* ctx, const urma_seg_t& imported, urma_token_t token,
                      uint32_t access);
  // If there are too many, the oldest are dropped.
  void keep(RemoteSegment* segment);
  // Drops the grants that no longer stand.
  void drop_ended();
  // Drops all, and keeps nothing any more.
  void close();

 private:
  struct Kept {
    TokenKey key;
    std::unique_ptr<RemoteSegment> segment;
    uint32_t mappings;
    uint64_t mapped_space;
  };
  using List = std::vector<Kept>;

  RemoteSegment* take_out(List::iterator place) URMA_REQUIRES(mutex_);
  bool too_many() const URMA_REQUIRES(mutex_);

  Mutex mutex_;
  List kept_ URMA_GUARDED_BY(mutex_);  // most recently used first
  uint64_t mappings_ URMA_GUARDED_BY(mutex_) = 0;
  uint64_t mapped_space_ URMA_GUARDED_BY(mutex_) = 0;
  bool closed_ URMA_GUARDED_BY(mutex_) = false;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_KEPT_SEGMENTS_H_
