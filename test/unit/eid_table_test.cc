// SPDX-License-Identifier: MIT
#include "jetty/eid_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace urma {
namespace {

urma_eid_t numbered(uint32_t number) {
  urma_eid_t eid = {};
  std::memcpy(eid.raw, &number, sizeof number);
  std::memcpy(eid.raw + 12, &number, sizeof number);
  return eid;
}

TEST(EidTable, TakesAsManyAsADeviceMayHave) {
  EidTable table(numbered(0));
  for (uint32_t i = 1; i < URMA_MAX_EID_CNT; ++i) ASSERT_TRUE(table.add(numbered(i)));
  EXPECT_FALSE(table.add(numbered(URMA_MAX_EID_CNT)));
  ASSERT_EQ(table.all().size(), size_t{URMA_MAX_EID_CNT});
  EXPECT_TRUE(table.has(numbered(URMA_MAX_EID_CNT - 1)));
  EXPECT_FALSE(table.has(numbered(URMA_MAX_EID_CNT)));
}

// Those that a reader has seen stay where they are, and all that it sees are whole.
TEST(EidTable, IsReadWhileItGrows) {
  EidTable table(numbered(0));
  const auto first = table.all();
  std::atomic<bool> wrong{false};
  std::thread reader([&] {
    for (size_t seen = 0; seen < URMA_MAX_EID_CNT;) {
      const auto all = table.all();
      if (all.size() < seen || all.data() != first.data()) wrong = true;
      for (; seen < all.size(); ++seen) {
        if (!same_eid(all[seen], numbered(static_cast<uint32_t>(seen)))) wrong = true;
      }
    }
  });
  for (uint32_t i = 1; i < URMA_MAX_EID_CNT; ++i) table.add(numbered(i));
  reader.join();
  EXPECT_FALSE(wrong);
}

}  // namespace
}  // namespace urma
