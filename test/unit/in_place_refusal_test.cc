// SPDX-License-Identifier: MIT
//
// Memory that is not moved, the reported reasons, and that it is unchanged.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>

#include "test/unit/in_place_harness.h"
#include "urma/base/error.h"
#include "urma/base/fd.h"

namespace urma {
namespace {

constexpr uint64_t kBytes = 6 * kMiB;

uint64_t bytes_with(const std::vector<SharedPart>& parts, urma_ext_reason_t reason) {
  uint64_t bytes = 0;
  for (const auto& part : parts) {
    if (part.reason == reason) bytes += part.len;
  }
  return bytes;
}

// The third page is special: only it is not shared, or its chunk with it.
void expect_refused(const char* data, urma_ext_reason_t reason, uint64_t refused = kPage) {
  PageTable table;
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, data, kBytes, &range);
  EXPECT_EQ(bytes_with(parts, reason), refused);
  EXPECT_EQ(bytes_with(parts, URMA_EXT_REASON_NONE), kBytes - refused)
      << "refused for " << reason << "; the last part for " << parts.back().reason;
  table.remove(range);
}

TEST(InPlaceRefusal, UnsupportedMappings) {
  SKIP_UNLESS_IN_PLACE();
  PrivateMemory memory(kBytes);
  char* const third = memory.get() + 2 * kPage;
  const auto over = [&](int protection, int flags, int fd) {
    EXPECT_EQ(::mmap(third, kPage, protection, flags | MAP_FIXED, fd, 0), third);
  };
  fill(memory.get(), kBytes);
  ASSERT_EQ(::mprotect(third, kPage, PROT_NONE), 0);
  expect_refused(memory.get(), URMA_EXT_REASON_PROTECTED);
  ASSERT_EQ(::mprotect(third, kPage, PROT_READ), 0);
  expect_refused(memory.get(), URMA_EXT_REASON_PROTECTED);
  ASSERT_EQ(::mprotect(third, kPage, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
  expect_refused(memory.get(), URMA_EXT_REASON_PROTECTED);
  ASSERT_EQ(::mprotect(third, kPage, PROT_READ | PROT_WRITE), 0);
  ASSERT_EQ(::madvise(third, kPage, MADV_WIPEONFORK), 0);
  expect_refused(memory.get(), URMA_EXT_REASON_WIPED);
  ASSERT_EQ(::madvise(third, kPage, MADV_KEEPONFORK), 0);
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
  over(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
  expect_refused(memory.get(), URMA_EXT_REASON_SHARED);
  const Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  over(PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get());
  expect_refused(memory.get(), URMA_EXT_REASON_FILE);
  ::munmap(third, kPage);
  expect_refused(memory.get(), URMA_EXT_REASON_UNMAPPED);
}

TEST(InPlaceRefusal, SealedMemory) {
  SKIP_UNLESS_IN_PLACE();
  FilledMemory memory(kBytes, 0, 2 * kMiB);
  constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL, Linux 6.13
  if (::madvise(memory.get() + 2 * kPage, kPage, kGuardInstall) == 0) {
    expect_refused(memory.get(), URMA_EXT_REASON_SEALED, 2 * kMiB);
    constexpr int kGuardRemove = 103;
    ASSERT_EQ(::madvise(memory.get() + 2 * kPage, kPage, kGuardRemove), 0);
    memory.get()[2 * kPage] = 3;
    EXPECT_TRUE(is_filled(memory.get(), kBytes));
  }
  // Can never be unmapped again.
  constexpr long kMseal = 462;  // Linux 6.10
  static auto* sealed = new PrivateMemory(kBytes);
  fill(sealed->get(), kBytes);
  if (::syscall(kMseal, sealed->get() + 2 * kPage, kPage, 0) != 0) {
    delete sealed;
    GTEST_SKIP() << "no mseal before Linux 6.10";
  }
  PageTable table;
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, sealed->get(), kBytes, &range);
  EXPECT_GE(bytes_with(parts, URMA_EXT_REASON_SEALED), kPage);
  EXPECT_GE(bytes_with(parts, URMA_EXT_REASON_NONE), 2 * kMiB);
  table.remove(range);
  EXPECT_TRUE(is_filled(sealed->get(), kBytes));
}

TEST(InPlaceRefusal, MemoryThatTheProgramWatches) {
  SKIP_UNLESS_IN_PLACE();
  FilledMemory memory(kBytes);
  UserFault watcher(0);
  ASSERT_GE(watcher.fd(), 0);
  uffdio_register request = {};
  request.range = {address(memory.get()) + 2 * kPage, kPage};
  request.mode = UFFDIO_REGISTER_MODE_MISSING;
  ASSERT_EQ(::ioctl(watcher.fd(), UFFDIO_REGISTER, &request), 0);
  expect_refused(memory.get(), URMA_EXT_REASON_WATCHED);
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
  EXPECT_NE(smaps_line(memory.get() + 2 * kPage, "VmFlags").find(" um"), std::string::npos);
}

TEST(InPlaceRefusal, Stacks) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  volatile char buffer[16 * kPage];
  for (uint64_t at = 0; at < sizeof buffer; at += kPage) buffer[at] = 1;
  SharedPages::RangeId range;
  auto parts = shared_parts(table, buffer, sizeof buffer, &range);
  if (::gettid() == ::getpid() && !kSanitized) {
    EXPECT_EQ(bytes_with(parts, URMA_EXT_REASON_STACK), 15 * kPage);
  }
  table.remove(range);
  // A thread that moves pages does not move its own stack, but moves those of others.
  std::thread([&] {
    volatile char own[16 * kPage];
    own[0] = 1;
    parts = shared_parts(table, own, sizeof own, &range);
    EXPECT_EQ(bytes_with(parts, URMA_EXT_REASON_STACK), 15 * kPage);
    table.remove(range);
    EXPECT_EQ(own[0], 1);
  }).join();
}

TEST(InPlaceRefusal, SwitchedOff) {
  PageTable table;
  table.set_in_place(false);
  PrivateMemory memory(kBytes);
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory.get(), kBytes, &range);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_OFF);
  table.remove(range);
}

TEST(InPlaceRefusal, LessThanAPage) {
  PageTable table;
  PrivateMemory memory(kBytes);
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory.get() + kPage - 50, 100, &range);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_RAGGED);
  EXPECT_EQ(parts[0].len, 100u);
  table.remove(range);
}

class Limit {
 public:
  Limit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    ::getrlimit(resource, &before_);
    const rlimit limit = {value, before_.rlim_max};
    ::setrlimit(resource, &limit);
  }
  ~Limit() { ::setrlimit(resource_, &before_); }

 private:
  const __rlimit_resource resource_;
  rlimit before_;
};

TEST(InPlaceRefusal, LimitsOfTheProcess) {
  SKIP_UNLESS_IN_PLACE();
  FilledMemory memory(kBytes);
  {
    const Limit limit(RLIMIT_FSIZE, kMiB);
    expect_refused(memory.get(), URMA_EXT_REASON_LIMIT, kBytes);
  }
  {
    const int next = ::dup(0);
    ::close(next);
    const Limit limit(RLIMIT_NOFILE, static_cast<rlim_t>(next) + 8);
    std::vector<Fd> held;
    for (int i = 0; i < 4; ++i) held.emplace_back(::dup(0));
    expect_refused(memory.get(), URMA_EXT_REASON_LIMIT, kBytes);
  }
  expect_refused(memory.get(), URMA_EXT_REASON_LIMIT, 0);
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
}

TEST(InPlaceRefusal, MappingsAreLeftToTheProgram) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "the sanitizers keep a record of each mapping";
  uint64_t limit = 65530;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  if (limit > 100000) GTEST_SKIP() << "vm.max_map_count is " << limit;
  const uint64_t pages = limit - 600;
  auto many = std::make_unique<PrivateMemory>(pages * kPage, MAP_NORESERVE);
  for (uint64_t page = 0; page < pages; page += 2) {
    ::mprotect(many->get() + page * kPage, kPage, PROT_READ);
  }
  PrivateMemory memory(kBytes);
  expect_refused(memory.get(), URMA_EXT_REASON_LIMIT, kBytes);
}

// A running forked child has the pages too: the owner gets its own.
TEST(InPlaceRefusal, PagesOfALivingChildAreMoved) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "the sanitizers do not support a raw fork";
  FilledMemory memory(kBytes);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    char byte;
    ::syscall(SYS_close, pipe[1]);
    ::syscall(SYS_read, pipe[0], &byte, 1);
    // The child has the pages as they were at the fork.
    ::syscall(SYS_exit_group, memory.get()[0] == 1 ? 0 : 1);
  }
  ::close(pipe[0]);
  expect_refused(memory.get(), URMA_EXT_REASON_PINNED, 0);
  memory.get()[0] = 100;
  ::close(pipe[1]);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  memory.get()[0] = 1;
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
}

// Every step of a switch can fail; then nothing has changed.
TEST(InPlaceRefusal, AFailedStepIsUndone) {
  SKIP_UNLESS_IN_PLACE();
  for (const auto step : {FreezeStep::kRegister, FreezeStep::kRegisterScratch, FreezeStep::kMove,
                          FreezeStep::kWrite, FreezeStep::kMap}) {
    for (const uint32_t skip : {0U, 1U}) {
      PageTable table;
      FilledMemory memory(kBytes, 0, 2 * kMiB);
      // Every other page, for a large number of writes.
      for (uint64_t at = 0; at < kBytes; at += 2 * kPage) {
        ::madvise(memory.get() + at, kPage, MADV_DONTNEED);
      }
      table.fail_at({step, EIO, skip});
      SharedPages::RangeId range;
      const auto parts = shared_parts(table, memory.get(), kBytes, &range);
      if (skip == 0) {
        EXPECT_EQ(bytes_with(parts, URMA_EXT_REASON_KERNEL), kBytes) << int(step);
      }
      table.fail_at({});
      table.remove(range);
      for (uint64_t at = 0; at < kBytes; at += kPage) {
        const uint64_t page = at / kPage;
        ASSERT_EQ(memory.get()[at], page % 2 == 0 ? 0 : static_cast<char>(1 + page % 127));
        memory.get()[at] = 1;
      }
    }
  }
}

// A failed step on the way back leaves pages shared; nothing is lost, and a later try succeeds.
TEST(InPlaceRefusal, AFailedStepOfUnsharingIsUndone) {
  SKIP_UNLESS_IN_PLACE();
  for (const auto step : {FreezeStep::kPark, FreezeStep::kSpare, FreezeStep::kRegister,
                          FreezeStep::kSwap, FreezeStep::kCopy}) {
    for (const auto& audience : {kWriters, kReaders}) {
      PageTable table;
      FilledMemory memory(kBytes);
      SharedPages::RangeId range;
      shared_parts(table, memory.get(), kBytes, &range, audience);
      table.fail_at({step, EINVAL, 0});
      table.remove(range);
      EXPECT_TRUE(is_filled(memory.get(), kBytes)) << int(step);
      for (uint64_t at = 0; at < kBytes; at += kPage) memory.get()[at + 1] = 5;
      EXPECT_TRUE(is_filled(memory.get(), kBytes));
      table.fail_at({});
      shared_parts(table, memory.get(), kBytes, &range, audience);
      table.remove(range);
      EXPECT_TRUE(is_filled(memory.get(), kBytes)) << int(step);
      EXPECT_EQ(areas(address(memory.get()), address(memory.get()) + kBytes).size(), 1u);
    }
  }
}

TEST(InPlaceRefusal, InvalidRange) {
  PageTable table;
  for (const uint64_t va : {uint64_t{0}, uint64_t{kPage}, UINT64_MAX - kPage, UINT64_MAX}) {
    for (const uint64_t len : {uint64_t{0}, UINT64_MAX - kPage + 1, UINT64_MAX}) {
      EXPECT_THROW(table.add(va, len, kWriters), Error) << va << " " << len;
    }
  }
  EXPECT_THROW(table.add(UINT64_MAX - kPage, kPage, kWriters), Error);
}

// With such a descriptor, a process without the right could write.
TEST(InPlaceRefusal, UnsealableMemoryIsNotHandedOut) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  FilledMemory memory(kBytes);
  const auto range = table.add(address(memory.get()), kBytes, kReaders);
  ASSERT_FALSE(table.share(range, 1));
  const auto first = table.parts(range);
  ASSERT_GE(first[0].fd, 0);
  ASSERT_EQ(::fcntl(first[0].fd, F_ADD_SEALS, F_SEAL_SEAL), 0);
  share_all(table, range);
  EXPECT_EQ(bytes_with(table.parts(range), URMA_EXT_REASON_KERNEL), kBytes);
  for (const auto& part : table.parts(range)) EXPECT_EQ(part.fd, -1);
  table.remove(range);
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
  EXPECT_EQ(areas(address(memory.get()), address(memory.get()) + kBytes).size(), 1u);
}

TEST(InPlaceRefusal, RecoversFromAShortageOfDescriptors) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  FilledMemory memory(kBytes);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  SharedPages::RangeId range;
  auto parts = shared_parts(table, memory.get(), kBytes, &range);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(bytes_with(parts, URMA_EXT_REASON_NONE), 0u);
  table.remove(range);
  parts = shared_parts(table, memory.get(), kBytes, &range);
  EXPECT_EQ(bytes_with(parts, URMA_EXT_REASON_NONE), kBytes);
  table.remove(range);
}

// Shares, calls change(), and returns whether the pages are private afterwards.
bool can_be_undone_after(const std::function<void()>& change) {
  PageTable table;
  FilledMemory memory(kBytes);
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory.get(), kBytes, &range);
  const PeerMapping peer(parts[0]);
  change();
  table.remove(range);
  memory.get()[5] = 77;
  return is_filled(memory.get(), kBytes) && peer.mapped() && peer.get()[5] == 0;
}

TEST(InPlaceRefusal, UnsharingNeedsNoDescriptors) {
  SKIP_UNLESS_IN_PLACE();
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {3, before.rlim_max};
  EXPECT_TRUE(can_be_undone_after([&] { ::setrlimit(RLIMIT_NOFILE, &low); }));
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(InPlaceRefusal, UnsharingNeedsNoRights) {
  SKIP_UNLESS_IN_PLACE();
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give it up";
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    ::_exit(can_be_undone_after([&] { static_cast<void>(!::setuid(kNobody)); }) ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// Without descriptors for a second WayBack, callers take turns.
TEST(InPlaceRefusal, OneWayBackServesSeveralCallers) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  PrivateMemory first(kBytes);
  PrivateMemory second(kBytes);
  fill(first.get(), kBytes);
  fill(second.get(), kBytes);
  SharedPages::RangeId ranges[2];
  const PeerMapping peer(shared_parts(table, first.get(), kBytes, &ranges[0])[0]);
  const PeerMapping other(shared_parts(table, second.get(), kBytes, &ranges[1])[0]);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  std::thread thread([&] { table.remove(ranges[0]); });
  table.remove(ranges[1]);
  thread.join();
  ::setrlimit(RLIMIT_NOFILE, &before);
  first.get()[5] = second.get()[5] = 77;
  EXPECT_EQ(peer.get()[5], 0);
  EXPECT_EQ(other.get()[5], 0);
  EXPECT_TRUE(is_filled(first.get(), kBytes));
  EXPECT_TRUE(is_filled(second.get(), kBytes));
}

// The WayBack is closed with the last shared page.
TEST(InPlaceRefusal, NothingStaysOpen) {
  SKIP_UNLESS_IN_PLACE();
  const auto open_descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open_descriptors();
  PageTable table;
  PrivateMemory memory(kBytes);
  SharedPages::RangeId range;
  shared_parts(table, memory.get(), kBytes, &range);
  EXPECT_GT(open_descriptors(), before);
  table.remove(range);
  table.clear();
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace urma
