// SPDX-License-Identifier: MIT
//
// Threads that use memory while it is moved: no access is lost.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>

#include "test/unit/in_place_harness.h"
#include "urma/base/fd.h"

namespace urma {
namespace {

constexpr uint64_t kBytes = 8 * kMiB;
constexpr uint64_t kPages = kBytes / kPage;
// read(2) fills the last pages of the buffer.
constexpr uint64_t kReadPages = 16;
constexpr uint64_t kCounted = kPages - kReadPages;

std::atomic_ref<uint64_t> counter(char* data, uint64_t page, uint64_t writer) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(data + page * kPage + 64 * writer));
}

// Relaxed, here and below: the counters order nothing.
uint64_t load(std::atomic_ref<uint64_t> counter) { return counter.load(std::memory_order_relaxed); }

struct Losses {
  uint64_t writes = 0;
  uint64_t lost = 0;
  uint64_t backwards = 0;
  uint64_t failed_reads = 0;
  uint64_t reads = 0;
};

// Runs `moves` beside two writers, a reader, and a thread that lets the kernel write.
class Users {
 public:
  explicit Users(char* data) : data_(data) {
    for (uint64_t writer = 0; writer < 2; ++writer) {
      threads_.emplace_back([this, writer] { write(writer); });
    }
    threads_.emplace_back([this] { read_counters(); });
    threads_.emplace_back([this] { read_file(); });
    while (begun_.load(std::memory_order_relaxed) < 3) std::this_thread::yield();
  }

  // Returns once the writers have written since the call.
  void wait_for_writes() const {
    // Each of the two may once report earlier writes.
    const uint64_t enough = reports_.load(std::memory_order_relaxed) + 3;
    while (reports_.load(std::memory_order_relaxed) < enough) std::this_thread::yield();
  }

  Losses stop() {
    stop_.store(true, std::memory_order_relaxed);
    for (auto& thread : threads_) thread.join();
    return losses_;
  }

 private:
  bool stopped() const { return stop_.load(std::memory_order_relaxed); }

  // Each counter has one writer, which knows its expected value.
  void write(uint64_t writer) {
    std::vector<uint64_t> expected(kCounted);
    for (uint64_t page = 0; page < kCounted; ++page)
      expected[page] = load(counter(data_, page, writer));
    uint64_t writes = 0;
    uint64_t lost = 0;
    for (uint64_t i = writer; !stopped(); i = (i * 5 + 3) % (kCounted * 8)) {
      const uint64_t page = i % kCounted;
      const auto at = counter(data_, page, writer);
      const uint64_t value = load(at);
      if (value != expected[page]) ++lost;
      expected[page] = value + 1;
      at.store(value + 1, std::memory_order_relaxed);
      if (++writes == 1) begun_.fetch_add(1, std::memory_order_relaxed);
      if (writes % kReport == 0) reports_.fetch_add(1, std::memory_order_relaxed);
    }
    for (uint64_t page = 0; page < kCounted; ++page) {
      if (load(counter(data_, page, writer)) != expected[page]) ++lost;
    }
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    losses_.writes += writes;
    losses_.lost += lost;
  }

  void read_counters() {
    std::vector<uint64_t> last(kCounted);
    while (!stopped()) {
      for (uint64_t page = 0; page < kCounted && !stopped(); ++page) {
        const uint64_t value = load(counter(data_, page, 0));
        if (value < last[page]) ++losses_.backwards;
        last[page] = value;
      }
    }
  }

  void read_file() {
    const Fd zeros(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
    char* const at = data_ + kCounted * kPage;
    while (!stopped()) {
      if (::read(zeros.get(), at, kReadPages * kPage) != static_cast<ssize_t>(kReadPages * kPage)) {
        ++losses_.failed_reads;
      }
      if (++losses_.reads == 1) begun_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  char* const data_;
  static constexpr uint64_t kReport = 64;
  std::atomic<uint64_t> reports_{0};
  std::atomic<bool> stop_{false};
  std::atomic<int> begun_{0};  // writers, and the thread that reads files
  Losses losses_;
  std::vector<std::thread> threads_;
};

void share_and_restore(PageTable& table, char* data, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    SharedPages::RangeId range;
    const auto parts = shared_parts(table, data, kBytes, &range);
    for (const auto& part : parts) ASSERT_EQ(part.reason, URMA_EXT_REASON_NONE);
    table.remove(range);
  }
}

void expect_nothing_lost(const Losses& losses) {
  EXPECT_GT(losses.writes, 0u);
  EXPECT_GT(losses.reads, 0u);
  EXPECT_EQ(losses.lost, 0u) << "of " << losses.writes;
  EXPECT_EQ(losses.backwards, 0u);
  EXPECT_EQ(losses.failed_reads, 0u) << "of " << losses.reads;
}

TEST(InPlaceStress, NoAccessIsLost) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  FilledMemory memory(kBytes);
  Users users(memory.get());
  share_and_restore(table, memory.get(), 12);
  expect_nothing_lost(users.stop());
}

// Untouched pages are first touched while they are moved.
TEST(InPlaceStress, NoAccessToNewPagesIsLost) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  for (int round = 0; round < 4; ++round) {
    PrivateMemory memory(kBytes);
    Users users(memory.get());
    share_and_restore(table, memory.get(), 2);
    expect_nothing_lost(users.stop());
  }
}

// A child that does not run the fork handlers has every page too, for a moment.
TEST(InPlaceStress, NoAccessIsLostWhileTheProgramForks) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "the sanitizers do not support a raw fork";
  PageTable table;
  FilledMemory memory(kBytes);
  std::atomic<bool> stop{false};
  std::atomic<int> forks{0};
  std::thread forker([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
      if (child == 0) ::syscall(SYS_exit_group, 0);
      if (child > 0) ::waitpid(child, nullptr, 0);
      forks.fetch_add(1, std::memory_order_relaxed);
    }
  });
  Users users(memory.get());
  for (int round = 0; round < 6; ++round) {
    SharedPages::RangeId range;
    shared_parts(table, memory.get(), kBytes, &range);
    table.remove(range);
  }
  const auto losses = users.stop();
  stop.store(true, std::memory_order_relaxed);
  forker.join();
  expect_nothing_lost(losses);
  EXPECT_GT(forks.load(), 0);
}

// The same users, and a switch that freezes nothing: the test must be able to fail.
TEST(InPlaceStress, WithoutTheFreezeWritesAreLost) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers report the race that loses the writes";
  FilledMemory memory(kBytes);
  uint64_t lost = 0;
  for (int attempt = 0; attempt < 20 && lost == 0; ++attempt) {
    Users users(memory.get());
    const Fd file(::memfd_create("control", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(file.get(), kBytes), 0);
    ASSERT_EQ(::pwrite(file.get(), memory.get(), kBytes, 0), static_cast<ssize_t>(kBytes));
    users.wait_for_writes();
    ASSERT_NE(
        ::mmap(memory.get(), kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0),
        MAP_FAILED);
    const auto losses = users.stop();
    lost += losses.lost + losses.backwards;
  }
  EXPECT_GT(lost, 0u);
}

}  // namespace
}  // namespace urma
