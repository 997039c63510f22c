// SPDX-License-Identifier: MIT
#ifndef JETTY_IOVECS_H_
#define JETTY_IOVECS_H_

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace urma {

// The most that one call copies; later polls, or the service thread, move the rest.
inline constexpr uint64_t kCopyPerTurn = 1 << 20;

inline uint64_t total(std::span<const iovec> list) {
  uint64_t bytes = 0;
  for (const iovec& piece : list) bytes += piece.iov_len;
  return bytes;
}

// A window of bytes in a list of pieces: what one turn of a transfer copies.
class IovecList {
 public:
  // Adds the part of the next piece that lies in the window of `window` bytes, which begins `skip`
  // bytes into all pieces together. Pieces beyond the capacity are left for the next turn.
  void add(uint64_t addr, uint64_t len, uint64_t skip, uint64_t window) {
    const uint64_t begin = std::max(seen_, skip);
    const uint64_t end = std::min(seen_ + len, skip + window);
    if (begin < end && count_ < list_.size()) {
      list_[count_++] = {reinterpret_cast<void*>(addr + (begin - seen_)), end - begin};
      bytes_ += end - begin;
    }
    seen_ += len;
  }
  std::span<const iovec> list() const { return {list_.data(), count_}; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::array<iovec, 256> list_;
  size_t count_ = 0;
  uint64_t seen_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace urma

#endif  // JETTY_IOVECS_H_
