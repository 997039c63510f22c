// SPDX-License-Identifier: MIT
//
// In-place sharing when the process runs out of address space, files, huge pages or memory.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <fstream>

#include "test/unit/in_place_harness.h"

namespace urma {
namespace {

constexpr uint64_t kBytes = 16 * kMiB;

uint64_t kib(const std::string& line) {
  const auto digits = line.find_first_of("0123456789");
  return digits == std::string::npos ? 0 : std::stoull(line.substr(digits));
}

uint64_t meminfo_kib(const std::string& key) {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind(key + ":", 0) == 0) return kib(line);
  }
  return 0;
}

// From now on the process may map no more than `bytes` more.
class TightAddressSpace {
 public:
  explicit TightAddressSpace(uint64_t bytes) {
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit limit = {address_space() + bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~TightAddressSpace() { ::setrlimit(RLIMIT_AS, &before_); }
  TightAddressSpace(const TightAddressSpace&) = delete;
  TightAddressSpace& operator=(const TightAddressSpace&) = delete;

 private:
  rlimit before_;
};

uint64_t bytes_with(const std::vector<SharedPart>& parts, urma_ext_reason_t reason) {
  uint64_t bytes = 0;
  for (const auto& part : parts) {
    if (part.reason == reason) bytes += part.len;
  }
  return bytes;
}

uint64_t bytes_in_memfds(const char* data, uint64_t bytes) {
  uint64_t found = 0;
  for (const auto& line : areas(address(data), address(data) + bytes)) {
    if (line.find("/memfd:") == std::string::npos) continue;
    const uint64_t from = std::stoull(line, nullptr, 16);
    found += std::stoull(line.substr(line.find('-') + 1), nullptr, 16) - from;
  }
  return found;
}

class InPlaceLimits : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS_IN_PLACE();
    fill(memory_.get(), kBytes);
  }
  // Address space that all moves share is taken by the first one.
  void move_once() {
    PrivateMemory other(kPage);
    SharedPages::RangeId range;
    shared_parts(table_, other.get(), kPage, &range);
    table_.remove(range);
  }
  void share_everything() {
    const auto parts = shared_parts(table_, memory_.get(), kBytes, &range_);
    ASSERT_EQ(bytes_with(parts, URMA_EXT_REASON_NONE), kBytes) << parts[0].reason;
  }

  PageTable table_;
  PrivateMemory memory_{kBytes, 0, 2 * kMiB};
  SharedPages::RangeId range_ = 0;
};

TEST_F(InPlaceLimits, SharingUsesNoAddressSpace) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers map further memory";
  move_once();
  {
    const TightAddressSpace tight(kMiB);
    share_everything();
  }
  table_.remove(range_);
  EXPECT_TRUE(is_filled(memory_.get(), kBytes));
}

TEST_F(InPlaceLimits, WithoutAddressSpaceNothingIsMoved) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers map further memory";
  {
    const TightAddressSpace tight(kMiB);
    const auto parts = shared_parts(table_, memory_.get(), kBytes, &range_);
    EXPECT_EQ(bytes_with(parts, URMA_EXT_REASON_LIMIT), kBytes) << parts[0].reason;
    table_.remove(range_);
  }
  EXPECT_TRUE(is_filled(memory_.get(), kBytes));
  share_everything();
  table_.remove(range_);
}

// A chunk of 2 MiB needs as much again; less is moved at a time.
TEST_F(InPlaceLimits, UnsharingTakesSmallerSteps) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers map further memory";
  share_everything();
  ASSERT_EQ(bytes_in_memfds(memory_.get(), kBytes), kBytes);
  // The mappings of the two threads that restore pages come first.
  constexpr uint64_t kThread = (2 << 20) + 3 * kPage;
  {
    const TightAddressSpace tight(2 * kThread + kMiB);
    table_.remove(range_);
  }
  EXPECT_EQ(bytes_in_memfds(memory_.get(), kBytes), 0u);
  EXPECT_TRUE(is_filled(memory_.get(), kBytes));
  EXPECT_EQ(areas(address(memory_.get()), address(memory_.get()) + kBytes).size(), 1u);
}

TEST_F(InPlaceLimits, WithoutAddressSpacePagesStayShared) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers map further memory";
  share_everything();
  {
    const TightAddressSpace tight(kMiB);
    table_.remove(range_);
  }
  EXPECT_EQ(bytes_in_memfds(memory_.get(), kBytes), kBytes);
  EXPECT_TRUE(is_filled(memory_.get(), kBytes));
  // The next range that has the pages takes them back.
  share_everything();
  table_.remove(range_);
  EXPECT_EQ(bytes_in_memfds(memory_.get(), kBytes), 0u);
  EXPECT_TRUE(is_filled(memory_.get(), kBytes));
}

// The kernel also sends a signal, which the threads that move pages have blocked.
TEST_F(InPlaceLimits, AFileSizeLimitSetHalfwayIsObeyed) {
  sigset_t signals;
  sigset_t before;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &signals, &before);
  range_ = table_.add(address(memory_.get()), kBytes, kWriters);
  ASSERT_FALSE(table_.share(range_, 2 * kMiB));
  rlimit files;
  ::getrlimit(RLIMIT_FSIZE, &files);
  const rlimit low = {kMiB, files.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &low);
  share_all(table_, range_);
  ::setrlimit(RLIMIT_FSIZE, &files);
  const timespec now = {};
  EXPECT_EQ(::sigtimedwait(&signals, nullptr, &now), SIGXFSZ);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const auto parts = table_.parts(range_);
  EXPECT_EQ(bytes_with(parts, URMA_EXT_REASON_NONE), 2 * kMiB);
  EXPECT_EQ(bytes_with(parts, URMA_EXT_REASON_LIMIT), kBytes - 2 * kMiB);
  EXPECT_TRUE(is_filled(memory_.get(), kBytes));
  table_.remove(range_);
  EXPECT_TRUE(is_filled(memory_.get(), kBytes));
}

// Can be mapped without a pool of huge pages too, as long as it is not touched.
TEST_F(InPlaceLimits, HugetlbPagesAreNotMoved) {
  char* const middle = memory_.get() + 4 * kMiB;
  void* const huge = ::mmap(
      middle, 2 * kMiB, PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE | MAP_FIXED | (21 << 26), -1, 0);
  if (huge == MAP_FAILED) GTEST_SKIP() << "cannot map huge pages of 2 MiB (MAP_HUGETLB)";
  const bool some = meminfo_kib("HugePages_Free") > 0;
  if (some) fill(middle, 2 * kMiB);
  const auto parts = shared_parts(table_, memory_.get(), kBytes, &range_);
  EXPECT_EQ(bytes_with(parts, URMA_EXT_REASON_HUGETLB), 2 * kMiB);
  EXPECT_EQ(bytes_with(parts, URMA_EXT_REASON_NONE), kBytes - 2 * kMiB);
  table_.remove(range_);
  EXPECT_TRUE(is_filled(memory_.get(), 4 * kMiB));
  if (some) {
    EXPECT_TRUE(is_filled(middle, 2 * kMiB));
  }
  EXPECT_NE(smaps_line(middle, "VmFlags").find(" ht"), std::string::npos);
  EXPECT_EQ(bytes_in_memfds(memory_.get(), kBytes), 0u);
}

TEST_F(InPlaceLimits, PagesThatAreSwappedOutAreMovedToo) {
  if (meminfo_kib("SwapTotal") == 0) GTEST_SKIP() << "SwapTotal is 0: the machine has no swap";
  if (::madvise(memory_.get(), kBytes, MADV_PAGEOUT) != 0) {
    GTEST_SKIP() << "no MADV_PAGEOUT before Linux 5.4";
  }
  if (kib(smaps_line(memory_.get(), "Swap:")) == 0) {
    GTEST_SKIP() << "the kernel swapped nothing out: SwapFree is " << meminfo_kib("SwapFree")
                 << " kB";
  }
  share_everything();
  EXPECT_TRUE(is_filled(memory_.get(), kBytes));
  table_.remove(range_);
  EXPECT_TRUE(is_filled(memory_.get(), kBytes));
}

}  // namespace
}  // namespace urma
