// SPDX-License-Identifier: MIT
//
// A segment that its owner unregisters while a peer reads or writes it, and then uses for something
// else: a read that succeeds has brought only what was registered, and no write comes later.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr size_t kBytes = 1 << 20;
constexpr size_t kPage = 4096;
constexpr int kRounds = 100;
constexpr char kRegistered = 'r';
constexpr char kLater = 'l';

void own(Channel& channel) {
  const auto writes = channel.receive<bool>();
  // Pages that are moved are others than those that are read.
  ::setenv("URMA_SHM_INPLACE", "0", 1);
  std::vector<char> memory(kBytes);
  OwnedEndpoint endpoint;
  channel.send(endpoint.queue_id());
  for (int i = 0; i < kRounds; ++i) {
    std::memset(memory.data(), kRegistered, kBytes);
    urma_target_seg_t* segment = endpoint.add(memory.data(), kBytes);
    channel.send(endpoint.segment_id(segment));
    channel.sync();
    // The first reads may find nothing to race with.
    for (volatile int wait = 0; wait < i * 1000;) wait = wait + 1;
    endpoint.remove(segment);
    // From the end on, towards a request in progress.
    for (size_t at = kBytes; at != 0; at -= kPage) memory[at - 1] = kLater;
    channel.sync();
    if (!writes) continue;
    for (size_t at = kBytes; at != 0; at -= kPage) ASSERT_EQ(memory[at - 1], kLater) << at;
  }
}

void access(Channel& channel, bool writes) {
  channel.send(writes);
  std::vector<char> memory(kBytes);
  OwnedEndpoint endpoint;
  urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
  urma_sge_t here = piece(endpoint.add(memory.data(), kBytes), memory.data(), kBytes);
  for (int i = 0; i < kRounds; ++i) {
    const auto id = channel.receive<SegmentId>();
    urma_target_seg_t* remote = endpoint.import(id);
    urma_sge_t there = {id.va, kBytes, remote, nullptr};
    channel.sync();
    urma_cr_t record;
    do {
      endpoint.post(writes ? write_request(queue, &here, &there)
                           : read_request(queue, &here, &there));
      record = wait_for(endpoint.send_jfc);
      if (record.status != URMA_CR_SUCCESS) break;
      EXPECT_EQ(std::count(memory.begin(), memory.end(), kLater), 0) << "in round " << i;
    } while (true);
    EXPECT_EQ(record.status, URMA_CR_REM_ACCESS_ABORT_ERR);
    endpoint.unimport(remote);
    channel.sync();
  }
}

using UnregisterRaceTest = ProcessTest;

TEST_F(UnregisterRaceTest, ReadBringsNothingLater) {
  run_two("owner", own, "reader", [](Channel& channel) { access(channel, /*writes=*/false); });
}

TEST_F(UnregisterRaceTest, NoWriteComesLater) {
  run_two("owner", own, "writer", [](Channel& channel) { access(channel, /*writes=*/true); });
}

}  // namespace
}  // namespace urma_test
