// SPDX-License-Identifier: MIT
//
// Staged copies: how bytes move between two processes if the kernel refuses both to copy from
// and to the other's memory. The requester shares some memory with the owner, and the owner's
// service thread copies between that and its own memory, after its own checks.
#ifndef URMA_PROVIDERS_SHM_STAGING_H_
#define URMA_PROVIDERS_SHM_STAGING_H_

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "segment/shared_memory.h"
#include "urma/base/fd.h"
#include "urma/base/mutex.h"
#include "urma/providers/shm/peer.h"
#include "urma/providers/shm/protocol.h"

namespace urma::shm {

// The most that one request copies, and how many may be in progress: this limits the memory of a
// connection.
inline constexpr uint32_t kPlaceBytes = 256 << 10;
inline constexpr uint32_t kPlaces = 4;
inline constexpr uint32_t kStagingBytes = kPlaces * kPlaceBytes;

// The requester's end. Any thread.
class StagingArea : public std::enable_shared_from_this<StagingArea> {
 public:
  // Bytes of the area that nothing else uses.
  class Place {
   public:
    Place(std::shared_ptr<StagingArea> area, uint32_t index)
        : area_(std::move(area)), index_(index) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { area_->give_back(index_); }

    uint32_t index() const { return index_; }
    // Copies up to `bytes` bytes into it from the list, or out of it into the list.
    void copy(Direction direction, std::span<const iovec> list, uint64_t bytes) const;

   private:
    const std::shared_ptr<StagingArea> area_;
    const uint32_t index_;
  };

  // `on_room` is called when a place is free again that somebody has wanted. Throws Error.
  explicit StagingArea(std::function<void()> on_room);

  // NULL if all are taken.
  std::unique_ptr<Place> take();
  int fd() const { return memory_.fd(); }

 private:
  void give_back(uint32_t index);

  const std::function<void()> on_room_;
  const SharedMemory memory_;
  Mutex mutex_;
  uint32_t taken_ URMA_GUARDED_BY(mutex_) = 0;  // a bit for each place
  bool wanted_ URMA_GUARDED_BY(mutex_) = false;
};

// One copy that the owner is asked for.
struct StagedCopy : Question {
  // Written before the owner is asked.
  std::unique_ptr<const StagingArea::Place> place;
  uint32_t bytes = 0;
  bool crowded = false;  // once ended: no place was free, the owner was not asked
};

// The owner's end: memory shared with one peer, which may write anything to it.
class PeerStaging {
 public:
  // Throws Error if it is not what a StagingArea makes.
  explicit PeerStaging(Fd fd);

  // Writes the bytes of a place to the list, or reads them from there: as many bytes as the list
  // has. The kernel copies, so memory that cannot be accessed is only an error.
  Answer copy(Direction direction, uint32_t place, std::span<const iovec> own) const;

 private:
  const Fd fd_;
};

// Whether a peer may ask for this place and size.
inline bool valid_place(uint32_t place, uint32_t bytes) {
  return place < kPlaces && bytes != 0 && bytes <= kPlaceBytes;
}

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_STAGING_H_
