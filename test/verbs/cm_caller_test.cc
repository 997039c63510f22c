// SPDX-License-Identifier: MIT
//
// Blocking calls, on threads of their own.
#include "urma/providers/verbs/cm_caller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

namespace urma::verbs {
namespace {

// Only failures take that long.
constexpr std::chrono::seconds kPatience(20);

TEST(CmCallerTest, CallsOneHostInOrder) {
  std::vector<int> order;  // by one thread at a time
  std::promise<void> last;
  CmCaller caller;
  NetAddress host = {};
  for (int i = 0; i < 100; ++i) {
    host.port = static_cast<uint16_t>(i);
    caller.call(host, 1, [&, i] {
      order.push_back(i);
      if (i == 99) last.set_value();
    });
  }
  ASSERT_EQ(last.get_future().wait_for(kPatience), std::future_status::ready);
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

// Each call that has begun may take minutes, and the end of the context waits for it.
TEST(CmCallerTest, PendingCallsAreDroppedAtTheEnd) {
  std::atomic<int> calls{0};
  std::promise<void> dropped;
  const std::shared_future<void> second_is_gone = dropped.get_future().share();
  {
    std::promise<void> begun;
    CmCaller caller;
    caller.call({}, 1, [&] {
      ++calls;
      begun.set_value();
      EXPECT_EQ(second_is_gone.wait_for(kPatience), std::future_status::ready);
    });
    ASSERT_EQ(begun.get_future().wait_for(kPatience), std::future_status::ready);
    const std::shared_ptr<void> guard(&dropped, [](std::promise<void>* it) { it->set_value(); });
    caller.call({}, 2, [&, guard] { ++calls; });
  }
  EXPECT_EQ(calls, 1);
}

TEST(CmCallerTest, PendingCallsCanBeWithdrawn) {
  std::vector<int> order;
  std::promise<void> begun;
  std::promise<void> go_on;
  std::promise<void> last;
  CmCaller caller;
  caller.call({}, 1, [&] {
    begun.set_value();
    go_on.get_future().wait_for(kPatience);
    order.push_back(1);
  });
  ASSERT_EQ(begun.get_future().wait_for(kPatience), std::future_status::ready);
  caller.call({}, 2, [&] { order.push_back(2); });
  caller.call({}, 3, [&] {
    order.push_back(3);
    last.set_value();
  });
  EXPECT_FALSE(caller.withdraw({}, 1));
  EXPECT_TRUE(caller.withdraw({}, 2));
  EXPECT_FALSE(caller.withdraw({}, 2));
  EXPECT_FALSE(caller.withdraw({}, 4));
  go_on.set_value();
  ASSERT_EQ(last.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(order, (std::vector<int>{1, 3}));
}

}  // namespace
}  // namespace urma::verbs
