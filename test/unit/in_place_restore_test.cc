// SPDX-License-Identifier: MIT
//
// Shared memory becomes private again while the program does as it likes.
#include <liburing.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include "test/unit/in_place_harness.h"
#include "urma/base/fd.h"
#include "urma/base/host.h"

namespace urma {
namespace {

constexpr uint64_t kBytes = 6 * kMiB;

bool is_private(const char* at) {
  return smaps_line(at, "VmFlags").find(" sh") == std::string::npos;
}

// A large range is taken back in turns; a caller that cannot wait finishes it.
TEST(InPlaceRestore, RangesTakeTurns) {
  SKIP_UNLESS_IN_PLACE();
  for (const bool finished_at_once : {false, true}) {
    FilledMemory memory(kBytes, 0, 2 * kMiB);
    PageTable table;
    SharedPages::RangeId range;
    ASSERT_EQ(shared_parts(table, memory.get(), kBytes, &range)[0].reason, URMA_EXT_REASON_NONE);
    ASSERT_FALSE(table.remove_some(range, 2 * kMiB));
    EXPECT_TRUE(is_private(memory.get()));
    EXPECT_FALSE(is_private(memory.get() + kBytes - kPage));
    EXPECT_TRUE(table.parts(range).empty());
    if (finished_at_once) {
      table.remove(range);
    } else {
      int turns = 1;
      while (!table.remove_some(range, 2 * kMiB)) ++turns;
      EXPECT_GE(turns, 2);
    }
    EXPECT_TRUE(is_private(memory.get() + kBytes - kPage));
    EXPECT_TRUE(is_filled(memory.get(), kBytes));
    EXPECT_TRUE(table.remove_some(range, 1));
  }
}

TEST(InPlaceRestore, OwnMemoryTakesTurns) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  auto* const memory = static_cast<char*>(table.allocate(kBytes, 0));
  ASSERT_NE(memory, nullptr);
  fill(memory, kBytes);
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory, kBytes, &range);
  ASSERT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
  const PeerMapping former(parts[0]);
  ASSERT_FALSE(table.remove_some(range, 2 * kMiB));
  while (!table.remove_some(range, 2 * kMiB)) {
  }
  EXPECT_TRUE(is_filled(memory, kBytes));
  for (uint64_t at = 0; at < kBytes; at += kPage) former.get()[at] = 0;
  EXPECT_TRUE(is_filled(memory, kBytes));
  EXPECT_TRUE(table.deallocate(memory));
}

// Two threads end the same range: both return once it is done.
TEST(InPlaceRestore, TwoThreadsRestore) {
  SKIP_UNLESS_IN_PLACE();
  PrivateMemory memory(kBytes);
  PageTable table;
  for (int round = 0; round < 5; ++round) {
    fill(memory.get(), kBytes);
    SharedPages::RangeId range;
    shared_parts(table, memory.get(), kBytes, &range);
    std::thread other([&] {
      while (!table.remove_some(range, kMiB)) std::this_thread::yield();
    });
    table.remove(range);
    EXPECT_TRUE(is_private(memory.get()));
    EXPECT_TRUE(is_private(memory.get() + kBytes - kPage));
    EXPECT_TRUE(is_filled(memory.get(), kBytes));
    other.join();
  }
}

struct Fiber {
  PageTable table;
  SharedPages::RangeId range;
  ucontext_t caller;
  ucontext_t own;
};
Fiber* fiber;

// A stack that is being moved, as that of a coroutine.
TEST(InPlaceRestore, TheStackOfTheCallerIsMoved) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "the sanitizers do not support other stacks";
  FilledMemory memory(kBytes);
  Fiber here;
  fiber = &here;
  shared_parts(here.table, memory.get(), kBytes, &here.range);
  ASSERT_EQ(::getcontext(&here.own), 0);
  here.own.uc_stack.ss_sp = memory.get() + 2 * kMiB;
  here.own.uc_stack.ss_size = 2 * kMiB;
  here.own.uc_link = &here.caller;
  ::makecontext(
      &here.own, [] { fiber->table.remove(fiber->range); }, 0);
  ASSERT_EQ(::swapcontext(&here.caller, &here.own), 0);
  EXPECT_TRUE(is_filled(memory.get(), 2 * kMiB));
  EXPECT_TRUE(is_private(memory.get()));
}

volatile char* touched;
volatile uint64_t signals;

// A handler in the very thread that waits for the pages.
TEST(InPlaceRestore, SignalHandlersTouchThePages) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "the sanitizers delay signals";
  FilledMemory memory(kBytes);
  touched = memory.get();
  struct sigaction action = {};
  struct sigaction before;
  action.sa_handler = [](int) {
    signals = signals + 1;
    volatile char* const byte = touched + signals * 7 * kPage % kBytes + 1;
    *byte = *byte + 1;
  };
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> stop{false};
  const pthread_t self = ::pthread_self();
  std::thread sender([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      ::pthread_kill(self, SIGUSR1);
      ::usleep(100);
    }
  });
  PageTable table;
  for (int round = 0; round < 20; ++round) {
    SharedPages::RangeId range;
    // Threads of the library share, and block signals.
    std::thread([&] {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
      shared_parts(table, memory.get(), kBytes, &range);
    }).join();
    table.remove(range);
    ASSERT_TRUE(is_filled(memory.get(), kBytes));
  }
  stop.store(true, std::memory_order_relaxed);
  sender.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_GT(signals, 0u);
}

// Another thread splits the mapping while pages are copied into it.
TEST(InPlaceRestore, AMappingSplitByAnotherThread) {
  SKIP_UNLESS_IN_PLACE();
  for (const uint32_t skip : {0U, 3U}) {
    PageTable table;
    FilledMemory memory(kBytes, 0, 2 * kMiB);
    SharedPages::RangeId range;
    // Every other page, for a large number of copies.
    for (uint64_t at = 0; at < kBytes; at += 8 * kPage) {
      ::madvise(memory.get() + at, kPage, MADV_DONTNEED);
    }
    const auto parts = shared_parts(table, memory.get(), kBytes, &range);
    PeerMapping peer(parts[0]);
    table.fail_at({FreezeStep::kCopy, ENOENT, skip});
    table.remove(range);
    for (uint64_t at = 0; at < kBytes; at += 8 * kPage) memory.get()[at] = 1 + (at / kPage) % 127;
    EXPECT_TRUE(is_filled(memory.get(), kBytes)) << skip;
    EXPECT_TRUE(is_private(memory.get()));
  }
}

// Between reading the mappings and moving them.
TEST(InPlaceRestore, AChangedMappingIsReadAgain) {
  SKIP_UNLESS_IN_PLACE();
  std::atomic<bool> stop{false};
  PageTable table;
  PrivateMemory memory(kBytes, 0, 2 * kMiB);
  std::thread divider([&] {
    for (uint64_t page = 0; !stop.load(std::memory_order_relaxed); page += 37) {
      char* const at = memory.get() + page % (kBytes / kPage) * kPage;
      ::madvise(at, kPage, MADV_DONTDUMP);
      ::madvise(at, kPage, MADV_DODUMP);
    }
  });
  for (int round = 0; round < 10; ++round) {
    fill(memory.get(), kBytes);
    SharedPages::RangeId range;
    shared_parts(table, memory.get(), kBytes, &range);
    EXPECT_TRUE(is_filled(memory.get(), kBytes)) << round;
    table.remove(range);
    EXPECT_TRUE(is_filled(memory.get(), kBytes)) << round;
  }
  stop.store(true, std::memory_order_relaxed);
  divider.join();
}

// A failed switch whose pages do not return unchanged.
TEST(InPlaceRestore, PagesComeBackFromAFailedSwitch) {
  SKIP_UNLESS_IN_PLACE();
  for (const int error : {EINVAL, EBUSY, EFAULT}) {
    for (const uint32_t calls : {1U, 2U, 5U, 40U, 200U}) {
      PageTable table;
      FilledMemory memory(kBytes, 0, 2 * kMiB);
      table.fail_at({FreezeStep::kMap, EIO, 0, error, calls});
      SharedPages::RangeId range;
      auto parts = shared_parts(table, memory.get(), kBytes, &range);
      EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_KERNEL);
      ASSERT_TRUE(is_filled(memory.get(), kBytes)) << error << " " << calls;
      table.remove(range);
      table.fail_at({});
      parts = shared_parts(table, memory.get(), kBytes, &range);
      EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
      EXPECT_EQ(parts.size(), 1u);
      table.remove(range);
      ASSERT_TRUE(is_filled(memory.get(), kBytes)) << error << " " << calls;
    }
  }
}

// Memory that is mapped later is filled at once.
TEST(InPlaceRestore, WhileFutureMemoryIsLocked) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "the sanitizers make mlock do nothing";
  PageTable table;
  FilledMemory memory(kBytes);
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory.get(), kBytes, &range);
  PeerMapping peer(parts[0]);
  if (::mlockall(MCL_FUTURE) != 0) GTEST_SKIP() << "mlockall failed; raise RLIMIT_MEMLOCK";
  table.remove(range);
  ::munlockall();
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
  EXPECT_TRUE(is_private(memory.get()));
  memory.get()[5] = 77;
  EXPECT_NE(peer.get()[5], 77);
}

TEST(InPlaceRestore, AfterAllMemoryWasLocked) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "the sanitizers make mlock do nothing";
  PageTable table;
  FilledMemory memory(kBytes);
  SharedPages::RangeId range;
  shared_parts(table, memory.get(), kBytes, &range);
  table.remove(range);
  if (::mlockall(MCL_CURRENT) != 0) GTEST_SKIP() << "mlockall failed; raise RLIMIT_MEMLOCK";
  const auto parts = shared_parts(table, memory.get(), kBytes, &range);
  EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
  ::munlockall();
  table.remove(range);
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
}

TEST(InPlaceRestore, MemoryThatCannotBeRead) {
  SKIP_UNLESS_IN_PLACE();
  for (const auto fails : {false, true}) {
    PageTable table;
    FilledMemory memory(kBytes);
    SharedPages::RangeId range;
    const auto parts = shared_parts(table, memory.get(), kBytes, &range);
    PeerMapping peer(parts[0]);
    ASSERT_EQ(::mprotect(memory.get(), kBytes, PROT_NONE), 0);
    if (fails) table.fail_at({FreezeStep::kSwap, ENOSPC, 0});
    table.remove(range);
    const std::string area = areas(address(memory.get()), address(memory.get()) + 1)[0];
    EXPECT_EQ(area.substr(area.find(' ') + 1, 3), "---");
    ASSERT_EQ(::mprotect(memory.get(), kBytes, PROT_READ | PROT_WRITE), 0);
    EXPECT_TRUE(is_filled(memory.get(), kBytes));
    memory.get()[5] = 77;
    EXPECT_EQ(peer.get()[5] == 77, fails);
  }
}

bool is_watched(const char* at) {
  return smaps_line(at, "VmFlags").find(" um") != std::string::npos;
}

void watch(const UserFault& watcher, const char* at, uint64_t bytes) {
  uffdio_register request = {};
  request.range = {address(at), bytes};
  request.mode = UFFDIO_REGISTER_MODE_MISSING;
  ASSERT_EQ(::ioctl(watcher.fd(), UFFDIO_REGISTER, &request), 0);
}

// The program began to watch pages, or their neighbours, after they were shared.
TEST(InPlaceRestore, AUserfaultfdOfTheProgramStays) {
  SKIP_UNLESS_IN_PLACE();
  FilledMemory memory(kBytes, 0, 2 * kMiB);
  PageTable table;
  SharedPages::RangeId range;
  shared_parts(table, memory.get() + 2 * kMiB, 2 * kMiB, &range);
  UserFault watcher(0);
  ASSERT_GE(watcher.fd(), 0);
  watch(watcher, memory.get() + 4 * kMiB, 2 * kMiB);
  table.remove(range);
  EXPECT_TRUE(is_watched(memory.get() + 4 * kMiB));
  EXPECT_TRUE(is_private(memory.get() + 2 * kMiB));
  shared_parts(table, memory.get(), 2 * kMiB, &range);
  watch(watcher, memory.get(), 2 * kMiB);
  table.remove(range);
  EXPECT_TRUE(is_watched(memory.get()));
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
}

TEST(InPlaceRestore, AUserfaultfdOnAllocatedMemoryStays) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  auto* const memory = static_cast<char*>(table.allocate(kBytes, 0));
  fill(memory, kBytes);
  SharedPages::RangeId range;
  shared_parts(table, memory, kBytes, &range);
  UserFault watcher(0);
  ASSERT_GE(watcher.fd(), 0);
  watch(watcher, memory, kBytes);
  table.remove(range);
  EXPECT_TRUE(is_watched(memory));
  EXPECT_TRUE(is_filled(memory, kBytes));
  EXPECT_TRUE(table.deallocate(memory));
}

// A device would write to other memory than the program reads.
TEST(InPlaceRestore, PagesStaySharedWhileRegisteredWithTheKernel) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  FilledMemory memory(kBytes);
  SharedPages::RangeId range;
  shared_parts(table, memory.get(), kBytes, &range);
  io_uring ring;
  if (const int error = ::io_uring_queue_init(8, &ring, 0)) {
    GTEST_SKIP() << "no io_uring: " << std::strerror(-error);
  }
  const iovec registered = {memory.get(), 16 * kPage};
  const int refused = ::io_uring_register_buffers(&ring, &registered, 1);
  if (refused != 0) {
    ::io_uring_queue_exit(&ring);
    GTEST_SKIP() << "io_uring registers no buffers: " << std::strerror(-refused);
  }
  table.remove(range);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "data", 4), 4);
  io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring);
  ::io_uring_prep_read_fixed(sqe, ends[0], memory.get() + 1, 4, 0, 0);
  ASSERT_EQ(::io_uring_submit(&ring), 1);
  io_uring_cqe* cqe = nullptr;
  ASSERT_EQ(::io_uring_wait_cqe(&ring, &cqe), 0);
  EXPECT_EQ(cqe->res, 4);
  EXPECT_EQ(std::memcmp(memory.get() + 1, "data", 4), 0);
  EXPECT_EQ(::io_uring_unregister_buffers(&ring), 0);
  ::close(ends[0]);
  ::close(ends[1]);
  // A ring alone holds nothing.
  const auto parts = shared_parts(table, memory.get(), kBytes, &range);
  EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
  table.remove(range);
  EXPECT_TRUE(is_private(memory.get()));
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
  ::io_uring_queue_exit(&ring);
}

// An importer that keeps its mapping keeps no memory.
TEST(InPlaceRestore, TheOldCopyIsFreed) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  FilledMemory memory(kBytes);
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory.get(), kBytes, &range);
  PeerMapping peer(parts[0]);
  const Fd descriptor(::dup(parts[0].fd));
  table.remove(range);
  struct stat status;
  ASSERT_EQ(::fstat(descriptor.get(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0);
  EXPECT_EQ(peer.get()[0], 0);
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
}

TEST(InPlaceRestore, UntouchedMemoryIsNotFilledWhileFutureMemoryIsLocked) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "the sanitizers make mlock do nothing";
  PageTable table;
  constexpr uint64_t kMuch = 256 * kMiB;
  PrivateMemory memory(kMuch, MAP_NORESERVE, 2 * kMiB);
  memory.get()[0] = 1;
  if (::mlockall(MCL_FUTURE) != 0) GTEST_SKIP() << "mlockall failed; raise RLIMIT_MEMLOCK";
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory.get(), kMuch, &range);
  ::munlockall();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
  EXPECT_EQ(parts[1].reason, URMA_EXT_REASON_LIMIT);
  struct stat status;
  ASSERT_EQ(::fstat(parts[0].fd, &status), 0);
  EXPECT_LE(static_cast<uint64_t>(status.st_blocks) * 512, 2 * kMiB);
  table.remove(range);
  EXPECT_EQ(memory.get()[0], 1);
}

class LogKeeper : public Logger {
 public:
  LogKeeper() {
    host_.logger = this;
    set_host(&host_);
  }
  virtual ~LogKeeper() { set_host(nullptr); }
  bool enabled(urma_vlog_level_t) const override { return true; }
  void write(urma_vlog_level_t, const LogSite&, std::string_view message) override {
    said_ += message;
  }
  const std::string& said() const { return said_; }

 private:
  urma_host host_ = {};
  std::string said_;
};

// There is nothing after the end of shared memory; an access would raise SIGBUS.
TEST(InPlaceRestore, SharedMemoryCannotBeGrown) {
  SKIP_UNLESS_IN_PLACE();
  for (const uint64_t bytes : {2 * kPage, 16 * kPage, 3 * kMiB}) {
    PageTable table;
    FilledMemory memory(bytes);
    const auto end = address(memory.get()) + bytes;
    SharedPages::RangeId range;
    shared_parts(table, memory.get(), bytes, &range);
    for (const uint64_t from : {uint64_t{0}, bytes - 2 * kPage}) {
      EXPECT_EQ(::mremap(memory.get() + from, bytes - from, 2 * bytes, MREMAP_MAYMOVE), MAP_FAILED)
          << bytes << " bytes, from " << from;
      EXPECT_EQ(errno, EFAULT);
    }
    EXPECT_TRUE(is_filled(memory.get(), bytes));
    table.remove(range);
    EXPECT_EQ(areas(address(memory.get()), end).size(), 1u);
    EXPECT_TRUE(is_filled(memory.get(), bytes));
    auto* const grown =
        static_cast<char*>(::mremap(memory.get(), bytes, 2 * bytes, MREMAP_MAYMOVE));
    ASSERT_NE(static_cast<void*>(grown), MAP_FAILED);
    EXPECT_TRUE(is_filled(grown, bytes));
    grown[2 * bytes - 1] = 1;
    ::munmap(grown, 2 * bytes);
  }
}

TEST(InPlaceRestore, SharedMemoryCannotBeGrownWhileOneOfTwoRangesStands) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  FilledMemory memory(kBytes);
  SharedPages::RangeId first;
  SharedPages::RangeId second;
  shared_parts(table, memory.get(), kBytes, &first);
  shared_parts(table, memory.get() + kMiB, kBytes - kMiB, &second);
  for (const auto range : {first, second}) {
    EXPECT_EQ(::mremap(memory.get() + kMiB, kBytes - kMiB, 2 * kBytes, MREMAP_MAYMOVE), MAP_FAILED);
    table.remove(range);
  }
  EXPECT_EQ(areas(address(memory.get()), address(memory.get()) + kBytes).size(), 1u);
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
}

// Another thread unmaps memory beside a chunk, and maps a file there, while it is frozen too.
TEST(InPlaceRestore, AMappedFileKeepsNothingFrozen) {
  SKIP_UNLESS_IN_PLACE();
  PrivateMemory memory(2 * kMiB);
  const UserFault fault(0);
  FreezeCalls calls(fault.fd(), -1, {});
  ASSERT_EQ(calls.freeze_absent(FreezeStep::kNone, address(memory.get()), 2 * kMiB), 0);
  const Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  ASSERT_NE(::mmap(memory.get() + 37 * kPage, 3 * kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED,
                   file.get(), 0),
            MAP_FAILED);
  ASSERT_NE(smaps_line(memory.get(), "VmFlags").find(" um"), std::string::npos);
  calls.thaw(address(memory.get()), 2 * kMiB);
  for (const uint64_t page : {0, 36, 40, 511}) {
    EXPECT_EQ(smaps_line(memory.get() + page * kPage, "VmFlags").find(" um"), std::string::npos);
  }
}

// Pages that the program has moved elsewhere stay shared, which is reported. They are moved area by
// area: Linux 6.12 does not move several with one call, and the last page is a separate one.
TEST(InPlaceRestore, PagesThatTheProgramHasMovedAreReported) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  PrivateMemory memory(kBytes);
  PrivateMemory elsewhere(kBytes);
  fill(memory.get(), kBytes);
  SharedPages::RangeId range;
  shared_parts(table, memory.get(), kBytes, &range);
  const uint64_t start = address(memory.get()), end = start + kBytes;
  for (const auto& line : areas(start, end)) {
    const uint64_t from = std::max<uint64_t>(std::stoull(line, nullptr, 16), start);
    const uint64_t to =
        std::min<uint64_t>(std::stoull(line.substr(line.find('-') + 1), nullptr, 16), end);
    ASSERT_NE(::mremap(memory.get() + (from - start), to - from, to - from,
                       MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere.get() + (from - start)),
              MAP_FAILED);
  }
  LogKeeper log;
  table.remove(range);
  EXPECT_NE(log.said().find("mremap"), std::string::npos);
  EXPECT_TRUE(is_filled(elsewhere.get(), kBytes));
}

}  // namespace
}  // namespace urma
