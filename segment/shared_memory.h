// SPDX-License-Identifier: MIT
//
// Memory that is shared with other processes through a descriptor: a sealed memfd.
#ifndef SEGMENT_SHARED_MEMORY_H_
#define SEGMENT_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "urma/base/fd.h"

namespace urma {

// True if nobody can resize the memory of the descriptor, so that no access to it faults: a
// sealed memfd, not of the pool of huge pages, which can be empty when a page is needed.
bool sealed_size(int fd);

// True if the kernel kills a process that makes a file this long (RLIMIT_FSIZE).
bool over_file_limit(uint64_t bytes);

// kMap: write what it has mapped when end_mapping() is called.
enum class PeerMay { kRead, kWrite, kMap };

// One mapping of a memfd and, if this side holds it, the descriptor.
class SharedMemory {
 public:
  // New zeroed memory, mapped here for reading and writing. Sealed: nobody can resize it, and with
  // PeerMay::kRead no receiver of the descriptor can write it. With PeerMay::kMap, each of them can
  // add seals. All of it is backed by memory from the start. Throws Error.
  static SharedMemory create(const char* name, size_t bytes, PeerMay peer);
  // The same with only the first `backed` bytes backed; call back() before using others.
  static SharedMemory create(const char* name, size_t bytes, PeerMay peer, size_t backed);
  // Maps what a peer handed over. Refuses it (Error URMA_FAIL) unless it is a memfd of exactly
  // `bytes` bytes whose size is sealed, so that no truncation can fault this process later. With
  // PeerMay::kMap, calls end_mapping(), and refuses it if that fails.
  static SharedMemory adopt(Fd fd, size_t bytes, PeerMay this_side);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  // Backs a part of it; needs the descriptor. Throws Error if memory is short.
  void back(size_t offset, size_t bytes) const;

  // Both sides have mapped it: from now on nobody can map it for writing, write to its descriptor,
  // or punch holes into it, so that each access would fault. Needs the descriptor. False if someone
  // has sealed it against that, or if the descriptor is for reading alone; if the kernel allows
  // this process no seals, it stays as it is.
  bool end_mapping() const;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  // The mapping stays.
  void close_fd() { fd_.reset(); }

 private:
  SharedMemory(Fd fd, void* data, size_t bytes) : fd_(std::move(fd)), data_(data), bytes_(bytes) {}

  Fd fd_;
  void* data_;
  size_t bytes_;
};

}  // namespace urma

#endif  // SEGMENT_SHARED_MEMORY_H_
