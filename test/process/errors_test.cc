// SPDX-License-Identifier: MIT
//
// What is refused and how it is reported. A refused request moves and loses nothing: after every
// error a good request still works.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

constexpr size_t kSize = 4096;
constexpr uint8_t kUntouched = 0x11;
constexpr uint32_t kToken = 0xfeedc0de;
constexpr uint64_t kLocalFill = 0x7777777777777777;

struct Order {
  enum What { kExpectUntouched, kTouch, kPostReceive, kPoll, kUnregister, kEnd } what;
  uint64_t value;
};

// A process with one segment of kSize bytes in the middle of a larger buffer; follows orders.
Body target(const Config& config, uint32_t access, uint32_t token) {
  return [=](Channel& channel) {
    Endpoint endpoint(config);
    std::vector<uint8_t> memory(3 * kSize, kUntouched);
    const std::vector<uint8_t> untouched = memory;
    std::vector<uint8_t> inbox(kSize);
    urma_target_seg_t* segment = endpoint.add(memory.data() + kSize, kSize, access, token);
    urma_target_seg_t* inbox_segment = endpoint.add(inbox.data(), kSize, URMA_ACCESS_LOCAL_ONLY);
    channel.send(offer_of(endpoint, segment, token));
    while (true) {
      const Order order = channel.receive<Order>();
      if (order.what == Order::kEnd) break;
      EXPECT_TRUE(order.what != Order::kExpectUntouched || memory == untouched);
      if (order.what == Order::kTouch) memory = untouched;
      if (order.what == Order::kPostReceive) {
        endpoint.post_receive(inbox_segment, inbox.data(), order.value);
      }
      if (order.what == Order::kUnregister) endpoint.remove(segment);
      if (order.what == Order::kPoll) channel.send(wait_for(endpoint.receive_jfc));
      channel.sync();
    }
    EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
    endpoint.close();
  };
}

// The process that posts, and tells the target what to do.
class Poster {
 public:
  explicit Poster(Channel& channel, const Config& config = {})
      : endpoint(config), offer(channel.receive<Offer>()), channel_(channel), buffer_(kSize) {
    local = endpoint.add(buffer_.data(), kSize, URMA_ACCESS_LOCAL_ONLY);
    queue = endpoint.import(offer.queue);
    remote = endpoint.import(offer.segment);
  }

  void tell(Order::What what, uint64_t value = 0) {
    channel_.send(Order{what, value});
    channel_.sync();
  }
  urma_cr_t poll_target() {
    channel_.send(Order{Order::kPoll, 0});
    const urma_cr_t cr = channel_.receive<urma_cr_t>();
    channel_.sync();
    return cr;
  }
  void end() {
    EXPECT_TRUE(has_nothing(endpoint.send_jfc));
    channel_.send(Order{Order::kEnd, 0});
    endpoint.close();
  }

  // Runs one operation of 8 bytes on `segment` and returns its status. If it failed, the local
  // buffer must be unchanged too.
  urma_cr_status_t status_of(urma_opcode_t opcode, urma_target_seg_t* segment, uint64_t va,
                             size_t size = 8) {
    std::memset(buffer_.data(), static_cast<int>(kLocalFill & 0xff), kSize);
    urma_sge_t here = piece(local, buffer_.data(), size);
    urma_sge_t there = piece(segment, va, size);
    switch (opcode) {
      case URMA_OPC_WRITE:
        endpoint.post(write_request(queue, &here, &there));
        break;
      case URMA_OPC_READ:
        endpoint.post(read_request(queue, &here, &there));
        break;
      case URMA_OPC_CAS:
        endpoint.post(cas_request(queue, &here, &there, 0, 1));
        break;
      default:
        endpoint.post(add_request(queue, &here, &there, 1));
    }
    const urma_cr_status_t status = wait_for(endpoint.send_jfc).status;
    uint64_t word;
    std::memcpy(&word, buffer_.data(), sizeof(word));
    EXPECT_EQ(status == URMA_CR_SUCCESS ? kLocalFill : word, kLocalFill);
    return status;
  }
  void expect_refused(urma_target_seg_t* segment, uint64_t va, size_t size = 8) {
    EXPECT_EQ(status_of(URMA_OPC_WRITE, segment, va, size), URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(status_of(URMA_OPC_READ, segment, va, size), URMA_CR_REM_ACCESS_ABORT_ERR);
    if (size != 8 || va % 8 != 0) return;
    EXPECT_EQ(status_of(URMA_OPC_CAS, segment, va), URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(status_of(URMA_OPC_FADD, segment, va), URMA_CR_REM_ACCESS_ABORT_ERR);
  }
  void expect_granted() {
    EXPECT_EQ(status_of(URMA_OPC_WRITE, remote, offer.segment.va), URMA_CR_SUCCESS);
    EXPECT_EQ(status_of(URMA_OPC_READ, remote, offer.segment.va), URMA_CR_SUCCESS);
  }
  urma_cr_status_t send(urma_target_jetty_t* to, size_t size) {
    urma_sge_t here = piece(local, buffer_.data(), size);
    endpoint.post(send_request(to, &here));
    return wait_for(endpoint.send_jfc).status;
  }
  void expect_send_works() {
    tell(Order::kPostReceive, kSize);
    EXPECT_EQ(send(queue, 100), URMA_CR_SUCCESS);
    const urma_cr_t cr = poll_target();
    EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
    EXPECT_EQ(cr.completion_len, 100u);
  }

  Endpoint endpoint;
  Offer offer;
  urma_target_seg_t* local = nullptr;
  urma_target_seg_t* remote = nullptr;
  urma_target_jetty_t* queue = nullptr;

 private:
  Channel& channel_;
  std::vector<uint8_t> buffer_;
};

using ErrorsTest = ProcessTest;

TEST_F(ErrorsTest, WrongTokenOfASegment) {
  run_two(
      "poster",
      [](Channel& channel) {
        Poster poster(channel);
        for (uint32_t token : {kToken + 1, ~kToken, kNoToken}) {
          SCOPED_TRACE(token);
          SegmentId wrong = poster.offer.segment;
          wrong.token = token;
          poster.expect_refused(poster.endpoint.import(wrong), wrong.va);
        }
        SegmentId unknown = poster.offer.segment;
        unknown.token_id ^= 0x5a5a;
        poster.expect_refused(poster.endpoint.import(unknown), unknown.va);
        poster.tell(Order::kExpectUntouched);
        poster.expect_granted();
        poster.end();
      },
      "target", target({}, kAllAccess, kToken));
}

TEST_F(ErrorsTest, OutOfRange) {
  run_two(
      "poster",
      [](Channel& channel) {
        Poster poster(channel);
        // An importer may claim a larger segment; the owner checks.
        SegmentId larger = poster.offer.segment;
        larger.va -= kSize;
        larger.len += 2 * kSize;
        urma_target_seg_t* segment = poster.endpoint.import(larger);
        const uint64_t start = poster.offer.segment.va, end = start + kSize, last = ~uint64_t{0};
        for (urma_target_seg_t* through : {segment, poster.remote}) {
          for (uint64_t va : {start - 8, start - 1, end - 7, end, end + 8, uint64_t{8}, last - 3}) {
            SCOPED_TRACE(static_cast<int64_t>(va - start));
            poster.expect_refused(through, va);
          }
          poster.expect_refused(through, start + 1, kSize);
        }
        poster.tell(Order::kExpectUntouched);
        poster.expect_granted();
        EXPECT_EQ(poster.status_of(URMA_OPC_WRITE, poster.remote, end - 8), URMA_CR_SUCCESS);
        poster.end();
      },
      "target", target({}, kAllAccess, kNoToken));
}

struct Right {
  const char* name;
  uint32_t access;
  bool read, write, atomic;
};

class RightsTest : public ProcessTest, public ::testing::WithParamInterface<Right> {};

TEST_P(RightsTest, OnlyGrantedAccessSucceeds) {
  const Right& right = GetParam();
  auto poster_body = [&right](Channel& channel) {
    Poster poster(channel);
    auto expect = [&](urma_opcode_t opcode, bool granted) {
      SCOPED_TRACE(static_cast<int>(opcode));
      EXPECT_EQ(poster.status_of(opcode, poster.remote, poster.offer.segment.va),
                granted ? URMA_CR_SUCCESS : URMA_CR_REM_ACCESS_ABORT_ERR);
      if (!granted) poster.tell(Order::kExpectUntouched);
      poster.tell(Order::kTouch);
    };
    // Twice, so that a granted right does not imply another one.
    for (int round = 0; round < 2; ++round) {
      expect(URMA_OPC_READ, right.read);
      expect(URMA_OPC_WRITE, right.write);
      expect(URMA_OPC_CAS, right.atomic);
      expect(URMA_OPC_FADD, right.atomic);
    }
    poster.expect_send_works();
    poster.end();
  };
  run_two("poster", poster_body, "target", target({}, right.access, kNoToken));
}

INSTANTIATE_TEST_SUITE_P(
    All, RightsTest,
    ::testing::Values(Right{"LocalOnly", URMA_ACCESS_LOCAL_ONLY, false, false, false},
                      Right{"Read", URMA_ACCESS_READ, true, false, false},
                      Right{"ReadWrite", URMA_ACCESS_READ | URMA_ACCESS_WRITE, true, true, false},
                      Right{"ReadWriteAtomic", kAllAccess, true, true, true}),
    [](const ::testing::TestParamInfo<Right>& info) { return info.param.name; });

TEST_F(ErrorsTest, UnregisteredUnderTraffic) {
  auto poster_body = [](Channel& channel) {
    Poster poster(channel);
    const uint64_t va = poster.offer.segment.va;
    poster.expect_granted();
    poster.tell(Order::kTouch);
    channel.send(Order{Order::kUnregister, 0});
    while (poster.status_of(URMA_OPC_WRITE, poster.remote, va) == URMA_CR_SUCCESS) continue;
    channel.sync();
    // Everything that has arrived did so before the segment was unregistered.
    poster.tell(Order::kTouch);
    for (int i = 0; i < 50; ++i) poster.expect_refused(poster.remote, va);
    poster.expect_refused(poster.endpoint.import(poster.offer.segment), va);
    poster.tell(Order::kExpectUntouched);
    poster.expect_send_works();
    poster.end();
  };
  run_two("poster", poster_body, "target", target({}, kAllAccess, kNoToken));
}

class QueueErrorsTest : public ProcessTest, public ::testing::WithParamInterface<bool> {
 protected:
  static Config config(uint32_t token = kNoToken) {
    Config config;
    config.jetty = GetParam();
    config.token = token;
    return config;
  }
};

TEST_P(QueueErrorsTest, WrongTokenOfAQueue) {
  auto poster_body = [](Channel& channel) {
    Poster poster(channel, config());
    poster.tell(Order::kPostReceive, kSize);
    for (uint32_t token : {kToken + 1, ~kToken, kNoToken}) {
      SCOPED_TRACE(token);
      QueueId wrong = poster.offer.queue;
      wrong.token = token;
      EXPECT_EQ(poster.send(poster.endpoint.import(wrong), 100), URMA_CR_REM_ACCESS_ABORT_ERR);
    }
    // The receive is still there for the right message.
    EXPECT_EQ(poster.send(poster.queue, 100), URMA_CR_SUCCESS);
    EXPECT_EQ(poster.poll_target().completion_len, 100u);
    poster.end();
  };
  run_two("poster", poster_body, "target", target(config(kToken), kAllAccess, kNoToken));
}

TEST_P(QueueErrorsTest, ReceiveTooShort) {
  auto poster_body = [](Channel& channel) {
    Poster poster(channel, config());
    for (size_t room : {size_t{1}, size_t{63}, size_t{2000}}) {
      SCOPED_TRACE(room);
      poster.tell(Order::kPostReceive, room);
      EXPECT_EQ(poster.send(poster.queue, room + 1), URMA_CR_REM_RESP_LEN_ERR);
      EXPECT_EQ(poster.poll_target().status, URMA_CR_LOC_LEN_ERR);
      poster.expect_send_works();
    }
    poster.end();
  };
  run_two("poster", poster_body, "target", target(config(), kAllAccess, kNoToken));
}

TEST_P(QueueErrorsTest, NoProcessOwnsTheId) {
  auto poster_body = [](Channel& channel) {
    Poster poster(channel, config());
    QueueId same_process = poster.offer.queue, other_process = poster.offer.queue;
    same_process.id ^= 0x7abc;
    other_process.id ^= 0x7abc0000;
    QueueId other_device = poster.offer.queue;
    other_device.eid.raw[0] ^= 0xff;
    for (const QueueId& nobody : {same_process, other_process, other_device}) {
      const urma_cr_status_t status = poster.send(poster.endpoint.import(nobody), 100);
      EXPECT_TRUE(status == URMA_CR_ACK_TIMEOUT_ERR || status == URMA_CR_REM_ACCESS_ABORT_ERR)
          << status;
    }
    poster.expect_send_works();
    poster.expect_granted();
    poster.end();
  };
  run_two("poster", poster_body, "target", target(config(), kAllAccess, kNoToken));
}

TEST_P(QueueErrorsTest, SendQueueFull) {
  auto poster_body = [](Channel& channel) {
    Config small = config();
    small.send_depth = 4;
    Poster poster(channel, small);
    const Endpoint& endpoint = poster.endpoint;
    const uint32_t depth =
        endpoint.jetty ? endpoint.jetty->jetty_cfg.jfs_cfg.depth : endpoint.jfs->jfs_cfg.depth;
    EXPECT_GE(depth, 4u);
    urma_sge_t here = piece(poster.local, poster.local->seg.ubva.va, 8);
    urma_sge_t there = piece(poster.remote, poster.offer.segment.va, 8);
    std::vector<urma_jfs_wr_t> list(depth + 1, write_request(poster.queue, &here, &there));
    for (uint32_t i = 0; i <= depth; ++i) {
      list[i].user_ctx = i;
      list[i].next = i < depth ? &list[i + 1] : nullptr;
    }
    for (int round = 0; round < 3; ++round) {
      urma_jfs_wr_t* bad = nullptr;
      EXPECT_EQ(poster.endpoint.post(list.data(), &bad), URMA_ENOMEM);
      EXPECT_EQ(bad, &list[depth]);
      for (uint32_t i = 0; i < depth; ++i) wait_for_success(endpoint.send_jfc, i);
      poster.expect_granted();
    }
    poster.end();
  };
  run_two("poster", poster_body, "target", target(config(), kAllAccess, kNoToken));
}

TEST_P(QueueErrorsTest, ReceiveQueueFull) {
  run_one([](Channel&) {
    Config small = config();
    small.receive_depth = 4;
    std::vector<uint8_t> memory(kSize);
    OwnedEndpoint endpoint(small);
    urma_target_seg_t* segment = endpoint.add(memory.data(), kSize);
    urma_target_jetty_t* self = endpoint.import(endpoint.queue_id());
    const uint32_t depth = endpoint.jfr->jfr_cfg.depth;
    urma_sge_t here = piece(segment, memory.data(), 100);
    urma_jfr_wr_t wr = {};
    wr.src = {&here, 1};
    urma_jfr_wr_t* bad = nullptr;
    for (uint32_t i = 0; i < depth; ++i) EXPECT_EQ(endpoint.post_receive(&wr, &bad), URMA_SUCCESS);
    EXPECT_EQ(bad, nullptr);
    EXPECT_EQ(endpoint.post_receive(&wr, &bad), URMA_ENOMEM);
    EXPECT_EQ(bad, &wr);

    urma_sge_t there = piece(segment, memory.data() + 1000, 100);
    endpoint.post(send_request(self, &there, 7));
    wait_for_success(endpoint.send_jfc, 7);
    wait_for_success(endpoint.receive_jfc, 0);
    EXPECT_EQ(endpoint.post_receive(&wr, &bad), URMA_SUCCESS);
  });
}

INSTANTIATE_TEST_SUITE_P(All, QueueErrorsTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "Jetty" : "JfsJfr";
                         });

TEST_F(ErrorsTest, EveryPriorityOfTheDeviceAndNoOther) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    for (int priority : {0, 7, URMA_MAX_PRIORITY, URMA_MAX_PRIORITY + 1, 255}) {
      SCOPED_TRACE(priority);
      urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
      cfg.id = 0;
      cfg.jfs_cfg.priority = static_cast<uint8_t>(priority);
      errno = 0;
      urma_jfs_t* jfs = urma_create_jfs(endpoint.ctx, &cfg.jfs_cfg);
      urma_jetty_t* jetty = urma_create_jetty(endpoint.ctx, &cfg);
      if (priority <= URMA_MAX_PRIORITY) {
        EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
        EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
        continue;
      }
      EXPECT_EQ(jfs, nullptr);
      EXPECT_EQ(jetty, nullptr);
      EXPECT_EQ(errno, EINVAL);
    }
  });
}

TEST_F(ErrorsTest, ContextWithChildren) {
  run_one([](Channel&) {
    std::vector<uint8_t> memory(kSize);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), kSize);
    urma_target_jetty_t* self = endpoint.import(endpoint.queue_id());
    EXPECT_EQ(urma_delete_context(endpoint.ctx), URMA_EAGAIN);

    endpoint.post_receive(segment, memory.data(), 100, 1);
    urma_sge_t there = piece(segment, memory.data() + 1000, 100);
    endpoint.post(send_request(self, &there, 2));
    wait_for_success(endpoint.send_jfc, 2);
    wait_for_success(endpoint.receive_jfc, 1);

    // One child is enough.
    urma_context_t* other = urma_create_context(endpoint.ctx->dev, 0);
    urma_token_id_t* token_id = urma_alloc_token_id(other);
    ASSERT_NE(token_id, nullptr);
    EXPECT_EQ(urma_delete_context(other), URMA_EAGAIN);
    EXPECT_EQ(urma_free_token_id(token_id), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_context(other), URMA_SUCCESS);
  });
}

}  // namespace
}  // namespace urma_test
