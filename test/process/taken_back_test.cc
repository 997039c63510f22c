// SPDX-License-Identifier: MIT
//
// Messages whose memory is unregistered while they are sent, and used for something else: each ends
// only its own request, brings nothing that was stored there later, and leaves its receive to
// others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr size_t kSizes[] = {2000, 100'000, 8 << 20};
constexpr size_t kLargest = 8 << 20;
constexpr size_t kSmall = 8;
constexpr int kRounds = 36;
constexpr uint32_t kPosted = 2;
constexpr char kSent = 's';
constexpr char kLater = 'l';

// When the receiver has a receive for the message.
enum class Ready : char { kBefore, kAfter, kMeanwhile };

// Says after each round whether the message was received.
void receive(Channel& channel) {
  std::vector<std::vector<char>> memory(kPosted, std::vector<char>(kLargest));
  OwnedEndpoint endpoint;
  std::vector<urma_target_seg_t*> segments;
  for (auto& place : memory) segments.push_back(endpoint.add(place.data(), place.size()));
  channel.send(endpoint.queue_id());
  std::vector<uint64_t> free = {0, 1};
  for (int i = 0; i < kRounds; ++i) {
    const auto ready = channel.receive<Ready>();
    if (ready == Ready::kAfter) channel.sync();
    for (; !free.empty(); free.pop_back()) {
      const uint64_t place = free.back();
      endpoint.post_receive(segments[place], memory[place].data(), kLargest, place);
    }
    if (ready == Ready::kBefore) channel.sync();
    bool received = false;
    urma_cr_t record;
    do {
      record = wait_for(endpoint.receive_jfc);
      ASSERT_EQ(record.status, URMA_CR_SUCCESS);
      free.push_back(record.user_ctx);
      if (record.completion_len == kSmall) break;
      received = true;
      const char* bytes = memory[record.user_ctx].data();
      const auto others = std::count_if(bytes, bytes + record.completion_len,
                                        [](char byte) { return byte != kSent; });
      EXPECT_EQ(others, 0) << "of " << record.completion_len << " in round " << i;
    } while (true);
    channel.send(received);
  }
  channel.sync();
}

void send(Channel& channel) {
  std::vector<char> memory(kLargest);
  char small[kSmall] = {};
  OwnedEndpoint endpoint;
  urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
  urma_target_seg_t* stays = endpoint.add(small, kSmall);
  urma_sge_t here = piece(stays, small, kSmall);
  for (int i = 0; i < kRounds; ++i) {
    const auto ready = static_cast<Ready>(i % 3);
    const size_t size = kSizes[i / 3 % 3];
    std::memset(memory.data(), kSent, size);
    urma_target_seg_t* ends = endpoint.add(memory.data(), size);
    urma_sge_t whole = piece(ends, memory.data(), static_cast<uint32_t>(size));
    channel.send(ready);
    if (ready == Ready::kBefore) channel.sync();
    endpoint.post(send_request(queue, &whole));
    // A little more of it is sent each time.
    urma_cr_t record;
    bool ended = false;
    for (int polls = 0; polls < i && !ended; ++polls) {
      ended = urma_poll_jfc(endpoint.send_jfc, 1, &record) == 1;
    }
    endpoint.remove(ends);
    std::memset(memory.data(), kLater, size);
    // What no network had taken before ends without a receive.
    const bool ends_at_once = ready == Ready::kAfter && size == kLargest;
    if (ends_at_once) {
      if (!ended) record = wait_for(endpoint.send_jfc);
      EXPECT_EQ(record.status, URMA_CR_LOC_ACCESS_ERR);
    }
    if (ready == Ready::kAfter) channel.sync();
    if (!ended && !ends_at_once) record = wait_for(endpoint.send_jfc);
    endpoint.post(send_request(queue, &here, 1));
    wait_for_success(endpoint.send_jfc, 1);
    const bool received = channel.receive<bool>();
    EXPECT_EQ(record.status, received ? URMA_CR_SUCCESS : URMA_CR_LOC_ACCESS_ERR) << i;
  }
  channel.sync();
}

using TakenBackTest = ProcessTest;

TEST_F(TakenBackTest, OnlyWhatWasSentArrives) { run_two("receiver", receive, "sender", send); }

}  // namespace
}  // namespace urma_test
