// SPDX-License-Identifier: MIT
//
// What the ends of an iWARP connection exchange when it is made.
#include "urma/providers/verbs/cm_wire.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace urma::verbs {
namespace {

TEST(CmWireTest, TicketsRoundTrip) {
  const CmTicket ticket = {~uint64_t{0} - 1, 2, 3, 4, ~uint32_t{0} - 5};
  const auto bytes = encode_ticket(ticket);
  EXPECT_EQ(decode_ticket(bytes), ticket);
  std::vector<uint8_t> more(bytes.begin(), bytes.end());
  more.resize(196);
  EXPECT_EQ(decode_ticket(more), ticket);
  more.back() = 1;
  EXPECT_FALSE(decode_ticket(more).has_value());
  EXPECT_FALSE(decode_ticket(std::span(bytes).first(bytes.size() - 1)).has_value());
  for (size_t i = 0; i < 8; ++i) {
    auto other = bytes;
    other[i] ^= 1;
    EXPECT_FALSE(decode_ticket(other).has_value()) << i;
  }
}

TEST(CmWireTest, RefusalsRoundTrip) {
  const auto bytes = encode_refusal(Answer::kNoResources);
  EXPECT_EQ(decode_refusal(bytes), Answer::kNoResources);
  EXPECT_FALSE(decode_refusal(std::span(bytes).first(7)).has_value());
  EXPECT_FALSE(decode_refusal({}).has_value());
  for (const Answer none : {Answer::kAccepted, Answer::kUnreachable, static_cast<Answer>(99)}) {
    EXPECT_FALSE(decode_refusal(encode_refusal(none)).has_value());
  }
}

}  // namespace
}  // namespace urma::verbs
