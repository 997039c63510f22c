// SPDX-License-Identifier: MIT
//
// The memory that peers make this process hold: ways, and messages that wait for their receives.
#ifndef URMA_PROVIDERS_TCP_HELD_BYTES_H_
#define URMA_PROVIDERS_TCP_HELD_BYTES_H_

#include <atomic>
#include <cstdint>

namespace urma::tcp {

// Of one way; counted in those of all.
class HeldBytes {
 public:
  HeldBytes() { add(kWay); }
  ~HeldBytes() { add(-bytes()); }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

  void add_message(uint64_t payload) { add(payload + kMessage); }
  void remove_message(uint64_t payload) { add(-(payload + kMessage)); }
  void remove_messages() { add(kWay - bytes()); }
  // Any thread, as a hint.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  static uint64_t of_all_ways() { return of_all_.load(std::memory_order_relaxed); }

 private:
  // What they take beside the payload, about.
  static constexpr uint64_t kWay = 2048;
  static constexpr uint64_t kMessage = 128;

  // Relaxed: only sums. Negative numbers wrap around.
  void add(uint64_t bytes) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    of_all_.fetch_add(bytes, std::memory_order_relaxed);
  }

  static inline std::atomic<uint64_t> of_all_{0};
  std::atomic<uint64_t> bytes_{0};
};

// What they may hold in all, before each connection is limited to an equal share of it: a quarter
// of the memory that this process may have.
uint64_t memory_for_peers();

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_HELD_BYTES_H_
