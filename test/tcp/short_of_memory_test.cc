// SPDX-License-Identifier: MIT
//
// One allocation fails, of the program or of the service thread: the request of that moment ends,
// and a later one to the same target succeeds. Both ends of the connection are in one process.
#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/scarce_malloc.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

class ShortOfMemoryTest : public ProcessTest {
 protected:
  ShortOfMemoryTest() { ::setenv("URMA_TCP_TIMEOUT_MS", "400", 1); }
};

// Many timeouts; a request that hangs takes longer.
constexpr seconds kEnds{8};
// More than any of these causes.
constexpr int kMostAllocations = 400;
// Requests in flight.
constexpr int kMany = 48;
// Processes that run beside each other.
constexpr size_t kAtOnce = 4;

using Request = std::function<urma_jfs_wr_t(Self&)>;

// Of the process: messages come into the first half of `memory`, and leave from the second.
constexpr size_t kLarge = (1 << 20) + 4096;  // more than leaves in one piece
char memory[2 * kLarge];
urma_target_seg_t* segment;
urma_sge_t local, remote;
uint64_t last_request = 0;

urma_jfs_wr_t write_to(Self& self) {
  local = piece(self.segment, self.out(), 8);
  remote = piece(self.remote, self.remote->seg.ubva.va, 8);
  return write_request(self.queue, &local, &remote);
}

urma_jfs_wr_t read_from(Self& self) {
  local = piece(self.segment, self.in(), kHalf);
  remote = piece(self.remote, self.remote->seg.ubva.va + kHalf, kHalf);
  return read_request(self.queue, &local, &remote);
}

urma_jfs_wr_t add_to(Self& self) {
  local = piece(self.segment, self.out(), 8);
  remote = piece(self.remote, self.remote->seg.ubva.va, 8);
  return fetch_request(URMA_OPC_FADD, self.queue, &local, &remote, 1);
}

Request message_of(size_t bytes) {
  return [bytes](Self& self) {
    local = piece(segment, memory + kLarge, bytes);
    return send_request(self.queue, &local);
  };
}

// False if the post was refused.
bool posts(Self& self, const Request& request) {
  urma_jfs_wr_t wr = request(self);
  wr.user_ctx = ++last_request;
  urma_jfs_wr_t* bad = nullptr;
  const urma_status_t posted = self.endpoint.post(&wr, &bad);
  EXPECT_TRUE(posted == URMA_SUCCESS || posted == URMA_ENOMEM) << posted;
  return posted == URMA_SUCCESS;
}

// The same if the request has ended with an error.
bool succeeds(Self& self, const Request& request) {
  if (!posts(self, request)) return false;
  const urma_cr_t record = wait_for(self.endpoint.send_jfc, kEnds);
  EXPECT_EQ(record.user_ctx, last_request);
  return record.status == URMA_CR_SUCCESS;
}

// What a failure has ended may end the first requests after it.
void expect_recovery(Self& self, const Request& request) {
  const auto deadline = Clock::now() + patience(kEnds);
  while (!succeeds(self, request)) ASSERT_LT(Clock::now(), deadline);
}

// A process that calls `before`, and then `work` with that allocation failing; it sends whether one
// has.
std::unique_ptr<Child> fail(int number, const std::function<void(Self&)>& before,
                            const std::function<void(Self&)>& work, const Request& later) {
  return std::make_unique<Child>("self", [=](Channel& channel) {
    Config config;
    config.events = true;
    Self& self = *new Self(config);  // ends with its process
    segment = self.endpoint.add(memory, sizeof(memory));
    for (int i = 0; i < 16; ++i) self.endpoint.post_receive(segment, memory, kLarge);
    before(self);
    until_one_fails = number;
    work(self);
    const bool failed = until_one_fails.exchange(0) <= 0;
    expect_recovery(self, later);
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
    channel.send(failed);
  });
}

// The same with each of its allocations, in turn.
void fail_each(const std::function<void(Self&)>& before, const std::function<void(Self&)>& work,
               const Request& later) {
  std::deque<std::unique_ptr<Child>> children;
  // One may make a few less than another.
  size_t without = 0;
  for (int number = 1; without < kAtOnce; ++number) {
    SCOPED_TRACE(number);
    ASSERT_LT(number, kMostAllocations);
    while (children.size() < kAtOnce) {
      const int next = number + static_cast<int>(children.size());
      children.push_back(fail(next, before, work, later));
    }
    without = children.front()->channel().receive<bool>() ? 0 : without + 1;
    children.front()->expect_success();
    children.pop_front();
  }
}

void fail_each(const Request& before, const Request& request) {
  fail_each([&](Self& self) { EXPECT_TRUE(before == nullptr || succeeds(self, before)); },
            [&](Self& self) { succeeds(self, request); }, request);
}

TEST_F(ShortOfMemoryTest, TheFirstWriteEnds) { fail_each(nullptr, write_to); }

TEST_F(ShortOfMemoryTest, TheFirstMessageEnds) { fail_each(nullptr, message_of(8)); }

TEST_F(ShortOfMemoryTest, ALargeMessageEnds) { fail_each(write_to, message_of(kLarge)); }

// The service thread receives their reports, at once, and wakes whoever waits for them.
TEST_F(ShortOfMemoryTest, ManyWritesEnd) {
  fail_each([](Self& self) { EXPECT_TRUE(succeeds(self, write_to)); },
            [](Self& self) {
              const urma_status_t armed = urma_rearm_jfc(self.endpoint.send_jfc, false);
              EXPECT_TRUE(armed == URMA_SUCCESS || armed == URMA_ENOMEM) << armed;
              bool under_way[kMany + 1] = {};
              const uint64_t before = last_request;
              int posted = 0;
              for (int i = 0; i < kMany; ++i) {
                if (!posts(self, write_to)) continue;
                under_way[last_request - before] = true;
                ++posted;
              }
              for (; posted > 0; --posted) {
                const urma_cr_t record = wait_for(self.endpoint.send_jfc, kEnds);
                const uint64_t number = record.user_ctx - before;
                ASSERT_LE(number, uint64_t{kMany});
                EXPECT_TRUE(std::exchange(under_way[number], false)) << number;
              }
            },
            write_to);
}

TEST_F(ShortOfMemoryTest, AReadEnds) { fail_each(write_to, read_from); }

TEST_F(ShortOfMemoryTest, AnAtomicEnds) { fail_each(write_to, add_to); }

// Asks for another grant, over a connection that there is.
TEST_F(ShortOfMemoryTest, AnImportEnds) {
  fail_each([](Self& self) { EXPECT_TRUE(succeeds(self, write_to)); },
            [](Self& self) {
              urma_seg_t described = self.remote->seg;
              described.ubva.va += kHalf;
              described.len = kHalf;
              urma_token_t token = {};
              urma_target_seg_t* const part =
                  urma_import_seg(self.endpoint.ctx, &described, &token, 0, {});
              if (part == nullptr) {
                EXPECT_EQ(errno, ENOMEM);
                return;
              }
              succeeds(self, [part](Self& writer) {
                local = piece(writer.segment, writer.out(), 8);
                remote = piece(part, part->seg.ubva.va, 8);
                return write_request(writer.queue, &local, &remote);
              });
            },
            write_to);
}

// Its peer, which has written to it, is told.
TEST_F(ShortOfMemoryTest, ARegistrationEnds) {
  static char other[64];
  static urma_target_seg_t* ending;
  fail_each(
      [](Self& self) {
        ending = self.endpoint.add(other, sizeof(other));
        urma_target_seg_t* const imported = self.endpoint.import(self.endpoint.segment_id(ending));
        EXPECT_TRUE(succeeds(self, [imported](Self& writer) {
          local = piece(writer.segment, writer.out(), 8);
          remote = piece(imported, other, 8);
          return write_request(writer.queue, &local, &remote);
        }));
      },
      [](Self& self) { self.endpoint.remove(ending); }, write_to);
}

// That of a queue that begins anew, and the next one.
TEST_F(ShortOfMemoryTest, AWayEnds) {
  const auto set = [](Self& self, urma_jetty_state_t state) {
    urma_jetty_attr_t attr = {};
    attr.mask = JETTY_STATE;
    attr.state = state;
    const urma_status_t status = urma_modify_jetty(self.endpoint.jetty, &attr);
    EXPECT_TRUE(status == URMA_SUCCESS || status == URMA_ENOMEM) << status;
    return status == URMA_SUCCESS;
  };
  const auto begin_anew = [=](Self& self) {
    return set(self, URMA_JETTY_STATE_RESET) && set(self, URMA_JETTY_STATE_READY);
  };
  fail_each([](Self& self) { EXPECT_TRUE(succeeds(self, message_of(8))); },
            [&](Self& self) {
              if (begin_anew(self)) succeeds(self, message_of(8));
            },
            [&](Self& self) {
              EXPECT_TRUE(begin_anew(self));
              return message_of(8)(self);
            });
}

}  // namespace
}  // namespace urma_test
