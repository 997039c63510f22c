// SPDX-License-Identifier: MIT
//
// One allocation fails, of a post, of a poll or of the service thread: the request of that moment
// ends, and the next one succeeds. What ends something needs no memory.
#include <gtest/gtest.h>

#include <functional>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/scarce_malloc.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

using ShortOfMemoryTest = ProcessTest;
using Request = std::function<urma_jfs_wr_t(Self&)>;

// More than a request causes, the connection included, which may be there before.
constexpr int kAllocations = 80;

// The first request of a process to a target, with this allocation failing.
void fail_allocation(int number, const Request& request) {
  SCOPED_TRACE(number);
  run_one([&](Channel&) {
    Self self;
    for (int i = 0; i < 2; ++i) self.endpoint.post_receive(self.segment, self.in(), kHalf, i);
    urma_jfs_wr_t wr = request(self);
    urma_jfs_wr_t* bad = nullptr;
    until_one_fails = number;
    const urma_status_t posted = self.endpoint.post(&wr, &bad);
    if (posted == URMA_SUCCESS) wait_for(self.endpoint.send_jfc);
    until_one_fails = 0;
    EXPECT_TRUE(posted == URMA_SUCCESS || posted == URMA_ENOMEM) << posted;
    self.endpoint.post(wr);
    wait_for_success(self.endpoint.send_jfc, wr.user_ctx);
  });
}

void fail_each(const Request& request) {
  SKIP_UNLESS_SHARED_MEMORY("a network has other requests under way");
  for (int number = 1; number <= kAllocations; ++number) fail_allocation(number, request);
}

TEST_F(ShortOfMemoryTest, AWriteEndsAndTheNextOneSucceeds) {
  fail_each([](Self& self) {
    static urma_sge_t local, remote;
    local = piece(self.segment, self.out(), 8);
    remote = piece(self.remote, self.remote->seg.ubva.va, 8);
    return write_request(self.queue, &local, &remote, 1);
  });
}

TEST_F(ShortOfMemoryTest, AMessageEndsAndTheNextOneSucceeds) {
  fail_each([](Self& self) {
    static urma_sge_t local;
    local = piece(self.segment, self.out(), kHalf / 2);
    return send_request(self.queue, &local, 1);
  });
}

// More than the end of an object causes.
constexpr int kAllocationsOfAnEnd = 8;

// Of a process that has written to its own memory and sent a message to itself.
void fail_each_of(const std::function<void(Self&)>& end) {
  for (int number = 1; number <= kAllocationsOfAnEnd; ++number) {
    SCOPED_TRACE(number);
    run_one([&](Channel&) {
      Self& self = *new Self;  // ends with its process: a part of it has ended before
      self.endpoint.post_receive(self.segment, self.in(), kHalf);
      urma_sge_t local = piece(self.segment, self.out(), 8);
      urma_sge_t remote = piece(self.remote, self.remote->seg.ubva.va, 8);
      self.endpoint.post(write_request(self.queue, &local, &remote, 1));
      wait_for_success(self.endpoint.send_jfc, 1);
      self.endpoint.post(send_request(self.queue, &local, 2));
      wait_for_success(self.endpoint.send_jfc, 2);
      until_one_fails = number;
      end(self);
      until_one_fails = 0;
    });
  }
}

TEST_F(ShortOfMemoryTest, ARegistrationEnds) {
  fail_each_of([](Self& self) { self.endpoint.remove(self.segment); });
}

TEST_F(ShortOfMemoryTest, AJettyEnds) {
  fail_each_of([](Self& self) { EXPECT_EQ(urma_delete_jetty(self.endpoint.jetty), URMA_SUCCESS); });
}

}  // namespace
}  // namespace urma_test
