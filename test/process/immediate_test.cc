// SPDX-License-Identifier: MIT
//
// Requests with 64 bits for the receiver's completion record: SEND_IMM, and WRITE_IMM, whose data
// is in place when the record is polled.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/sanitized.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

constexpr uint64_t kImmediate = 0xfedcba9876543210;
constexpr uint32_t kToken = 0x600dcafe;
constexpr char kUntouched = 0x33;

struct Shape {
  const char* name;
  bool jetty;
  urma_transport_mode_t mode;
};

class ImmediateTest : public ProcessTest, public testing::WithParamInterface<Shape> {
 protected:
  static Config config() {
    Config config;
    config.jetty = GetParam().jetty;
    config.mode = GetParam().mode;
    config.max_sge = 4;
    return config;
  }
};

void expect_record(const urma_cr_t& cr, urma_cr_opcode_t opcode, uint64_t immediate,
                   uint32_t bytes) {
  EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
  EXPECT_EQ(cr.opcode, opcode);
  EXPECT_EQ(cr.imm_data, immediate);
  EXPECT_EQ(cr.completion_len, bytes);
}

TEST_P(ImmediateTest, EmptyMessagesUseUpAReceive) {
  run_one([](Channel&) {
    Self self(config());
    for (uint64_t i = 0; i < 4; ++i) self.endpoint.post_receive(self.segment, self.in(), 8, i);
    std::memset(self.in(), kUntouched, 8);
    urma_jfs_wr_t requests[] = {send_imm_request(self.queue, nullptr, kImmediate, 0),
                                send_request(self.queue, nullptr, 1),
                                send_imm_request(self.queue, nullptr, 0, 2)};
    for (urma_jfs_wr_t& wr : requests) {
      wr.send.src = {nullptr, 0};
      self.endpoint.post(wr);
    }
    urma_sge_t there = piece(self.remote, self.in(), 0);
    urma_jfs_wr_t write = write_imm_request(self.queue, nullptr, &there, ~kImmediate, 3);
    write.rw.src = {nullptr, 0};
    self.endpoint.post(write);
    const urma_cr_opcode_t opcodes[] = {URMA_CR_OPC_SEND_WITH_IMM, URMA_CR_OPC_SEND,
                                        URMA_CR_OPC_SEND_WITH_IMM, URMA_CR_OPC_WRITE_WITH_IMM};
    const uint64_t immediates[] = {kImmediate, 0, 0, ~kImmediate};
    for (uint64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(wait_for_success(self.endpoint.send_jfc, i).completion_len, 0u);
      expect_record(wait_for_success(self.endpoint.receive_jfc, i), opcodes[i], immediates[i], 0);
    }
    EXPECT_EQ(std::string(self.in(), 8), std::string(8, kUntouched));
  });
}

// Only the immediate is received: address and length of the receive do not matter.
TEST_P(ImmediateTest, WriteLeavesTheReceiveBufferUnchanged) {
  run_one([](Channel&) {
    Self self(config());
    std::vector<char> gone(64, kUntouched);
    urma_target_seg_t* going = self.endpoint.add(gone.data(), gone.size());
    self.endpoint.post_receive(going, gone.data(), gone.size(), 1);
    self.endpoint.remove(going);
    urma_jfr_wr_t empty = {};
    empty.user_ctx = 2;
    urma_jfr_wr_t* bad = nullptr;
    ASSERT_EQ(self.endpoint.post_receive(&empty, &bad), URMA_SUCCESS);
    for (uint64_t i = 1; i <= 2; ++i) {
      std::memset(self.in(), 0, kHalf);
      urma_sge_t from = piece(self.segment, self.out(), 5000);
      urma_sge_t there = piece(self.remote, self.in(), 5000);
      self.endpoint.post(write_imm_request(self.queue, &from, &there, kImmediate + i, i));
      wait_for_success(self.endpoint.send_jfc, i);
      expect_record(wait_for_success(self.endpoint.receive_jfc, i), URMA_CR_OPC_WRITE_WITH_IMM,
                    kImmediate + i, 5000);
      EXPECT_TRUE(self.arrived(5000));
    }
    EXPECT_EQ(std::string(gone.data(), 64), std::string(64, kUntouched));
    self.endpoint.close();
  });
}

TEST_P(ImmediateTest, InlineAndInPieces) {
  run_one([](Channel&) {
    Self self(config());
    char word[300];
    std::memcpy(word, self.out(), sizeof(word));
    for (const bool send : {true, false}) {
      for (const bool inline_data : {true, false}) {
        std::memset(self.in(), 0, kHalf);
        self.endpoint.post_receive(self.segment, send ? self.in() : self.in() + 5000, 400);
        urma_target_seg_t* here = inline_data ? nullptr : self.segment;
        char* base = inline_data ? word : self.out();
        urma_sge_t from[] = {piece(here, base, 100), piece(here, base + 100, 1),
                             piece(here, base + 101, 199)};
        urma_sge_t there = piece(self.remote, self.in(), 300);
        urma_jfs_wr_t wr = send ? send_imm_request(self.queue, from, kImmediate, 1)
                                : write_imm_request(self.queue, from, &there, kImmediate, 1);
        (send ? wr.send.src : wr.rw.src).num_sge = 3;
        wr.flag.bs.inline_flag = inline_data;
        wr.flag.bs.solicited_enable = 1;
        self.endpoint.post(wr);
        wait_for_success(self.endpoint.send_jfc, 1);
        expect_record(wait_for_success(self.endpoint.receive_jfc, 0),
                      send ? URMA_CR_OPC_SEND_WITH_IMM : URMA_CR_OPC_WRITE_WITH_IMM, kImmediate,
                      300);
        EXPECT_TRUE(self.arrived(300));
      }
    }
    urma_device_attr_t attr;
    ASSERT_EQ(urma_query_device(self.endpoint.ctx->dev, &attr), URMA_SUCCESS);
    urma_sge_t from = piece(nullptr, self.out(), attr.dev_cap.max_jfs_inline_len + 1);
    urma_sge_t there = piece(self.remote, self.in(), 300);
    urma_jfs_wr_t wr = write_imm_request(self.queue, &from, &there, kImmediate, 2);
    wr.flag.bs.inline_flag = 1;
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(self.endpoint.post(&wr, &bad), URMA_EINVAL);
    EXPECT_EQ(bad, &wr);
  });
}

// The second of a chain wants no completion, the fourth is invalid, the fifth is not posted.
TEST_P(ImmediateTest, ChainEndsAtTheBadRequest) {
  run_one([](Channel&) {
    Self self(config());
    for (uint64_t i = 0; i < 5; ++i) self.endpoint.post_receive(self.segment, self.in(), 8, i);
    urma_sge_t from = piece(self.segment, self.out(), 8);
    urma_sge_t there = piece(self.remote, self.in() + 100, 8);
    urma_jfs_wr_t chain[] = {send_imm_request(self.queue, &from, 100, 0),
                             write_imm_request(self.queue, &from, &there, 101, 1),
                             send_request(self.queue, &from, 2),
                             write_imm_request(self.queue, &from, &there, 103, 3),
                             send_imm_request(self.queue, &from, 104, 4)};
    for (int i = 0; i < 4; ++i) chain[i].next = &chain[i + 1];
    chain[1].flag.bs.complete_enable = 0;
    chain[3].rw.dst.num_sge = 0;
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(self.endpoint.post(chain, &bad), URMA_EINVAL);
    EXPECT_EQ(bad, &chain[3]);
    wait_for_success(self.endpoint.send_jfc, 0);
    wait_for_success(self.endpoint.send_jfc, 2);
    EXPECT_EQ(wait_for_success(self.endpoint.receive_jfc, 0).imm_data, 100u);
    EXPECT_EQ(wait_for_success(self.endpoint.receive_jfc, 1).imm_data, 101u);
    EXPECT_EQ(wait_for_success(self.endpoint.receive_jfc, 2).opcode, URMA_CR_OPC_SEND);
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
    EXPECT_TRUE(has_nothing(self.endpoint.receive_jfc));
  });
}

TEST_P(ImmediateTest, ReceiverNotReadyFailsTheRequest) {
  Config impatient = config();
  impatient.rnr_retry = 2;
  run_one([impatient](Channel&) {
    Self self(impatient);
    urma_sge_t from = piece(self.segment, self.out(), 8);
    urma_sge_t there = piece(self.remote, self.in(), 8);
    self.endpoint.post(write_imm_request(self.queue, &from, &there, kImmediate, 1));
    wait_for_status(self.endpoint.send_jfc, URMA_CR_RNR_RETRY_CNT_EXC_ERR);
    EXPECT_TRUE(has_nothing(self.endpoint.receive_jfc));
    self.endpoint.post_receive(self.segment, self.in(), 0, 7);
    self.endpoint.post(write_imm_request(self.queue, &from, &there, kImmediate, 2));
    wait_for_success(self.endpoint.send_jfc, 2);
    wait_for_success(self.endpoint.receive_jfc, 7);
  });
}

// A sender with unlimited retries waits as long as needed, and completes no sooner. More of them
// than fit in the ring are all written exactly once.
TEST_P(ImmediateTest, WriteCompletesWithAReceiveAndNotBefore) {
  run_one([](Channel&) {
    constexpr uint64_t kRequests = 200;
    Config deep = config();
    deep.send_depth = deep.receive_depth = kRequests;
    Self self(deep);
    urma_sge_t there = piece(self.remote, self.in(), 8);
    for (uint64_t i = 0; i < kRequests; ++i) {
      urma_sge_t from = piece(self.segment, self.out() + i, 8);
      self.endpoint.post(write_imm_request(self.queue, &from, &there, i, i));
    }
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(has_nothing(self.endpoint.send_jfc));
    for (uint64_t i = 0; i < kRequests; ++i) {
      self.endpoint.post_receive(self.segment, self.in(), 8, i);
      wait_for_success(self.endpoint.send_jfc, i);
      EXPECT_EQ(wait_for_success(self.endpoint.receive_jfc, i).imm_data, i);
      EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
    }
  });
}

// The write is ordered after the read that fills its buffer.
TEST_P(ImmediateTest, FencedWriteWaitsForEarlierReads) {
  run_one([](Channel&) {
    Self self(config());
    urma_sge_t word = piece(self.segment, self.in(), 8);
    urma_sge_t there = piece(self.remote, self.in() + 100, 8);
    for (int round = 0; round < 20; ++round) {
      std::memset(self.in(), 0, 108);
      self.endpoint.post_receive(self.segment, self.in() + 200, 0);
      urma_target_seg_t* fresh = self.endpoint.import(self.endpoint.segment_id(self.segment));
      urma_sge_t from = piece(fresh, self.out(), 8);
      self.endpoint.post(read_request(self.queue, &word, &from, 1));
      urma_jfs_wr_t write = write_imm_request(self.queue, &word, &there, kImmediate, 2);
      write.flag.bs.fence = 1;
      self.endpoint.post(write);
      wait_for_success(self.endpoint.receive_jfc, 0);
      ASSERT_EQ(std::memcmp(self.in() + 100, self.out(), 8), 0) << round;
      wait_for_success(self.endpoint.send_jfc, 1);
      wait_for_success(self.endpoint.send_jfc, 2);
      self.endpoint.unimport(fresh);
    }
  });
}

// A refused request writes nothing, is not received, and leaves the receive to the next one.
TEST_P(ImmediateTest, RefusedWriteIsNotReceived) {
  run_one([](Channel&) {
    Config secret = config();
    secret.token = kToken;
    Self self(secret);
    std::vector<char> target(4096, kUntouched);
    urma_target_seg_t* open = self.endpoint.add(target.data(), 1000, kAllAccess, kToken);
    urma_target_seg_t* shut = self.endpoint.add(target.data() + 2000, 1000, URMA_ACCESS_READ);
    SegmentId wrong_token = self.endpoint.segment_id(open, kToken + 1);
    self.endpoint.post_receive(self.segment, self.in(), 8, 1);
    urma_sge_t from = piece(self.segment, self.out(), 100);
    const auto va = reinterpret_cast<uint64_t>(target.data());
    urma_target_seg_t* granted = self.endpoint.import(self.endpoint.segment_id(open, kToken));
    const auto refused = [&](urma_target_seg_t* segment, uint64_t to, urma_cr_status_t status) {
      urma_sge_t there = piece(segment, to, 100);
      self.endpoint.post(write_imm_request(self.queue, &from, &there, kImmediate));
      wait_for_status(self.endpoint.send_jfc, status);
    };
    refused(self.endpoint.import(wrong_token), va, URMA_CR_REM_ACCESS_ABORT_ERR);
    refused(granted, va + 901, URMA_CR_REM_ACCESS_ABORT_ERR);
    refused(granted, va - 1, URMA_CR_REM_ACCESS_ABORT_ERR);
    refused(self.endpoint.import(self.endpoint.segment_id(shut)), va + 2000,
            URMA_CR_REM_ACCESS_ABORT_ERR);
    from.addr = reinterpret_cast<uint64_t>(self.memory.data() + self.memory.size() - 50);
    refused(granted, va, URMA_CR_LOC_ACCESS_ERR);
    EXPECT_EQ(std::count(target.begin(), target.end(), kUntouched), 4096);
    EXPECT_TRUE(has_nothing(self.endpoint.receive_jfc));

    from.addr = reinterpret_cast<uint64_t>(self.out());
    urma_sge_t there = piece(granted, va, 100);
    self.endpoint.post(write_imm_request(self.queue, &from, &there, kImmediate, 2));
    wait_for_success(self.endpoint.send_jfc, 2);
    expect_record(wait_for_success(self.endpoint.receive_jfc, 1), URMA_CR_OPC_WRITE_WITH_IMM,
                  kImmediate, 100);
    EXPECT_EQ(std::memcmp(target.data(), self.out(), 100), 0);
    self.endpoint.close();
  });
}

// The queue refuses the message, so no byte may be written either.
TEST_P(ImmediateTest, WrongTokenOfTheQueueWritesNothing) {
  run_one([](Channel&) {
    Config secret = config();
    secret.token = kToken;
    Self self(secret);
    QueueId wrong = self.endpoint.queue_id();
    wrong.token = kToken + 1;
    urma_target_jetty_t* refusing = self.endpoint.import(wrong);
    if (secret.mode == URMA_TM_RC) {
      EXPECT_EQ(urma_unbind_jetty(self.endpoint.jetty), URMA_SUCCESS);
      self.endpoint.bind(refusing);
    }
    self.endpoint.post_receive(self.segment, self.in() + 100, 8);
    std::memset(self.in(), kUntouched, 8);
    urma_sge_t from = piece(self.segment, self.out(), 8);
    urma_sge_t there = piece(self.remote, self.in(), 8);
    self.endpoint.post(write_imm_request(refusing, &from, &there, kImmediate));
    wait_for_status(self.endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(std::string(self.in(), 8), std::string(8, kUntouched));
    EXPECT_TRUE(has_nothing(self.endpoint.receive_jfc));
  });
}

// What the writer in DataIsWrittenBeforeTheReceiveCompletes tells the receiver.
constexpr size_t kLarge = 24 << 20;
constexpr uint64_t kSmallRounds = repetitions(300);
constexpr uint64_t kRounds = kSmallRounds + repetitions(6);

size_t size_of(uint64_t round) {
  return round < kSmallRounds ? 8 * (1 + round % 600) : kLarge - round;
}
char fill_of(uint64_t round) { return static_cast<char>('A' + round % 50); }

// Polls move large writes in parts; the record follows the last part.
TEST_P(ImmediateTest, DataIsWrittenBeforeTheReceiveCompletes) {
  const auto receiver = [](Channel& channel) {
    std::vector<char> memory(kLarge);
    OwnedEndpoint endpoint(config());
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    urma_target_jetty_t* peer = endpoint.import(channel.swap(endpoint.queue_id()));
    if (endpoint.config.mode == URMA_TM_RC) endpoint.bind(peer);
    channel.send(endpoint.segment_id(segment));
    for (uint64_t round = 0; round < kRounds; ++round) {
      endpoint.post_receive(segment, memory.data(), 0, round);
      channel.sync();
      expect_record(wait_for_success(endpoint.receive_jfc, round), URMA_CR_OPC_WRITE_WITH_IMM,
                    kImmediate ^ round, static_cast<uint32_t>(size_of(round)));
      const auto end = memory.begin() + static_cast<ptrdiff_t>(size_of(round));
      ASSERT_EQ(std::count(memory.begin(), end, fill_of(round)), end - memory.begin()) << round;
    }
    channel.sync();
  };
  const auto writer = [](Channel& channel) {
    std::vector<char> memory(kLarge);
    OwnedEndpoint endpoint(config());
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    urma_target_jetty_t* queue = endpoint.import(channel.swap(endpoint.queue_id()));
    if (endpoint.config.mode == URMA_TM_RC) endpoint.bind(queue);
    urma_target_seg_t* remote = endpoint.import(channel.receive<SegmentId>());
    for (uint64_t round = 0; round < kRounds; ++round) {
      std::fill_n(memory.begin(), size_of(round), fill_of(round));
      urma_sge_t from = piece(segment, memory.data(), size_of(round));
      urma_sge_t there = piece(remote, remote->seg.ubva.va, size_of(round));
      channel.sync();
      endpoint.post(write_imm_request(queue, &from, &there, kImmediate ^ round, round));
      wait_for_success(endpoint.send_jfc, round);
    }
    channel.sync();
  };
  run_two("receiver", receiver, "writer", writer);
}

INSTANTIATE_TEST_SUITE_P(All, ImmediateTest,
                         testing::Values(Shape{"JfsJfr", false, URMA_TM_RM},
                                         Shape{"Jetty", true, URMA_TM_RM},
                                         Shape{"RcJetty", true, URMA_TM_RC}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace urma_test
