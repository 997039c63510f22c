// SPDX-License-Identifier: MIT
//
// The memory that peers make this process hold: ways, messages that wait for their receives, and
// answers that wait for room.
#ifndef URMA_PROVIDERS_TCP_HELD_BYTES_H_
#define URMA_PROVIDERS_TCP_HELD_BYTES_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace urma::tcp {

// Of one peer; counted in those of all. Any thread. Relaxed, as only sums: nothing follows from
// them. Negative numbers wrap around.
class HeldBytes {
 public:
  void add(uint64_t bytes) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    of_all_.fetch_add(bytes, std::memory_order_relaxed);
  }
  uint64_t get() const { return bytes_.load(std::memory_order_relaxed); }

  // Includes what lost connections have left, until its receivers take it.
  static uint64_t of_all() { return of_all_.load(std::memory_order_relaxed); }

 private:
  static inline std::atomic<uint64_t> of_all_{0};
  std::atomic<uint64_t> bytes_{0};
};

// A part of them, until its end.
class Charge {
 public:
  Charge() = default;
  Charge(HeldBytes* held, uint64_t bytes) : held_(held), bytes_(bytes) { held_->add(bytes_); }
  Charge(Charge&& other) noexcept
      : held_(std::exchange(other.held_, nullptr)), bytes_(other.bytes_) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(held_, other.held_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (held_ != nullptr) held_->add(-bytes_);
  }

 private:
  HeldBytes* held_ = nullptr;
  uint64_t bytes_ = 0;
};

// The peers that are connected may hold so much together, a quarter of the memory that this process
// may have; with what lost connections have left, twice that.
uint64_t memory_for_peers();

// What the control groups of this process allow it, of either version; `groups` is the file that
// lists them. No limit: UINT64_MAX.
uint64_t memory_of_groups(const std::string& groups, const std::string& mounted);

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_HELD_BYTES_H_
