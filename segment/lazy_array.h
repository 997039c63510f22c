// SPDX-License-Identifier: MIT
//
// Arrays that use memory only where they are touched, page by page. Programs create queues at the
// depth of the device's caps and use a fraction of it.
#ifndef SEGMENT_LAZY_ARRAY_H_
#define SEGMENT_LAZY_ARRAY_H_

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace urma {

// Anonymous zeroed memory, not backed before it is touched.
class LazyMemory {
 public:
  LazyMemory() = default;
  explicit LazyMemory(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) {
      data_ = nullptr;
      throw std::bad_alloc();
    }
    // Otherwise the first entry may cost 2 MiB. Fails if the kernel has no huge pages at all.
    ::madvise(data_, bytes, MADV_NOHUGEPAGE);
  }
  LazyMemory(LazyMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  LazyMemory(const LazyMemory&) = delete;
  LazyMemory& operator=(const LazyMemory&) = delete;
  LazyMemory& operator=(LazyMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~LazyMemory() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// T must be valid when all its bytes are zero.
template <typename T>
class LazyArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit LazyArray(size_t count) : memory_(count * sizeof(T)), count_(count) {}
  T& operator[](size_t index) const { return static_cast<T*>(memory_.data())[index]; }
  size_t size() const { return count_; }

 private:
  LazyMemory memory_;
  size_t count_;
};

}  // namespace urma

#endif  // SEGMENT_LAZY_ARRAY_H_
