// SPDX-License-Identifier: MIT
#include "urma/providers/shm/staging.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/providers/shm/direct.h"

namespace urma::shm {
StagingArea::StagingArea(std::function<void()> on_room)
    : on_room_(std::move(on_room)),
      memory_(SharedMemory::create("urma-staging", kStagingBytes, PeerMay::kWrite)) {}

std::unique_ptr<StagingArea::Place> StagingArea::take() {
  const MutexLock lock(mutex_);
  const auto index = static_cast<uint32_t>(std::countr_one(taken_));
  wanted_ |= index == kPlaces;
  if (index == kPlaces) return nullptr;
  auto place = std::make_unique<Place>(shared_from_this(), index);
  taken_ |= 1U << index;
  return place;
}

void StagingArea::give_back(uint32_t index) {
  bool wanted;
  {
    const MutexLock lock(mutex_);
    taken_ &= ~(1U << index);
    wanted = std::exchange(wanted_, false);
  }
  if (wanted) on_room_();
}

void StagingArea::Place::copy(Direction direction, std::span<const iovec> list,
                              uint64_t bytes) const {
  char* at = static_cast<char*>(area_->memory_.data()) + uint64_t{index_} * kPlaceBytes;
  for (const iovec& piece : list) {
    const iovec part = {piece.iov_base, std::min<uint64_t>(piece.iov_len, bytes)};
    if (part.iov_len == 0) break;
    copy_mapped(direction, at, {&part, 1});
    at += part.iov_len;
    bytes -= part.iov_len;
  }
}

PeerStaging::PeerStaging(Fd fd) : fd_(std::move(fd)) {
  struct stat status;
  if (!sealed_size(fd_.get()) || ::fstat(fd_.get(), &status) != 0 ||
      status.st_size != kStagingBytes) {
    fail(URMA_FAIL, "a peer's staging area is not sealed memory of {} bytes", kStagingBytes);
  }
}

Answer PeerStaging::copy(Direction direction, uint32_t place, std::span<const iovec> own) const {
  const uint64_t offset = uint64_t{place} * kPlaceBytes;
  // Not the functions of the C library: to the thread sanitizer they would be accesses of this
  // program, and this is an access of the peer, as if a device made it.
  const auto call = direction == Direction::kWrite ? SYS_preadv : SYS_pwritev;
  const ssize_t done = ::syscall(call, fd_.get(), own.data(), own.size(), offset, 0);
  if (done >= 0) {
    return static_cast<uint64_t>(done) == total(own) ? Answer::kAccepted : Answer::kNoAccess;
  }
  if (errno == EFAULT) return Answer::kNoAccess;
  URMA_LOG_LIMITED(ERR, "{} bytes cannot be copied for a peer: {}{}", total(own),
                   std::strerror(errno), errno == EFBIG ? "; raise RLIMIT_FSIZE" : "");
  return Answer::kNoResources;
}

}  // namespace urma::shm
