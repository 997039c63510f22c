// SPDX-License-Identifier: MIT
#include "urma/core/process/id_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "urma/base/error.h"
#include "urma/core/process/files.h"

namespace urma::core {
namespace {

constexpr char kName[] = "ids";
// Distance of places: more than 1 + kMaxSlot, since the kernel would join adjacent locks.
constexpr off_t kPlaceBytes = 2 * (off_t{kMaxSlot} + 1);

constexpr off_t place_of_block(uint32_t block) { return block * kPlaceBytes; }

// Behind those of the blocks. Besides the device's EIDs there may be that of its aggregate.
constexpr off_t place_of_id(IdKind kind, uint32_t eid_index, uint32_t id) {
  const off_t list = off_t{static_cast<uint32_t>(kind)} * (URMA_MAX_EID_CNT + 1) + eid_index;
  return (kBlocks + list * (kMaxChosenId + 1) + id) * kPlaceBytes;
}

OwnFd open_file(const RuntimeDir& dir, const std::string& temporary_name) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  OwnFd fd(dir.fd.get(), kName, kFlags);
  if (!fd.valid() && errno == ENOENT) {
    // Only one link succeeds; the other processes open that file.
    LockedFile(dir.fd.get(), temporary_name, "").link_as(kName);
    fd = OwnFd(dir.fd.get(), kName, kFlags);
  }
  if (!fd.valid()) fail_no_fd(urma::format("opening {}/{}", dir.path, kName));
  return fd;
}

}  // namespace

IdFile::IdFile(const RuntimeDir& dir, const std::string& temporary_name, uint32_t slot)
    : path_(urma::format("{}/{}", dir.path, kName)),
      locked_bytes_(1 + off_t{slot}),
      fd_(open_file(dir, temporary_name)) {
  // Fails here if such locks are refused, not at the first queue.
  if (join(kBlocks - 1)) leave(kBlocks - 1);
}

// False if another process holds a conflicting lock.
bool IdFile::lock(short type, off_t place, off_t bytes) {
  struct flock range = {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = place;
  range.l_len = bytes;
  if (::fcntl(fd_.get(), F_OFD_SETLK, &range) == 0) return true;
  if (errno == EAGAIN) return false;
  fail(URMA_FAIL,
       "{}: locking a range of it fails: {}; set URMA_RUNTIME_DIR to a directory in memory "
       "(tmpfs), and allow fcntl(F_OFD_SETLK) in seccomp filters",
       path_, std::strerror(errno));
}

void IdFile::unlock(off_t place, off_t bytes) {
  struct flock range = {};
  range.l_type = F_UNLCK;
  range.l_whence = SEEK_SET;
  range.l_start = place;
  range.l_len = bytes;
  ::fcntl(fd_.get(), F_OFD_SETLK, &range);
}

bool IdFile::claim(uint32_t block) { return lock(F_WRLCK, place_of_block(block), locked_bytes_); }
void IdFile::release(uint32_t block) { unlock(place_of_block(block), locked_bytes_); }
bool IdFile::join(uint32_t block) { return lock(F_RDLCK, place_of_block(block), 1); }
void IdFile::leave(uint32_t block) { unlock(place_of_block(block), 1); }

void IdFile::reserve(IdKind kind, uint32_t eid_index, uint32_t id) {
  if (!lock(F_WRLCK, place_of_id(kind, eid_index, id), locked_bytes_)) {
    fail(URMA_EEXIST, "id {} is in use by another process; choose another", id);
  }
}

void IdFile::unreserve(IdKind kind, uint32_t eid_index, uint32_t id) {
  unlock(place_of_id(kind, eid_index, id), locked_bytes_);
}

std::optional<uint32_t> IdFile::owner(IdKind kind, uint32_t eid_index, uint32_t id) const {
  const auto slot = slot_at(place_of_block(block_of(id)));
  return slot ? slot : slot_at(place_of_id(kind, eid_index, id));
}

// Does not see own locks.
std::optional<uint32_t> IdFile::slot_at(off_t place) const {
  struct flock range = {};
  range.l_type = F_RDLCK;
  range.l_whence = SEEK_SET;
  range.l_start = place;
  range.l_len = 1;
  if (::fcntl(fd_.get(), F_OFD_GETLK, &range) != 0 || range.l_type != F_WRLCK ||
      range.l_start != place || range.l_len < 2 || range.l_len > off_t{kMaxSlot} + 1) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(range.l_len - 1);
}

}  // namespace urma::core
