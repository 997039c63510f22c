// SPDX-License-Identifier: MIT
#include "segment/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <utility>

#include "urma/base/error.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace urma {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

int further_seals(PeerMay peer) {
  switch (peer) {
    case PeerMay::kRead:
      return F_SEAL_SEAL | F_SEAL_FUTURE_WRITE;
    case PeerMay::kWrite:
      return F_SEAL_SEAL;
    case PeerMay::kMap:
      break;
  }
  return 0;
}

void* map(int fd, size_t bytes, int protection) {
  void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    const int status = errno == ENOMEM ? URMA_ENOMEM : URMA_FAIL;
    fail_errno(status, urma::format("mapping {} shared bytes", bytes));
  }
  return data;
}

}  // namespace

bool sealed_size(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  struct statfs system;
  return seals >= 0 && (seals & kSizeSeals) == kSizeSeals && ::fstatfs(fd, &system) == 0 &&
         system.f_type == TMPFS_MAGIC;
}

bool over_file_limit(uint64_t bytes) {
  rlimit limit;
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes > limit.rlim_cur;
}

SharedMemory SharedMemory::create(const char* name, size_t bytes, PeerMay peer) {
  return create(name, bytes, peer, bytes);
}

SharedMemory SharedMemory::create(const char* name, size_t bytes, PeerMay peer, size_t backed) {
  Fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) fail_errno(URMA_ENOMEM, urma::format("making shared memory '{}'", name));
  if (over_file_limit(bytes)) {
    fail(URMA_ENOMEM, "shared memory '{}' of {} bytes exceeds RLIMIT_FSIZE; raise it", name, bytes);
  }
  // Reserved now, so that a full memory is an error here and not a signal at first touch.
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      (backed != 0 && ::fallocate(fd.get(), 0, 0, static_cast<off_t>(backed)) != 0)) {
    fail_errno(URMA_ENOMEM, urma::format("reserving {} bytes of shared memory '{}'", backed, name));
  }
  void* data = map(fd.get(), bytes, PROT_READ | PROT_WRITE);
  SharedMemory memory(std::move(fd), data, bytes);
  if (::fcntl(memory.fd(), F_ADD_SEALS, kSizeSeals | further_seals(peer)) != 0) {
    fail_errno(URMA_FAIL, urma::format("sealing shared memory '{}'", name));
  }
  return memory;
}

void SharedMemory::back(size_t offset, size_t bytes) const {
  if (::fallocate(fd_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    fail_errno(URMA_ENOMEM, urma::format("reserving {} bytes of shared memory", bytes));
  }
}

SharedMemory SharedMemory::adopt(Fd fd, size_t bytes, PeerMay this_side) {
  if (!sealed_size(fd.get())) {
    fail(URMA_FAIL, "shared memory from a peer is not sealed against resizing");
  }
  struct stat status;
  if (::fstat(fd.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) != bytes) {
    fail(URMA_FAIL, "shared memory from a peer does not have the {} bytes that it announced",
         bytes);
  }
  const int protection = this_side == PeerMay::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* data = map(fd.get(), bytes, protection);
  SharedMemory memory(std::move(fd), data, bytes);
  if (this_side == PeerMay::kMap && !memory.end_mapping()) {
    fail(URMA_FAIL, "a peer can punch holes into its shared memory");
  }
  return memory;
}

bool SharedMemory::end_mapping() const {
  if (::fcntl(fd(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0) return true;
  const int seals = ::fcntl(fd(), F_GET_SEALS);
  // A descriptor for reading adds no seals either: its sender may have another one.
  const bool writable = (::fcntl(fd(), F_GETFL) & O_ACCMODE) == O_RDWR;
  return ((seals & F_SEAL_SEAL) == 0 && writable) || (seals & F_SEAL_FUTURE_WRITE) != 0;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace urma
