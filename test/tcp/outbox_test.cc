// SPDX-License-Identifier: MIT
//
// What waits for room in a socket: copies, and payloads in the memory of their requests.
#include "urma/providers/tcp/outbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace urma::tcp {
namespace {

constexpr uint32_t kWay = 7;

void lend(Outbox* outbox, std::string* memory, const Outbox::Lender& lender) {
  const iovec piece = {memory->data(), memory->size()};
  outbox->lend({&piece, 1}, lender);
}

// "abcdefg", of which "bcd" and "fg" are lent.
struct TwoLent {
  TwoLent() {
    outbox.add(std::string_view("a"));
    lend(&outbox, &first, {Outbox::kAccess, 1});
    outbox.add(std::string_view("e"));
    lend(&outbox, &last, {kWay, 1});
  }
  std::string first = "bcd", last = "fg";
  Outbox outbox;
};

// Everything in it, as it leaves in steps of at most `step` bytes.
std::string drain(Outbox* outbox, size_t step) {
  std::string drained;
  while (outbox->bytes() != 0) {
    const IovecList next = outbox->next();
    const iovec first = next.list().front();
    const size_t bytes = std::min(step, first.iov_len);
    drained.append(static_cast<const char*>(first.iov_base), bytes);
    outbox->left(bytes);
  }
  return drained;
}

TEST(Outbox, KeepsTheOrderOfCopiesAndPayloads) {
  for (const size_t step : {1, 2, 3, 100}) {
    Outbox outbox;
    std::string one = "cd", two = "efg";
    const iovec pieces[] = {{one.data(), one.size()}, {two.data(), two.size()}};
    outbox.add(std::string_view("ab"));
    outbox.lend(pieces, {Outbox::kAccess, 1});
    outbox.add(std::string_view("h"));
    lend(&outbox, &one, {Outbox::kAccess, 2});
    EXPECT_EQ(outbox.bytes(), 10U);
    EXPECT_EQ(drain(&outbox, step), "abcdefghcd") << step;
  }
}

TEST(Outbox, ReadsNoMemoryOnceItIsTakenIn) {
  TwoLent two;
  two.outbox.left(2);
  two.outbox.take_in();
  two.first = two.last = "???";
  EXPECT_EQ(two.outbox.bytes(), 5U);
  EXPECT_EQ(drain(&two.outbox, 2), "cdefg");
}

TEST(Outbox, TakesInTheLastAlone) {
  TwoLent two;
  two.outbox.take_in_last();
  two.last = "??";
  two.first = "BCD";
  EXPECT_TRUE(two.outbox.lent_until({Outbox::kAccess, 1}));
  EXPECT_FALSE(two.outbox.lent_until({kWay, 1}));
  EXPECT_EQ(drain(&two.outbox, 3), "aBCDefg");
}

TEST(Outbox, TakesInTheRestOfTheLast) {
  Outbox outbox;
  std::string last = "bcde";
  outbox.add(std::string_view("a"));
  lend(&outbox, &last, {Outbox::kAccess, 1});
  outbox.left(3);
  outbox.take_in_last();
  last = "????";
  EXPECT_EQ(drain(&outbox, 1), "de");
  outbox.take_in_last();
  EXPECT_EQ(outbox.bytes(), 0U);
}

// What follows a payload says nothing about it: an early answer to the first of several is seen.
TEST(Outbox, KnowsWhoseMemoryItReads) {
  Outbox outbox;
  std::string memory = "bytes";
  lend(&outbox, &memory, {Outbox::kAccess, 3});
  lend(&outbox, &memory, {kWay, 9});
  EXPECT_FALSE(outbox.lent_until({Outbox::kAccess, 2}));
  EXPECT_TRUE(outbox.lent_until({Outbox::kAccess, 3}));
  EXPECT_TRUE(outbox.lent_until({Outbox::kAccess, 6}));
  EXPECT_FALSE(outbox.lent_until({kWay, 8}));
  EXPECT_TRUE(outbox.lent_until({kWay, 9}));
  EXPECT_FALSE(outbox.lent_until({kWay + 1, 9}));
  outbox.left(memory.size());
  EXPECT_FALSE(outbox.lent_until({Outbox::kAccess, 6}));
  EXPECT_TRUE(outbox.lent_until({kWay, 9}));
  outbox.left(memory.size());
  EXPECT_FALSE(outbox.lent_until({kWay, 9}));
}

}  // namespace
}  // namespace urma::tcp
