// SPDX-License-Identifier: MIT
#include "jetty/listing.h"

#include <utility>

namespace urma {

QueueList::Place QueueList::add(Entry entry) {
  const std::lock_guard lock(mutex_);
  return entries_.insert(entries_.end(), std::move(entry));
}

void QueueList::remove(Place place) {
  const std::lock_guard lock(mutex_);
  entries_.erase(place);
}

void QueueList::append_to(std::vector<urma_ext_queue_t>* queues, size_t most) const {
  const std::lock_guard lock(mutex_);
  require_room(*queues, entries_.size(), most);
  for (const Entry& entry : entries_) {
    queues->push_back(entry.fixed);
    entry.report(&queues->back());
  }
}

void ImportList::add(uint64_t serial, const ImportedSegment* segment) {
  const std::lock_guard lock(mutex_);
  segments_.emplace(serial, segment);
}

void ImportList::remove(uint64_t serial) {
  const std::lock_guard lock(mutex_);
  segments_.erase(serial);
}

void ImportList::visit(const std::function<void(uint64_t, const ImportedSegment&)>& visit) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [serial, segment] : segments_) visit(serial, *segment);
}

}  // namespace urma
