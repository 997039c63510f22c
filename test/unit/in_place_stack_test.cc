// SPDX-License-Identifier: MIT
//
// Buffers on thread stacks, which the C library keeps and reuses.
#include <atomic>
#include <future>
#include <thread>

#include "test/unit/in_place_harness.h"

namespace urma {
namespace {

constexpr uint64_t kPages = 64;
constexpr uint64_t kBytes = kPages * kPage;

// A thread that counts in each page of a buffer on its stack until told to stop.
class Counter {
 public:
  Counter() : thread_([this] { count(); }) { buffer_ = place_.get_future().get(); }
  ~Counter() { stop(); }

  volatile char* buffer() const { return buffer_; }
  uint64_t stop() {
    stop_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
    return wrong_;
  }
  uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }

 private:
  // Relaxed: the end of the thread orders what it leaves.
  void count() {
    alignas(kPage) volatile char buffer[kBytes];
    for (uint64_t at = 0; at < kBytes; at += kPage) buffer[at] = 0;
    place_.set_value(buffer);
    char round = 0;
    while (!stop_.load(std::memory_order_relaxed)) {
      for (uint64_t at = 0; at < kBytes; at += kPage) {
        if (buffer[at] != round) ++wrong_;
        buffer[at] = static_cast<char>(round + 1);
      }
      ++round;
      rounds_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  std::promise<volatile char*> place_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> rounds_{0};
  uint64_t wrong_ = 0;
  volatile char* buffer_ = nullptr;
  std::thread thread_;
};

uint64_t shared_bytes(const std::vector<SharedPart>& parts) {
  uint64_t bytes = 0;
  for (const auto& part : parts) {
    if (part.reason == URMA_EXT_REASON_NONE) bytes += part.len;
  }
  return bytes;
}

TEST(InPlaceStack, AThreadUsesItsStackWhileItIsMoved) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  Counter counter;
  for (int i = 0; i < 50; ++i) {
    const uint64_t before = counter.rounds();
    SharedPages::RangeId range;
    EXPECT_EQ(shared_bytes(shared_parts(table, counter.buffer(), kBytes, &range)), kBytes);
    table.remove(range);
    while (counter.rounds() == before) std::this_thread::yield();
  }
  EXPECT_EQ(counter.stop(), 0u);
}

TEST(InPlaceStack, TheNextThreadUsesASharedStack) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  SharedPages::RangeId range;
  const volatile char* place = nullptr;
  {
    Counter first;
    place = first.buffer();
    ASSERT_EQ(shared_bytes(shared_parts(table, place, kBytes, &range)), kBytes);
    EXPECT_EQ(first.stop(), 0u);
  }
  Counter second;
  if (second.buffer() != place) GTEST_SKIP() << "the C library did not reuse the stack";
  const uint64_t before = second.rounds();
  while (second.rounds() < before + 10) std::this_thread::yield();
  table.remove(range);
  const uint64_t after = second.rounds();
  while (second.rounds() < after + 10) std::this_thread::yield();
  EXPECT_EQ(second.stop(), 0u);
}

}  // namespace
}  // namespace urma
