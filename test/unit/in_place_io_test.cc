// SPDX-License-Identifier: MIT
//
// Memory that a device writes to, and memory of the C library, while it is shared and taken back.
#include <fcntl.h>
#include <liburing.h>
#include <malloc.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "test/unit/in_place_harness.h"
#include "urma/base/fd.h"

namespace urma {
namespace {

// A file of `bytes` bytes in the test's directory, page n filled with n.
class PatternFile {
 public:
  explicit PatternFile(uint64_t bytes) : path_(::testing::TempDir() + "/in_place_XXXXXX") {
    Fd fd(::mkstemp(path_.data()));
    std::vector<char> page(kPage);
    for (uint64_t at = 0; at < bytes; at += kPage) {
      std::fill(page.begin(), page.end(), static_cast<char>(1 + (at / kPage) % 127));
      if (::write(fd.get(), page.data(), kPage) != static_cast<ssize_t>(kPage)) std::abort();
    }
    ::fsync(fd.get());
  }
  ~PatternFile() { ::unlink(path_.c_str()); }
  Fd open(int flags) const { return Fd(::open(path_.c_str(), flags | O_CLOEXEC)); }

 private:
  std::string path_;
};

// The device writes to the pages that were registered with it, whatever is mapped there now.
TEST(InPlaceIo, BuffersRegisteredWithTheKernelAreNotMoved) {
  SKIP_UNLESS_IN_PLACE();
  constexpr uint64_t kBytes = 4 * kMiB;
  FilledMemory memory(kBytes, 0, 2 * kMiB);
  io_uring ring;
  if (const int error = ::io_uring_queue_init(8, &ring, 0)) {
    GTEST_SKIP() << "no io_uring: " << std::strerror(-error);
  }
  char* const buffer = memory.get() + 16 * kPage;
  const iovec registered = {buffer, 16 * kPage};
  const int refused = ::io_uring_register_buffers(&ring, &registered, 1);
  if (refused != 0) {
    ::io_uring_queue_exit(&ring);
    GTEST_SKIP() << "io_uring registers no buffers: " << std::strerror(-refused);
  }
  PageTable table;
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory.get(), kBytes, &range);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_PINNED);
  EXPECT_EQ(parts[0].len, 2 * kMiB);
  EXPECT_EQ(parts[1].reason, URMA_EXT_REASON_NONE);
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
  const PatternFile file(16 * kPage);
  const Fd fd = file.open(O_RDONLY);
  io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring);
  ::io_uring_prep_read_fixed(sqe, fd.get(), buffer, 16 * kPage, 0, 0);
  ASSERT_EQ(::io_uring_submit(&ring), 1);
  io_uring_cqe* cqe = nullptr;
  ASSERT_EQ(::io_uring_wait_cqe(&ring, &cqe), 0);
  EXPECT_EQ(cqe->res, static_cast<int>(16 * kPage));
  EXPECT_TRUE(is_filled(buffer, 16 * kPage));
  ::io_uring_queue_exit(&ring);
  table.remove(range);
}

// Registers a buffer with io_uring; `error` is 0 on success.
struct PinnedBuffer {
  PinnedBuffer(void* memory, uint64_t bytes) {
    error = -::io_uring_queue_init(8, &ring, 0);
    if (error != 0) return;
    const iovec registered = {memory, bytes};
    error = -::io_uring_register_buffers(&ring, &registered, 1);
    if (error != 0) ::io_uring_queue_exit(&ring);
  }
  ~PinnedBuffer() {
    if (error == 0) ::io_uring_queue_exit(&ring);
  }
  PinnedBuffer(const PinnedBuffer&) = delete;

  io_uring ring;
  int error;
};

bool is_private(const std::vector<SharedPart>& parts, PageTable& table, SharedPages::RangeId range,
                const char* memory) {
  PeerMapping peer(parts[0]);
  table.remove(range);
  const char before = memory[5];
  peer.get()[5] = static_cast<char>(before + 1);
  return memory[5] == before;
}

// Of all pinned pages of the process, only those of the segment count.
TEST(InPlaceIo, OnlyPinnedPagesStayShared) {
  SKIP_UNLESS_IN_PLACE();
  for (const uint64_t bytes : {16 * kPage, 4 * kMiB}) {
    PrivateMemory memory(bytes, 0, 2 * kMiB);
    keep_pages_small(memory, bytes);
    PrivateMemory other(kPage);
    fill(memory.get(), bytes);
    fill(other.get(), kPage);
    PageTable table;
    SharedPages::RangeId range;
    auto parts = shared_parts(table, memory.get(), bytes, &range);
    ASSERT_EQ(parts.size(), 1u);
    {
      const PinnedBuffer elsewhere(other.get(), kPage);
      if (elsewhere.error != 0) GTEST_SKIP() << std::strerror(elsewhere.error);
      EXPECT_TRUE(is_private(parts, table, range, memory.get()));
    }
    parts = shared_parts(table, memory.get(), bytes, &range);
    ASSERT_EQ(parts.size(), 1u);
    {
      const PinnedBuffer inside(memory.get(), kPage);
      ASSERT_EQ(inside.error, 0);
      EXPECT_FALSE(is_private(parts, table, range, memory.get()));
      // Up to 2 MiB around the pinned pages.
      const auto left = table.left_pages();
      ASSERT_EQ(left.size(), 1u);
      EXPECT_EQ(left[0].va, address(memory.get()));
      EXPECT_EQ(left[0].len, std::min(bytes, 2 * kMiB));
      EXPECT_EQ(left[0].audience, kWriters);
    }
    // The next range on it takes it back.
    parts = shared_parts(table, memory.get(), bytes, &range);
    EXPECT_TRUE(table.left_pages().empty());
    table.remove(range);
  }
}

// Memory from urma_ext_alloc stays in the descriptor that its importers have.
TEST(InPlaceIo, PinnedOwnMemoryIsListed) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  auto* const memory = static_cast<char*>(table.allocate(kMiB, 0));
  ASSERT_NE(memory, nullptr);
  fill(memory, kMiB);
  SharedPages::RangeId range;
  shared_parts(table, memory, kMiB, &range);
  EXPECT_TRUE(table.left_pages().empty());
  {
    const PinnedBuffer held(memory, kPage);
    if (held.error != 0) GTEST_SKIP() << std::strerror(held.error);
    table.remove(range);
    const auto left = table.left_pages();
    ASSERT_EQ(left.size(), 1u);
    EXPECT_EQ(left[0].va, address(memory));
    EXPECT_EQ(left[0].len, kMiB);
  }
  EXPECT_TRUE(table.deallocate(memory));
  EXPECT_TRUE(table.left_pages().empty());
}

// No one is told of memory that is gone.
TEST(InPlaceIo, PinnedMemoryThatTheProgramUnmapsIsNotListed) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  auto memory = std::make_unique<PrivateMemory>(16 * kPage);
  fill(memory->get(), 16 * kPage);
  SharedPages::RangeId range;
  shared_parts(table, memory->get(), 16 * kPage, &range);
  const PinnedBuffer held(memory->get(), kPage);
  if (held.error != 0) GTEST_SKIP() << std::strerror(held.error);
  table.remove(range);
  ASSERT_EQ(table.left_pages().size(), 1u);
  // A split mapping is one part; an unmapped hole splits it.
  ::mprotect(memory->get() + 4 * kPage, kPage, PROT_READ);
  ASSERT_EQ(table.left_pages().size(), 1u);
  EXPECT_EQ(table.left_pages()[0].len, 16 * kPage);
  ::munmap(memory->get() + kPage, kPage);
  const auto divided = table.left_pages();
  ASSERT_EQ(divided.size(), 2u);
  EXPECT_EQ(divided[0].len, kPage);
  EXPECT_EQ(divided[1].va, address(memory->get()) + 2 * kPage);
  EXPECT_EQ(divided[1].len, 14 * kPage);
  memory.reset();
  EXPECT_TRUE(table.left_pages().empty());
}

// If most would be untouched zeros, nothing is filled to find out.
TEST(InPlaceIo, ASparseSegmentStaysSparse) {
  SKIP_UNLESS_IN_PLACE();
  constexpr uint64_t kBytes = 4 * kMiB;
  PrivateMemory memory(kBytes, 0, 2 * kMiB);
  keep_pages_small(memory, kBytes);
  PrivateMemory other(kPage);
  fill(memory.get(), kPage);
  fill(other.get(), kPage);
  PageTable table;
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory.get(), kBytes, &range);
  ASSERT_EQ(parts.size(), 1u);
  const Fd file(::dup(parts[0].fd));
  const PinnedBuffer elsewhere(other.get(), kPage);
  if (elsewhere.error != 0) GTEST_SKIP() << std::strerror(elsewhere.error);
  table.remove(range);
  struct stat status;
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_EQ(status.st_blocks * 512, static_cast<int64_t>(kPage));
  EXPECT_TRUE(is_filled(memory.get(), kPage));
}

// Reads are in flight when the pages are to be moved: whatever is refused, the data arrive.
TEST(InPlaceIo, DataOfDirectReadsArrive) {
  SKIP_UNLESS_IN_PLACE();
  constexpr uint64_t kBytes = 4 * kMiB;
  const PatternFile file(kBytes);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  if (!fd.valid())
    GTEST_SKIP() << "the file system of " << ::testing::TempDir() << " has no O_DIRECT";
  PageTable table;
  for (int round = 0; round < 10; ++round) {
    PrivateMemory memory(kBytes);
    std::memset(memory.get(), 0, kBytes);
    std::atomic<int> begun{0};
    std::vector<std::thread> readers;
    std::atomic<uint64_t> arrived{0};
    for (uint64_t reader = 0; reader < 2; ++reader) {
      readers.emplace_back([&, reader] {
        begun.fetch_add(1, std::memory_order_relaxed);
        for (uint64_t at = reader * 256 * 1024; at < kBytes; at += 512 * 1024) {
          const ssize_t length =
              ::pread(fd.get(), memory.get() + at, 256 * 1024, static_cast<off_t>(at));
          if (length > 0) arrived.fetch_add(length, std::memory_order_relaxed);
        }
      });
    }
    while (begun.load(std::memory_order_relaxed) < 2) std::this_thread::yield();
    SharedPages::RangeId range;
    shared_parts(table, memory.get(), kBytes, &range);
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(arrived.load(), kBytes);
    ASSERT_TRUE(is_filled(memory.get(), kBytes));
    table.remove(range);
    ASSERT_TRUE(is_filled(memory.get(), kBytes));
  }
}

// Buffers of malloc next to others that come and go, freed once they are no longer registered.
TEST(InPlaceIo, BuffersOfMallocAreUsableAfterwards) {
  SKIP_UNLESS_IN_PLACE();
  PageTable table;
  std::atomic<bool> stop{false};
  std::vector<std::thread> neighbours;
  for (unsigned seed = 0; seed < 2; ++seed) {
    neighbours.emplace_back([&, seed] {
      std::minstd_rand random(seed + 1);
      std::vector<std::vector<char>> held(64);
      while (!stop.load(std::memory_order_relaxed)) {
        auto& one = held[random() % held.size()];
        for (const char byte : one) {
          if (byte != 17) std::abort();
        }
        one.assign(random() % 20000, 17);
      }
    });
  }
  for (int round = 0; round < 60; ++round) {
    for (const uint64_t bytes : {uint64_t{20000}, uint64_t{100000}, uint64_t{300000}}) {
      auto* const buffer = static_cast<char*>(std::malloc(bytes));
      std::memset(buffer, 0xaa, bytes);
      SharedPages::RangeId range;
      const auto parts = shared_parts(table, buffer, bytes, &range);
      EXPECT_TRUE(std::any_of(parts.begin(), parts.end(), [](const SharedPart& part) {
        return part.reason == URMA_EXT_REASON_NONE;
      }));
      table.remove(range);
      std::free(buffer);
      auto* const zeros = static_cast<char*>(std::calloc(1, bytes));
      ASSERT_EQ(std::count(zeros, zeros + bytes, 0), static_cast<ptrdiff_t>(bytes));
      std::free(zeros);
    }
  }
  stop.store(true, std::memory_order_relaxed);
  for (auto& neighbour : neighbours) neighbour.join();
}

// The C library grows large blocks by mremap(), which only works within one mapping.
TEST(InPlaceIo, ReallocCopiesNoBytesAfterwards) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "the sanitizers' malloc copies";
  PageTable table;
  constexpr uint64_t kBytes = 64 * kMiB;
  auto* buffer = static_cast<char*>(std::malloc(kBytes));
  fill(buffer, kBytes);
  SharedPages::RangeId range;
  shared_parts(table, buffer, kBytes, &range);
  table.remove(range);
  EXPECT_EQ(areas(address(buffer), address(buffer) + kBytes).size(), 1u);
  buffer = static_cast<char*>(std::realloc(buffer, 2 * kBytes));
  ASSERT_NE(buffer, nullptr);
  EXPECT_TRUE(is_filled(buffer, kBytes));
  std::free(buffer);
}

}  // namespace
}  // namespace urma
