// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_TCP_PAYLOADS_H_
#define URMA_PROVIDERS_TCP_PAYLOADS_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "urma/base/mutex.h"

namespace urma::tcp {

// Places for the payloads of messages that wait for a receive. Some large ones are kept: the
// allocator gives their pages back each time, and new pages cost as much as the bytes in them. Any
// thread.
class Payloads {
 public:
  struct Place {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
  };

  // Giving back allocates nothing.
  Payloads() { spare_.reserve(kMost / kLeast); }

  Place take(size_t bytes) {
    if (bytes >= kLeast) {
      const MutexLock lock(mutex_);
      const auto fits = [&](const Place& spare) {
        return spare.size >= bytes && spare.size / 2 <= bytes;
      };
      const auto found = std::find_if(spare_.begin(), spare_.end(), fits);
      if (found != spare_.end()) {
        Place place = std::exchange(*found, std::move(spare_.back()));
        spare_.pop_back();
        spare_bytes_ -= place.size;
        return place;
      }
    }
    return {std::make_unique_for_overwrite<char[]>(bytes), bytes};
  }
  void give_back(Place place) {
    if (place.size < kLeast) return;
    const MutexLock lock(mutex_);
    if (spare_bytes_ + place.size > kMost) return;
    spare_bytes_ += place.size;
    spare_.push_back(std::move(place));
  }

 private:
  static constexpr size_t kLeast = 8 << 10;
  static constexpr size_t kMost = 2 << 20;

  Mutex mutex_;
  std::vector<Place> spare_ URMA_GUARDED_BY(mutex_);
  size_t spare_bytes_ URMA_GUARDED_BY(mutex_) = 0;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_PAYLOADS_H_
