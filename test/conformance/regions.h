// SPDX-License-Identifier: MIT
//
// Every kind of memory that programs register, with guards around it that no one may touch.
#ifndef TEST_CONFORMANCE_REGIONS_H_
#define TEST_CONFORMANCE_REGIONS_H_

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "test/process/endpoint.h"

namespace urma_test {

inline constexpr size_t kGuard = 64;  // bytes before and after a segment that must not change
inline constexpr size_t kGuards = 2 * kGuard;
inline constexpr uint8_t kPoison = 0xa5;
inline constexpr size_t kKinds = 4;
inline constexpr size_t kMemalign = 1;
const char* const kKindNames[kKinds] = {"malloc", "memalign", "mmap", "stack"};

// As wide as the widest atomic.
using Value = unsigned __int128;

using SegmentIds = std::array<SegmentId, kKinds>;
using Segments = std::array<urma_target_seg_t*, kKinds>;

inline void fill_with_pattern(uint8_t* bytes, size_t size, uint64_t seed) {
  uint64_t word = seed * 0x9e3779b97f4a7c15u + 1;
  for (size_t i = 0; i < size; i += sizeof(word)) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(bytes + i, &word, std::min(sizeof(word), size - i));
  }
}

// A segment of `size` bytes in one kind of memory, with guards around it.
class Region {
 public:
  Region(size_t kind, size_t size, void* stack) : kind_(kind), size_(size), total_(size + kGuards) {
    switch (kind) {
      case 0:
        base_ = std::malloc(total_ + 1);
        bytes_ = static_cast<uint8_t*>(base_) + 1;
        break;
      case 1:
        base_ = std::aligned_alloc(4096, (total_ + 4095) / 4096 * 4096);
        bytes_ = static_cast<uint8_t*>(base_);
        break;
      case 2:
        base_ = ::mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        bytes_ = static_cast<uint8_t*>(base_);
        break;
      default:
        bytes_ = static_cast<uint8_t*>(stack);
    }
    std::memset(bytes_, kPoison, total_);
  }
  Region(const Region&) = delete;
  ~Region() {
    if (kind_ < 2) std::free(base_);
    if (kind_ == 2) ::munmap(base_, total_);
  }

  // Memory from memalign starts with its segment, the others with a guard.
  uint8_t* data() const { return kind_ == 1 ? bytes_ : bytes_ + kGuard; }
  size_t size() const { return size_; }

  // The expected contents are prepared first, then written there or compared.
  void expect_poison() { expected_.assign(total_, kPoison); }
  void expect_pattern(size_t size, uint64_t seed) {
    expect_poison();
    fill_with_pattern(expected_.data() + (data() - bytes_), size, seed);
  }
  void expect_value(size_t offset, Value value, size_t size) {
    expect_poison();
    add_value(offset, value, size);
  }
  // In addition to what is already expected.
  void add_value(size_t offset, Value value, size_t size) {
    std::memcpy(expected_.data() + (data() - bytes_) + offset, &value, size);
  }
  void put() { std::memcpy(bytes_, expected_.data(), total_); }
  void check(const char* side) const {
    if (std::memcmp(bytes_, expected_.data(), total_) == 0) return;
    const auto wrong = std::mismatch(expected_.begin(), expected_.end(), bytes_);
    ADD_FAILURE() << side << ", " << kKindNames[kind_] << ": byte " << wrong.second - data()
                  << " of " << size_ << " is " << static_cast<int>(*wrong.second) << ", not "
                  << static_cast<int>(*wrong.first);
  }

 private:
  size_t kind_, size_, total_;
  void* base_ = nullptr;
  uint8_t* bytes_ = nullptr;
  std::vector<uint8_t> expected_;
};

// One region of each kind, registered.
class Regions {
 public:
  Regions(Endpoint& endpoint, size_t size, uint32_t access, uint32_t token, void* stack)
      : endpoint_(endpoint), token_(token) {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      regions_[kind] = std::make_unique<Region>(kind, size, stack);
      segments_[kind] = endpoint.add(regions_[kind]->data(), size, access, token);
    }
  }
  void unregister() {
    for (urma_target_seg_t* segment : segments_) endpoint_.remove(segment);
  }

  Region& region(size_t kind) { return *regions_[kind]; }
  urma_target_seg_t* segment(size_t kind) { return segments_[kind]; }
  SegmentId id(size_t kind) { return endpoint_.segment_id(segments_[kind], token_); }

 private:
  Endpoint& endpoint_;
  uint32_t token_;
  std::array<std::unique_ptr<Region>, kKinds> regions_;
  Segments segments_;
};

}  // namespace urma_test

#endif  // TEST_CONFORMANCE_REGIONS_H_
