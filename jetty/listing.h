// SPDX-License-Identifier: MIT
//
// What a provider shows to tools: its active queues and its imported segments.
#ifndef JETTY_LISTING_H_
#define JETTY_LISTING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <vector>

#include "urma/base/error.h"
#include "urma/base/mutex.h"
#include "urma_ext.h"

namespace urma {

class ImportedSegment;
struct Segment;

// Throws Error(URMA_ENOMEM) if a list would exceed `most` entries with `added` more.
template <typename Record>
void require_room(const std::vector<Record>& records, size_t added, size_t most) {
  if (added > most - records.size()) fail(URMA_ENOMEM, "more than {} entries", most);
}

// Describes a registered segment, except how its parts are reached.
urma_ext_segment_t describe(const Segment& segment);
// The same for an imported one. Its handles are counted apart from those of registered ones.
urma_ext_segment_t describe(uint64_t serial, const ImportedSegment& segment);
// The one part of any segment whose bytes a wire or a device moves: peers map nothing of it.
std::vector<urma_ext_part_t> moved_part(const urma_target_seg_t& segment);
// Lists a segment once for each part. Throws as require_room() does.
void append_parts(const urma_ext_segment_t& segment, const std::vector<urma_ext_part_t>& parts,
                  size_t most, std::vector<urma_ext_segment_t>* segments);

class QueueList {
 public:
  // Fills in what changes; from any thread.
  using Report = std::function<void(urma_ext_queue_t*)>;
  struct Entry {
    urma_ext_queue_t fixed;  // what never changes
    Report report;
  };
  using Place = std::list<Entry>::iterator;

  Place add(Entry entry);
  void remove(Place place);
  // Throws Error(URMA_ENOMEM) if there would be more than `most`.
  void append_to(std::vector<urma_ext_queue_t>* queues, size_t most) const;
  // Whether there is one of this kind, in whatever state.
  bool has(urma_ext_queue_kind_t kind, const urma_eid_t& eid, uint32_t id) const;

 private:
  mutable Mutex mutex_;
  std::list<Entry> entries_ URMA_GUARDED_BY(mutex_);
};

// Shows a queue while it lives. Must end before anything that its report reads.
class QueueListing {
 public:
  QueueListing(QueueList* list, const urma_ext_queue_t& fixed, QueueList::Report report)
      : list_(list), place_(list->add({fixed, std::move(report)})) {}
  ~QueueListing() { list_->remove(place_); }
  QueueListing(const QueueListing&) = delete;
  QueueListing& operator=(const QueueListing&) = delete;

 private:
  QueueList* const list_;
  const QueueList::Place place_;
};

class ImportList {
 public:
  // The segment calls both: add when it is complete, remove before any part of it goes.
  void add(uint64_t serial, const ImportedSegment* segment);
  void remove(uint64_t serial);
  // Calls visit(serial, segment) for each.
  void visit(const std::function<void(uint64_t, const ImportedSegment&)>& visit) const;

 private:
  mutable Mutex mutex_;
  std::map<uint64_t, const ImportedSegment*> segments_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma

#endif  // JETTY_LISTING_H_
