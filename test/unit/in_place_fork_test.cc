// SPDX-License-Identifier: MIT
//
// What a forked child sees of memory that its parent shares.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "test/unit/in_place_harness.h"

namespace urma {
namespace {

// Forks with the handlers of the table, as the library calls them, and returns the child's exit
// status.
int in_child(PageTable& table, const std::function<int()>& body) {
  table.before_fork();
  const pid_t child = ::fork();
  if (child == 0) {
    table.after_fork_in_child();
    ::_exit(body());
  }
  table.after_fork_in_parent();
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

class InPlaceFork : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_IN_PLACE(); }
  PageTable table_;
};

// Where a forked child waits for its parent.
class Gate {
 public:
  Gate() { EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0); }
  ~Gate() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void wait() {
    char said;
    if (::read(ends_[0], &said, 1) != 1) ::_exit(3);
  }
  // Returns when the child has ended.
  void let_through(pid_t child) {
    ASSERT_EQ(::write(ends_[1], "g", 1), 1);
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }

 private:
  int ends_[2];
};

TEST_F(InPlaceFork, TheChildHasItsOwnCopy) {
  const uint64_t bytes = 6 * kMiB;
  FilledMemory memory(bytes);
  SharedPages::RangeId range;
  const auto parts = shared_parts(table_, memory.get(), bytes, &range);
  PeerMapping peer(parts[0]);
  struct stat before;
  ::fstat(parts[0].fd, &before);
  EXPECT_EQ(in_child(table_,
                     [&] {
                       if (!is_filled(memory.get(), bytes)) return 1;
                       for (uint64_t at = 0; at < bytes; at += kPage) memory.get()[at] = 0;
                       if (!is_filled(peer.get(), bytes)) return 2;
                       if (::fcntl(parts[0].fd, F_GETFD) != -1) return 3;
                       // A grandchild has no shared memory any more.
                       return in_child(table_, [&] { return memory.get()[0] == 0 ? 0 : 4; });
                     }),
            0);
  struct stat after;
  ::fstat(parts[0].fd, &after);
  EXPECT_EQ(after.st_blocks, before.st_blocks);
  EXPECT_TRUE(is_filled(memory.get(), bytes));
  EXPECT_TRUE(is_filled(peer.get(), bytes));
  memory.get()[7] = 8;
  EXPECT_EQ(peer.get()[7], 8);
  table_.remove(range);
  EXPECT_TRUE(is_filled(memory.get(), bytes));
}

TEST_F(InPlaceFork, MemoryHiddenFromChildrenStaysHidden) {
  FilledMemory memory(kMiB);
  ASSERT_EQ(::madvise(memory.get(), kMiB, MADV_DONTFORK), 0);
  SharedPages::RangeId range;
  shared_parts(table_, memory.get(), kMiB, &range);
  const uint64_t start = address(memory.get());
  EXPECT_EQ(in_child(table_, [&] { return static_cast<int>(areas(start, start + kMiB).size()); }),
            0);
  table_.remove(range);
  EXPECT_TRUE(is_filled(memory.get(), kMiB));
}

TEST_F(InPlaceFork, AllocatedMemoryBecomesPrivate) {
  auto* const memory = static_cast<char*>(table_.allocate(3 * kMiB, 0));
  ASSERT_NE(memory, nullptr);
  fill(memory, 3 * kMiB);
  EXPECT_EQ(in_child(table_,
                     [&] {
                       if (!is_filled(memory, 3 * kMiB)) return 1;
                       memory[0] = 0;
                       return 0;
                     }),
            0);
  EXPECT_TRUE(is_filled(memory, 3 * kMiB));
  EXPECT_TRUE(table_.deallocate(memory));
}

// Forks from one thread while another moves pages there and back.
TEST_F(InPlaceFork, ForksDuringAllSteps) {
  if (kSanitized) GTEST_SKIP() << "a sanitized program with threads may hang in fork";
  const uint64_t bytes = 16 * kMiB;
  FilledMemory memory(bytes);
  std::atomic<bool> stop{false};
  std::thread mover([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      SharedPages::RangeId range;
      shared_parts(table_, memory.get(), bytes, &range);
      table_.remove(range);
    }
  });
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(in_child(table_,
                       [&] {
                         if (!is_filled(memory.get(), bytes)) return 1;
                         for (uint64_t at = 0; at < bytes; at += kPage) memory.get()[at] = 0;
                         return 0;
                       }),
              0);
  }
  stop.store(true, std::memory_order_relaxed);
  mover.join();
  EXPECT_TRUE(is_filled(memory.get(), bytes));
}

// During its lifetime this process cannot open a descriptor of this number or above.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t limit) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit low = {limit, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &low);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_ = {};
};

int overwrite(char* data, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kPage) data[at] = 0;
  return 0;
}

// The descriptor that is open for such a file.
int open_descriptor(const std::string& path) {
  for (int fd = 0; fd < 1024; ++fd) {
    char name[256] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (::readlink(link.c_str(), name, sizeof name - 1) > 0 && path == name) return fd;
  }
  return -1;
}

std::string own_file(const char* name) { return "/proc/" + std::to_string(::getpid()) + name; }

TEST_F(InPlaceFork, TheChildNeedsNoDescriptors) {
  const uint64_t bytes = 6 * kMiB;
  PrivateMemory memory(bytes);
  PrivateMemory kept(kMiB);
  fill(memory.get(), bytes);
  fill(kept.get(), kMiB);
  ASSERT_EQ(::madvise(kept.get(), kMiB, MADV_DONTFORK), 0);
  SharedPages::RangeId range;
  SharedPages::RangeId kept_range;
  shared_parts(table_, memory.get(), bytes, &range);
  shared_parts(table_, kept.get(), kMiB, &kept_range);
  const uint64_t start = address(kept.get());
  {
    const DescriptorLimit limit(3);
    EXPECT_EQ(in_child(table_,
                       [&] {
                         unsigned char there;
                         if (::mincore(kept.get(), kPage, &there) == 0) return 2;
                         if (!is_filled(memory.get(), bytes)) return 1;
                         return overwrite(memory.get(), bytes);
                       }),
              0);
  }
  EXPECT_TRUE(is_filled(memory.get(), bytes));
  // The last page of shared memory is a mapping of its own.
  EXPECT_EQ(areas(start, start + kMiB).size(), 2U);
  table_.remove(kept_range);
  table_.remove(range);
}

// If mappings cannot be read, shared memory is removed from the child.
TEST_F(InPlaceFork, MemoryThatCannotBeCopiedIsUnmapped) {
  FilledMemory memory(kMiB);
  SharedPages::RangeId range;
  shared_parts(table_, memory.get(), kMiB, &range);
  const int maps = open_descriptor(own_file("/maps"));
  ASSERT_GE(maps, 0);
  const int copy = ::dup(maps);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null, maps);
  {
    const DescriptorLimit limit(3);
    EXPECT_EQ(in_child(table_,
                       [&] {
                         unsigned char there;
                         return ::mincore(memory.get(), kPage, &there) == 0 ? 1 : 0;
                       }),
              0);
  }
  ::dup3(copy, maps, O_CLOEXEC);
  ::close(copy);
  ::close(null);
  EXPECT_TRUE(is_filled(memory.get(), kMiB));
  table_.remove(range);
  EXPECT_TRUE(is_filled(memory.get(), kMiB));
}

// Forks from one thread while another's memory moves to a new descriptor.
TEST_F(InPlaceFork, ForksWhileAllocatedMemoryIsRenewed) {
  if (kSanitized) GTEST_SKIP() << "a sanitized program with threads may hang in fork";
  const uint64_t bytes = 32 * kMiB;
  auto* const memory = static_cast<char*>(table_.allocate(bytes, 0));
  ASSERT_NE(memory, nullptr);
  fill(memory, bytes);
  std::atomic<bool> stop{false};
  std::thread mover([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      SharedPages::RangeId range;
      shared_parts(table_, memory, bytes, &range);
      table_.remove(range);
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(in_child(table_,
                       [&] {
                         if (!is_filled(memory, bytes)) return 1;
                         return overwrite(memory, bytes);
                       }),
              0);
  }
  stop.store(true, std::memory_order_relaxed);
  mover.join();
  EXPECT_TRUE(is_filled(memory, bytes));
  EXPECT_TRUE(table_.deallocate(memory));
}

TEST_F(InPlaceFork, AllocatedMemoryInTwoDescriptorsBecomesPrivate) {
  const uint64_t bytes = 8 * kMiB;
  auto* const memory = static_cast<char*>(table_.allocate(bytes, 0));
  ASSERT_NE(memory, nullptr);
  fill(memory, bytes);
  SharedPages::RangeId range;
  const auto parts = shared_parts(table_, memory, bytes, &range);
  ASSERT_GE(parts[0].fd, 0);
  // A mapping of the program, so that the rest cannot be moved.
  ASSERT_NE(::mmap(memory + 5 * kMiB, kPage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            MAP_FAILED);
  memory[5 * kMiB] = static_cast<char>(1 + (5 * kMiB / kPage) % 127);
  table_.remove(range);
  EXPECT_EQ(in_child(table_,
                     [&] {
                       if (!is_filled(memory, bytes)) return 1;
                       return overwrite(memory, bytes);
                     }),
            0);
  EXPECT_TRUE(is_filled(memory, bytes));
  EXPECT_TRUE(table_.deallocate(memory));
}

// Waits some time for something that never comes.
void linger() { ::poll(nullptr, 0, 100); }

TEST_F(InPlaceFork, TheChildSeesMemoryAsOfTheFork) {
  const uint64_t bytes = 6 * kMiB;
  FilledMemory memory(bytes);
  SharedPages::RangeId range;
  shared_parts(table_, memory.get(), bytes, &range);
  table_.before_fork();
  const pid_t child = ::fork();
  if (child == 0) {
    linger();
    table_.after_fork_in_child();
    ::_exit(is_filled(memory.get(), bytes) ? 0 : 1);
  }
  table_.after_fork_in_parent();
  overwrite(memory.get(), bytes);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  table_.remove(range);
}

// The parent gives its shared memory up while the child lives.
TEST_F(InPlaceFork, AChildWithoutAddressSpaceKeepsItsCopy) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers map further memory";
  const uint64_t bytes = 6 * kMiB;
  FilledMemory memory(bytes);
  SharedPages::RangeId range;
  shared_parts(table_, memory.get(), bytes, &range);
  Gate gate;
  const rlim_t mapped = address_space() + kMiB;
  const rlimit tight = {mapped, mapped};
  table_.before_fork();
  const pid_t child = ::fork();
  if (child == 0) {
    ::setrlimit(RLIMIT_AS, &tight);
    if (table_.after_fork_in_child() != 0) ::_exit(2);
    gate.wait();
    ::_exit(is_filled(memory.get(), bytes) ? 0 : 1);
  }
  table_.after_fork_in_parent();
  table_.remove(range);
  gate.let_through(child);
}

TEST_F(InPlaceFork, AChildThatDiesIsNotWaitedFor) {
  PrivateMemory memory(kMiB);
  SharedPages::RangeId range;
  shared_parts(table_, memory.get(), kMiB, &range);
  table_.before_fork();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  table_.after_fork_in_parent();
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  table_.remove(range);
}

// Memory that is unregistered meanwhile stays in the file for the child.
TEST_F(InPlaceFork, ALateChildStillGetsItsCopy) {
  const uint64_t bytes = 6 * kMiB;
  FilledMemory memory(bytes);
  SharedPages::RangeId whole;
  SharedPages::RangeId page;
  shared_parts(table_, memory.get(), bytes, &whole);
  shared_parts(table_, memory.get(), kPage, &page);
  table_.set_child_wait(0);
  Gate gate;
  table_.before_fork();
  const pid_t child = ::fork();
  if (child == 0) {
    gate.wait();
    table_.after_fork_in_child();
    ::_exit(is_filled(memory.get(), bytes) ? 0 : 1);
  }
  table_.after_fork_in_parent();
  table_.remove(whole);
  gate.let_through(child);
  table_.remove(page);
  EXPECT_TRUE(is_filled(memory.get(), bytes));
}

// The descriptor of a range that ends, of memory used by nothing else.
TEST_F(InPlaceFork, TheChildClosesRangesBeingRemoved) {
  if (kSanitized) GTEST_SKIP() << "a sanitized program with threads may hang in fork";
  const uint64_t bytes = 8 * kMiB;
  FilledMemory memory(bytes);
  std::atomic<bool> stop{false};
  std::thread mover([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      SharedPages::RangeId range;
      shared_parts(table_, memory.get(), bytes, &range);
      table_.remove(range);
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(in_child(table_,
                       [] { return open_descriptor("/memfd:urma-pages (deleted)") >= 0 ? 1 : 0; }),
              0);
  }
  stop.store(true, std::memory_order_relaxed);
  mover.join();
}

}  // namespace
}  // namespace urma
