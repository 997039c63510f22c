// SPDX-License-Identifier: MIT
//
// The helpers that UMDK's compiled tools take from liburma_common.so.0.
#include "urma/common/common.h"

#include <gtest/gtest.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include <cerrno>
#include <climits>
#include <cstring>

namespace {

// The value parsed from a text; a negative errno if refused, with the value unchanged.
template <typename Number>
int64_t read(int (*function)(const char*, Number*), const char* text) {
  Number value = 77;
  const int status = function(text, &value);
  if (status == 0) return static_cast<int64_t>(value);
  EXPECT_EQ(value, Number{77});
  return status;
}

TEST(CommonTest, NumbersAreTheWholeText) {
  EXPECT_EQ(read(ub_str_to_u8, "0"), 0);
  EXPECT_EQ(read(ub_str_to_u8, "255"), 255);
  EXPECT_EQ(read(ub_str_to_u8, "256"), -ERANGE);
  EXPECT_EQ(read(ub_str_to_u16, "0xffff"), 65535);
  EXPECT_EQ(read(ub_str_to_u16, "0X10000"), -ERANGE);
  EXPECT_EQ(read(ub_str_to_u32, "4294967295"), UINT32_MAX);
  EXPECT_EQ(read(ub_str_to_u32, "4294967296"), -ERANGE);
  EXPECT_EQ(read(ub_str_to_u32, "010"), 8);
  EXPECT_EQ(read(ub_str_to_u64, "18446744073709551615"), -1);
  EXPECT_EQ(read(ub_str_to_u64, "18446744073709551616"), -ERANGE);
  EXPECT_EQ(read(ub_str_to_int, "2147483647"), INT_MAX);
  EXPECT_EQ(read(ub_str_to_int, "2147483648"), -ERANGE);
  EXPECT_EQ(read(ub_str_to_int, "-2147483648"), INT_MIN);
  EXPECT_EQ(read(ub_str_to_int, "-2147483649"), -ERANGE);
  EXPECT_EQ(read(ub_str_to_int, "-0x10"), -16);
  for (const char* text : {"", " ", " 1", "1 ", "1x", "x", "0x", "08", "+1", "--1", "-", "1.0"}) {
    EXPECT_EQ(read(ub_str_to_u32, text), -EINVAL) << text;
    EXPECT_EQ(read(ub_str_to_int, text), -EINVAL) << text;
  }
  EXPECT_EQ(read(ub_str_to_u64, "-1"), -EINVAL);
  EXPECT_EQ(read(ub_str_to_u8, nullptr), -EINVAL);
  EXPECT_EQ(ub_str_to_u8("1", nullptr), -EINVAL);
  EXPECT_EQ(ub_str_to_int("1", nullptr), -EINVAL);
}

TEST(CommonTest, BooleanWords) {
  bool value = false;
  for (const char* text : {"true", "TRUE", "yes", "on", "1"}) {
    value = false;
    EXPECT_EQ(ub_str_to_bool(text, &value), 0);
    EXPECT_TRUE(value) << text;
  }
  for (const char* text : {"false", "False", "no", "off", "0"}) {
    value = true;
    EXPECT_EQ(ub_str_to_bool(text, &value), 0);
    EXPECT_FALSE(value) << text;
  }
  value = true;
  for (const char* text : {"", "2", "tru", "truer"})
    EXPECT_EQ(ub_str_to_bool(text, &value), -EINVAL);
  EXPECT_TRUE(value);
  EXPECT_EQ(ub_str_to_bool(nullptr, &value), -EINVAL);
  EXPECT_EQ(ub_str_to_bool("1", nullptr), -EINVAL);
}

TEST(CommonTest, MemoryOfAnySizeIsAllocated) {
  for (const size_t length : {size_t{1}, size_t{4096}, (size_t{2} << 20) + 1}) {
    auto* memory = static_cast<char*>(ub_hugemalloc(UB_HUGEPAGE_ANY, length));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(memory[length - 1], 0);
    std::memset(memory, 1, length);
    EXPECT_EQ(ub_hugefree(memory), 0);
    EXPECT_EQ(ub_hugefree(memory), -EINVAL);
  }
  EXPECT_EQ(ub_hugefree(nullptr), 0);
  int other = 0;
  EXPECT_EQ(ub_hugefree(&other), -EINVAL);
}

constexpr int kHuge = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB;

// Whether there are such pages depends on the machine, and whether there is such a size.
TEST(CommonTest, HugePagesAreGivenOrRefused) {
  void* const pages = ::mmap(nullptr, 2 << 20, PROT_READ, kHuge, -1, 0);
  const bool unknown = pages == MAP_FAILED && errno == EINVAL;
  if (pages != MAP_FAILED) ::munmap(pages, 2 << 20);
  errno = 0;
  void* memory = ub_hugemalloc(UB_HUGEPAGE_2MB, 1);
  EXPECT_TRUE(memory != nullptr || errno == (unknown ? EINVAL : ENOMEM));
  EXPECT_EQ(ub_hugefree(memory), 0);
  EXPECT_EQ(ub_hugemalloc(3, 4096), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ub_hugemalloc(UB_HUGEPAGE_ANY, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ub_hugemalloc(UB_HUGEPAGE_ANY, SIZE_MAX), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(CommonTest, FrequencyIsThatOfAProcessor) {
  const double first = get_cpu_mhz(false);
  EXPECT_GT(first, 1.0);
  EXPECT_LT(first, 100000.0);
  EXPECT_NEAR(get_cpu_mhz(true) / first, 1.0, 0.05);
}

}  // namespace
