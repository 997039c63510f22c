// SPDX-License-Identifier: MIT
//
// Shared parts of the tests of in-place sharing.
#ifndef TEST_UNIT_IN_PLACE_HARNESS_H_
#define TEST_UNIT_IN_PLACE_HARNESS_H_

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "segment/inplace/page_table.h"
#include "segment/page_size.h"
#include "test/process/sanitized.h"
#include "urma_opcode.h"

namespace urma {

inline constexpr uint64_t kPage = 4096;
inline constexpr uint64_t kMiB = 1 << 20;
inline const Audience kWriters = {7, URMA_TOKEN_PLAIN_TEXT, 42,
                                  URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC};
inline const Audience kReaders = {7, URMA_TOKEN_PLAIN_TEXT, 42, URMA_ACCESS_READ};

using urma_test::kSanitized;

inline uint64_t address(const volatile void* data) { return reinterpret_cast<uint64_t>(data); }

// Private memory of the test between inaccessible pages.
class PrivateMemory {
 public:
  explicit PrivateMemory(uint64_t bytes, int flags = 0, uint64_t alignment = page_bytes())
      : whole_(bytes + alignment + page_bytes()) {
    void* data =
        ::mmap(nullptr, whole_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) std::abort();
    start_ = static_cast<char*>(data);
    const uint64_t at = (address(start_) + alignment) & ~(alignment - 1);
    data = ::mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1, 0);
    if (data == MAP_FAILED) std::abort();
    data_ = static_cast<char*>(data);
  }
  ~PrivateMemory() { ::munmap(start_, whole_); }
  PrivateMemory(const PrivateMemory&) = delete;
  PrivateMemory& operator=(const PrivateMemory&) = delete;

  char* get() const { return data_; }

 private:
  uint64_t whole_;
  char* start_;
  char* data_;
};

inline void fill(char* data, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kPage) {
    data[at] = static_cast<char>(1 + (at / kPage) % 127);
  }
}

struct FilledMemory : PrivateMemory {
  explicit FilledMemory(uint64_t bytes, int flags = 0, uint64_t alignment = page_bytes())
      : PrivateMemory(bytes, flags, alignment) {
    fill(get(), bytes);
  }
};

inline ::testing::AssertionResult is_filled(const char* data, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kPage) {
    if (data[at] != static_cast<char>(1 + (at / kPage) % 127)) {
      return ::testing::AssertionFailure() << "page " << at / kPage << " has changed";
    }
  }
  return ::testing::AssertionSuccess();
}

// For tests that count pages. Where the kernel makes huge pages unasked, the first access to one
// fills it.
inline void keep_pages_small(const PrivateMemory& memory, uint64_t bytes) {
  ::madvise(memory.get(), bytes, MADV_NOHUGEPAGE);
}

inline void share_all(PageTable& table, SharedPages::RangeId range) {
  while (!table.share(range, 8 * kMiB)) {
  }
}

// Adds the range, shares it, and returns the parts.
inline std::vector<SharedPart> shared_parts(PageTable& table, const volatile void* data,
                                            uint64_t bytes, SharedPages::RangeId* range,
                                            const Audience& audience = kWriters) {
  *range = table.add(address(data), bytes, audience);
  share_all(table, *range);
  return table.parts(*range);
}

// What an importer has.
class PeerMapping {
 public:
  PeerMapping(const SharedPart& part, int protection = PROT_READ | PROT_WRITE) : len_(part.len) {
    data_ = ::mmap(nullptr, len_, protection, MAP_SHARED, part.fd, static_cast<off_t>(part.offset));
  }
  ~PeerMapping() {
    if (data_ != MAP_FAILED) ::munmap(data_, len_);
  }
  PeerMapping(const PeerMapping&) = delete;
  PeerMapping& operator=(const PeerMapping&) = delete;

  bool mapped() const { return data_ != MAP_FAILED; }
  char* get() const { return static_cast<char*>(data_); }

 private:
  uint64_t len_;
  void* data_;
};

// If writes to pages cannot be held up, nothing can be moved.
inline std::string why_not_in_place() {
  if (page_bytes() != kPage) return "needs pages of 4 KiB";
  PageTable table;
  PrivateMemory memory(kPage);
  SharedPages::RangeId range;
  const auto parts = shared_parts(table, memory.get(), kPage, &range);
  if (parts[0].reason == URMA_EXT_REASON_NONE) return "";
  return parts[0].reason == URMA_EXT_REASON_NO_FREEZE
             ? "needs userfaultfd: CAP_SYS_PTRACE, vm.unprivileged_userfaultfd=1 or access to "
               "/dev/userfaultfd"
             : "needs Linux 6.8";
}

#define SKIP_UNLESS_IN_PLACE()                                 \
  do {                                                         \
    static const std::string why = ::urma::why_not_in_place(); \
    if (!why.empty()) GTEST_SKIP() << why;                     \
  } while (0)

// What this process has mapped.
inline uint64_t address_space() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * kPage;
}

// The lines of the mappings that overlap [start, end) in /proc/self/maps, or their VmFlags.
inline std::vector<std::string> areas(uint64_t start, uint64_t end) {
  std::vector<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const uint64_t from = std::stoull(line, nullptr, 16);
    const uint64_t to = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    if (from < end && to > start) found.push_back(line);
  }
  return found;
}

inline std::string smaps_line(const void* at, const std::string& key) {
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find('-') < line.find(' ')) {
      inside = std::stoull(line, nullptr, 16) <= address(at) &&
               address(at) < std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    } else if (inside && line.rfind(key, 0) == 0) {
      return line;
    }
  }
  return "";
}

}  // namespace urma

#endif  // TEST_UNIT_IN_PLACE_HARNESS_H_
