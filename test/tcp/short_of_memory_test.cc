// SPDX-License-Identifier: MIT
//
// One allocation fails, of the program or of the service thread: the request of that moment ends,
// and a later one to the same target succeeds. Both ends of the connection are in one process.
#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/self.h"

extern "C" void* __libc_malloc(size_t size);

namespace {

std::atomic<int> until_one_fails{0};  // 0: none

}  // namespace

extern "C" void* malloc(size_t size) {
  if (until_one_fails.load() > 0 && until_one_fails.fetch_sub(1) == 1) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(size);
}

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
// Processes that run beside each other.
constexpr size_t kAtOnce = 4;

using Request = std::function<urma_jfs_wr_t(Self&)>;

urma_sge_t local, remote;

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
    local = piece(self.segment, self.out(), bytes);
    return send_request(self.queue, &local);
  };
}

// False if the post was refused, or the request has ended with an error.
bool succeeds(Self& self, const Request& request) {
  urma_jfs_wr_t wr = request(self);
  urma_jfs_wr_t* bad = nullptr;
  const urma_status_t posted = self.endpoint.post(&wr, &bad);
  EXPECT_TRUE(posted == URMA_SUCCESS || posted == URMA_ENOMEM) << posted;
  return posted == URMA_SUCCESS &&
         wait_for(self.endpoint.send_jfc, kEnds).status == URMA_CR_SUCCESS;
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
    Self& self = *new Self;  // ends with its process
    for (int i = 0; i < 16; ++i) self.endpoint.post_receive(self.segment, self.in(), kHalf);
    before(self);
    until_one_fails = number;
    work(self);
    const bool failed = until_one_fails.exchange(0) == 0;
    expect_recovery(self, later);
    channel.send(failed);
  });
}

// The same with each of its allocations, in turn.
void fail_each(const std::function<void(Self&)>& before, const std::function<void(Self&)>& work,
               const Request& later) {
  std::deque<std::unique_ptr<Child>> children;
  bool failed = true;
  for (int number = 1; failed; ++number) {
    SCOPED_TRACE(number);
    ASSERT_LT(number, kMostAllocations);
    while (children.size() < kAtOnce) {
      const int next = number + static_cast<int>(children.size());
      children.push_back(fail(next, before, work, later));
    }
    failed = children.front()->channel().receive<bool>();
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

TEST_F(ShortOfMemoryTest, ALargeMessageEnds) { fail_each(write_to, message_of(kHalf)); }

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
  static urma_target_seg_t* segment;
  fail_each(
      [](Self& self) {
        segment = self.endpoint.add(other, sizeof(other));
        urma_target_seg_t* const imported = self.endpoint.import(self.endpoint.segment_id(segment));
        EXPECT_TRUE(succeeds(self, [imported](Self& writer) {
          local = piece(writer.segment, writer.out(), 8);
          remote = piece(imported, other, 8);
          return write_request(writer.queue, &local, &remote);
        }));
      },
      [](Self& self) { self.endpoint.remove(segment); }, write_to);
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
