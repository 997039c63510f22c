// SPDX-License-Identifier: MIT
//
// Threads with little stack: those of the program that call the library, and the library's own.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <climits>
#include <future>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/sanitized.h"

namespace urma_test {
namespace {

// As docs/guide/service.md promises.
constexpr size_t kStack = 64 << 10;
constexpr size_t kMiB = 1 << 20;

class SmallStackTest : public ProcessTest {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer needs more stack";
  }
};

void shrink_stacks() {
  pthread_attr_t attributes;
  ASSERT_EQ(::pthread_attr_init(&attributes), 0);
  // On aarch64 no stack is smaller than 128 KiB.
  const size_t least = PTHREAD_STACK_MIN;
  ASSERT_EQ(::pthread_attr_setstacksize(&attributes, std::max(kStack, least)), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&attributes), 0);
  ::pthread_attr_destroy(&attributes);
}

// A message of a small and a large size each way, and requests to the peer's memory: one of them
// leaves its segment.
void do_everything(Channel& channel) {
  std::vector<char> memory(2 * kMiB);
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  urma_target_jetty_t* peer = endpoint.import(channel.swap(endpoint.queue_id()));
  urma_target_seg_t* remote = endpoint.import(channel.swap(endpoint.segment_id(segment)));
  for (const size_t size : {size_t{8}, kMiB}) {
    endpoint.post_receive(segment, memory.data(), kMiB);
    channel.sync();
    urma_sge_t here = piece(segment, memory.data() + kMiB, size);
    endpoint.post(send_request(peer, &here, 1));
    wait_for_success(endpoint.receive_jfc, 0);
    wait_for_success(endpoint.send_jfc, 1);
  }
  urma_sge_t here = piece(segment, memory.data(), kMiB);
  urma_sge_t there = piece(remote, remote->seg.ubva.va + kMiB, kMiB);
  endpoint.post(write_request(peer, &here, &there, 2));
  wait_for_success(endpoint.send_jfc, 2);
  endpoint.post(read_request(peer, &here, &there, 3));
  wait_for_success(endpoint.send_jfc, 3);
  there.addr += kMiB;
  endpoint.post(write_request(peer, &here, &there, 4));
  EXPECT_NE(wait_for(endpoint.send_jfc).status, URMA_CR_SUCCESS);
  channel.sync();
}

TEST_F(SmallStackTest, AllOfItFits) {
  const Body body = [](Channel& channel) {
    shrink_stacks();
    std::async(std::launch::async, [&] { do_everything(channel); }).get();
  };
  run_two("one", body, "other", body);
}

}  // namespace
}  // namespace urma_test
