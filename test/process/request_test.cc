// SPDX-License-Identifier: MIT
//
// The forms of a request: lists of pieces, inline data, chains, no completion, flat calls, ids
// chosen by the program, receivers that are not ready.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/owned.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

class RequestTest : public ProcessTest, public testing::WithParamInterface<bool> {
 protected:
  Config config() const {
    Config config;
    config.jetty = GetParam();
    config.max_sge = 4;
    return config;
  }
};

// Small ones travel in the ring, large ones by reference: both gather and scatter.
TEST_P(RequestTest, GathersAndScattersPieces) {
  run_one([config = config()](Channel&) {
    Self self(config);
    for (const uint32_t size : {5u, 300u, 4000u, 60000u}) {
      SCOPED_TRACE(size);
      std::memset(self.in(), 0, kHalf);
      const uint32_t a = size / 5, b = size / 2;
      urma_sge_t from[] = {piece(self.segment, self.out(), a), piece(self.segment, self.out(), 0),
                           piece(self.segment, self.out() + a, b),
                           piece(self.segment, self.out() + a + b, size - a - b)};
      urma_sge_t into[] = {piece(self.segment, self.in(), b), piece(self.segment, self.in() + b, a),
                           piece(self.segment, self.in() + a + b, size)};
      urma_jfr_wr_t receive = {};
      receive.src = {into, 3};
      urma_jfr_wr_t* bad_receive;
      ASSERT_EQ(self.endpoint.post_receive(&receive, &bad_receive), URMA_SUCCESS);
      urma_jfs_wr_t wr = send_request(self.queue, from, size);
      wr.send.src.num_sge = 4;
      self.endpoint.post(wr);
      wait_for_success(self.endpoint.send_jfc, size);
      EXPECT_EQ(wait_for(self.endpoint.receive_jfc).completion_len, size);
      EXPECT_TRUE(self.arrived(size));

      std::memset(self.in(), 0, kHalf);
      urma_sge_t there = piece(self.remote, self.in(), size);
      wr = write_request(self.queue, from, &there, size);
      wr.rw.src.num_sge = 4;
      self.endpoint.post(wr);
      wait_for_success(self.endpoint.send_jfc, size);
      EXPECT_TRUE(self.arrived(size));
    }
  });
}

// The buffer is free at once and needs no segment; a write can be inline too.
TEST_P(RequestTest, InlineDataIsTakenAtPost) {
  run_one([config = config()](Channel&) {
    Self self(config);
    char word[200];
    urma_sge_t from = piece(nullptr, word, sizeof(word));
    urma_sge_t there = piece(self.remote, self.in() + 1000, sizeof(word));
    self.endpoint.post_receive(self.segment, self.in(), 500);
    for (const bool send : {true, false}) {
      std::memset(word, 'x', sizeof(word));
      urma_jfs_wr_t wr =
          send ? send_request(self.queue, &from, 1) : write_request(self.queue, &from, &there, 1);
      wr.flag.bs.inline_flag = 1;
      self.endpoint.post(wr);
      std::memset(word, 'y', sizeof(word));
      wait_for_success(self.endpoint.send_jfc, 1);
      // A receive owns its memory until its record arrives.
      if (send) {
        EXPECT_EQ(wait_for(self.endpoint.receive_jfc).completion_len, sizeof(word));
      }
      EXPECT_EQ(std::string(self.in() + (send ? 0 : 1000), sizeof(word)),
                std::string(sizeof(word), 'x'));
    }
    // Longer than max_inline_data of the queue: refused at once, nothing posted.
    urma_device_attr_t attr;
    ASSERT_EQ(urma_query_device(self.endpoint.ctx->dev, &attr), URMA_SUCCESS);
    from = piece(nullptr, self.out(), attr.dev_cap.max_jfs_inline_len + 1);
    urma_jfs_wr_t wr = send_request(self.queue, &from, 2);
    wr.flag.bs.inline_flag = 1;
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(self.endpoint.post(&wr, &bad), URMA_EINVAL);
    EXPECT_EQ(bad, &wr);
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
  });
}

// The requests before the invalid one are posted; it and those after it are not.
TEST_P(RequestTest, ChainEndsAtTheBadRequest) {
  run_one([config = config()](Channel&) {
    Self self(config);
    urma_sge_t from = piece(self.segment, self.out(), 8);
    urma_sge_t there = piece(self.remote, self.in(), 8);
    urma_jfs_wr_t chain[4];
    for (uint64_t i = 0; i < 4; ++i) chain[i] = write_request(self.queue, &from, &there, i);
    chain[1].flag.bs.complete_enable = 0;
    chain[2].opcode = URMA_OPC_FLUSH_DMA;
    for (int i = 0; i < 3; ++i) chain[i].next = &chain[i + 1];
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(self.endpoint.post(chain, &bad), URMA_EINVAL);
    EXPECT_EQ(bad, &chain[2]);
    wait_for_success(self.endpoint.send_jfc, 0);
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
    EXPECT_TRUE(self.arrived(8));
  });
}

// Each chain fills the queue, of which some records were not polled, and has one request too many.
TEST_P(RequestTest, ChainsGoAroundAFullQueue) {
  Config shallow = config();
  shallow.send_depth = 7;
  run_one([shallow](Channel&) {
    Self self(shallow);
    urma_sge_t from = piece(self.segment, self.out(), 8);
    urma_sge_t there = piece(self.remote, self.in(), 8);
    uint64_t posted = 0, polled = 0;
    for (int round = 0; round < 50; ++round) {
      const bool messages = round % 3 != 0;
      const size_t room = shallow.send_depth - (posted - polled);
      std::vector<urma_jfs_wr_t> chain(room + 1);
      for (size_t i = 0; i <= room; ++i) {
        chain[i] = messages ? send_request(self.queue, &from, posted + i)
                            : write_request(self.queue, &from, &there, posted + i);
        chain[i].next = i < room ? &chain[i + 1] : nullptr;
        if (messages) self.endpoint.post_receive(self.segment, self.in(), 8);
      }
      urma_jfs_wr_t* bad = nullptr;
      EXPECT_EQ(self.endpoint.post(chain.data(), &bad), URMA_ENOMEM);
      EXPECT_EQ(bad, &chain.back());
      posted += room;
      for (size_t i = 0; messages && i < room; ++i) wait_for_success(self.endpoint.receive_jfc, 0);
      while (posted - polled > static_cast<uint64_t>(round % 4)) {
        wait_for_success(self.endpoint.send_jfc, polled++);
      }
    }
  });
}

TEST_P(RequestTest, PiecesOutsideTheirSegmentFailOnlyTheirRequest) {
  run_one([config = config()](Channel&) {
    Self self(config);
    urma_sge_t beyond = piece(self.segment, self.memory.data() + self.memory.size() - 4, 8);
    urma_sge_t there = piece(self.remote, self.in(), 8);
    self.endpoint.post(write_request(self.queue, &beyond, &there, 1));
    wait_for_status(self.endpoint.send_jfc, URMA_CR_LOC_ACCESS_ERR);
    urma_sge_t from = piece(self.segment, self.out(), 8);
    self.endpoint.post(write_request(self.queue, &from, &there, 2));
    wait_for_success(self.endpoint.send_jfc, 2);
  });
}

// Another JFR of the endpoint, which asks its senders for these pauses.
urma_jfr_t* pausing_jfr(const Endpoint& endpoint, uint8_t min_rnr_timer) {
  urma_jfr_cfg_t cfg = endpoint.jfr->jfr_cfg;
  cfg.id = 0;
  cfg.min_rnr_timer = min_rnr_timer;
  return urma_create_jfr(endpoint.ctx, &cfg);
}

TEST_P(RequestTest, ReceiverNotReadyIsReportedAfterTheRetries) {
  Config impatient = config();
  impatient.rnr_retry = 2;
  run_one([impatient](Channel&) {
    constexpr uint8_t kTimer = 20;  // 10.24 ms
    Self self(impatient);
    const OwnedJfr jfr = pausing_jfr(self.endpoint, kTimer);
    urma_rjfr_t remote = remote_jfr(jfr->jfr_id);
    const ImportedJfr slow = urma_import_jfr(self.endpoint.ctx, &remote, nullptr);
    urma_sge_t from = piece(self.segment, self.out(), 8);
    const auto posted = Clock::now();
    self.endpoint.post(send_request(slow, &from, 1));
    wait_for_status(self.endpoint.send_jfc, URMA_CR_RNR_RETRY_CNT_EXC_ERR);
    EXPECT_GE(Clock::now() - posted, milliseconds(20));
    EXPECT_TRUE(has_nothing(self.endpoint.receive_jfc));
    self.endpoint.post(send_request(self.queue, &from, 2));
    wait_for_status(self.endpoint.send_jfc, URMA_CR_RNR_RETRY_CNT_EXC_ERR);
    self.endpoint.post_receive(self.segment, self.in(), 100);
    self.endpoint.post(send_request(self.queue, &from, 3));
    wait_for_success(self.endpoint.send_jfc, 3);
    wait_for_success(self.endpoint.receive_jfc, 0);
  });
}

// Each number from 7 on is no limit, however short the pauses are.
TEST_P(RequestTest, SevenRetriesAndMoreHaveNoLimit) {
  for (const uint8_t retries : {7, 8, 255}) {
    Config patient = config();
    patient.rnr_retry = retries;
    run_one([patient](Channel&) {
      constexpr uint8_t kTimer = 1;  // 10 us
      Self self(patient);
      const OwnedJfr jfr = pausing_jfr(self.endpoint, kTimer);
      urma_rjfr_t remote = remote_jfr(jfr->jfr_id);
      const ImportedJfr target = urma_import_jfr(self.endpoint.ctx, &remote, nullptr);
      urma_sge_t from = piece(self.segment, self.out(), 8);
      self.endpoint.post(send_request(target, &from, 1));
      const auto until = Clock::now() + milliseconds(20);
      while (Clock::now() < until) ASSERT_TRUE(has_nothing(self.endpoint.send_jfc));
      urma_sge_t into = piece(self.segment, self.in(), 8);
      urma_jfr_wr_t receive = {{&into, 1}, 2, nullptr}, *bad = nullptr;
      EXPECT_EQ(urma_post_jfr_wr(jfr, &receive, &bad), URMA_SUCCESS);
      wait_for_success(self.endpoint.send_jfc, 1);
      wait_for_success(self.endpoint.receive_jfc, 2);
    });
  }
}

// Their JFC is not polled, and the queue takes any number of them.
TEST_P(RequestTest, RequestsWithoutARecordLeaveTheirPlaces) {
  Config shallow = config();
  shallow.send_depth = 4;
  run_one([shallow](Channel&) {
    Self self(shallow);
    urma_sge_t from = piece(self.segment, self.out(), 8);
    for (uint64_t i = 0; i < 40; ++i) {
      self.endpoint.post_receive(self.segment, self.in(), 8, i);
      urma_jfs_wr_t wr = send_request(self.queue, &from, i);
      wr.flag.bs.complete_enable = 0;
      urma_jfs_wr_t* bad = nullptr;
      urma_status_t status;
      // Those before it have been received, but may not be known to be.
      const auto deadline = Clock::now() + patience(seconds(10));
      while ((status = self.endpoint.post(&wr, &bad)) == URMA_ENOMEM) {
        ASSERT_LT(Clock::now(), deadline);
      }
      ASSERT_EQ(status, URMA_SUCCESS);
      wait_for_success(self.endpoint.receive_jfc, i);
    }
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
  });
}

// The send takes a way of its own: imports with different tokens share none. Only the fence keeps
// it behind the read, whose segment is new, so that its owner has to be asked first.
TEST_P(RequestTest, FencedRequestWaitsForEarlierReads) {
  run_one([config = config()](Channel&) {
    Self self(config);
    QueueId same_queue = self.endpoint.queue_id();
    same_queue.token = 4711;  // which the queue does not ask for
    urma_target_jetty_t* other_way = self.endpoint.import(same_queue);
    urma_sge_t word = piece(self.segment, self.in(), 8);
    // So that the way is open, and nothing else holds the send up.
    self.endpoint.post_receive(self.segment, self.in() + 100, 8);
    self.endpoint.post(send_request(other_way, &word, 3));
    wait_for_success(self.endpoint.send_jfc, 3);
    wait_for_success(self.endpoint.receive_jfc, 0);
    for (int round = 0; round < 50; ++round) {
      std::memset(self.in(), 0, 8);
      self.endpoint.post_receive(self.segment, self.in() + 100, 8);
      urma_target_seg_t* source = self.endpoint.add(self.out(), 8);
      urma_target_seg_t* fresh = self.endpoint.import(self.endpoint.segment_id(source));
      urma_sge_t from = piece(fresh, self.out(), 8);
      self.endpoint.post(read_request(self.queue, &word, &from, 1));
      urma_jfs_wr_t send = send_request(other_way, &word, 2);
      send.flag.bs.fence = 1;
      self.endpoint.post(send);
      wait_for_success(self.endpoint.send_jfc, 1);
      wait_for_success(self.endpoint.send_jfc, 2);
      wait_for_success(self.endpoint.receive_jfc, 0);
      ASSERT_EQ(std::memcmp(self.in() + 100, self.out(), 8), 0) << round;
      self.endpoint.unimport(fresh);
      self.endpoint.remove(source);
    }
  });
}

TEST_P(RequestTest, NopCompletesInPostOrder) {
  run_one([config = config()](Channel&) {
    Self self(config);
    self.endpoint.post(nop_request(self.queue, 1));
    EXPECT_EQ(wait_for_success(self.endpoint.send_jfc, 1).completion_len, 0u);
    // After a message that waits for its receive.
    urma_sge_t from = piece(self.segment, self.out(), 8);
    self.endpoint.post(send_request(self.queue, &from, 2));
    self.endpoint.post(nop_request(self.queue, 3));
    urma_jfs_wr_t silent = nop_request(self.queue, 4);
    silent.flag.bs.complete_enable = 0;
    self.endpoint.post(silent);
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
    self.endpoint.post_receive(self.segment, self.in(), 8);
    wait_for_success(self.endpoint.send_jfc, 2);
    wait_for_success(self.endpoint.send_jfc, 3);
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
  });
}

// Two imports of one queue share one path to it.
TEST_P(RequestTest, MessagesOverTwoImportsStayInOrder) {
  run_one([config = config()](Channel&) {
    Self self(config);
    urma_target_jetty_t* second = self.endpoint.import(self.endpoint.queue_id());
    urma_sge_t from = piece(self.segment, self.out(), 8);
    for (uint32_t i = 1; i <= 4; ++i) {
      from.len = i;
      self.endpoint.post(send_request(i % 2 == 0 ? self.queue : second, &from, i));
    }
    self.endpoint.unimport(second);
    for (uint32_t i = 1; i <= 4; ++i) {
      self.endpoint.post_receive(self.segment, self.in(), 8);
      EXPECT_EQ(wait_for(self.endpoint.receive_jfc).completion_len, i);
      wait_for_success(self.endpoint.send_jfc, i);
    }
  });
}

// A refused request still leads to its target; the next one is not executed either.
TEST_P(RequestTest, RefusedRequestDoesNotLetAStoppedQueueExecute) {
  run_one([config = config()](Channel&) {
    Self self(config);
    urma_target_seg_t* mapped = self.endpoint.import(self.endpoint.segment_id(self.segment), true);
    char* const word = self.in() + kHalf / 2;
    urma_sge_t nowhere = piece(nullptr, self.out(), 8), from = piece(self.segment, self.out(), 8);
    urma_sge_t there = piece(mapped, word, 8);
    urma_jetty_attr_t jetty_attr = {};
    jetty_attr.mask = JETTY_STATE;
    jetty_attr.state = URMA_JETTY_STATE_ERROR;
    urma_jfs_attr_t jfs_attr = {};
    jfs_attr.mask = JFS_STATE;
    jfs_attr.state = URMA_JETTY_STATE_ERROR;
    EXPECT_EQ(config.jetty ? urma_modify_jetty(self.endpoint.jetty, &jetty_attr)
                           : urma_modify_jfs(self.endpoint.jfs, &jfs_attr),
              URMA_SUCCESS);
    wait_for_status(self.endpoint.send_jfc, URMA_CR_WR_FLUSH_ERR_DONE);
    urma_jfs_wr_t refused = write_request(self.queue, &nowhere, &there);
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(self.endpoint.post(&refused, &bad), URMA_EINVAL);
    self.endpoint.post(write_request(self.queue, &from, &there));
    wait_for_status(self.endpoint.send_jfc, URMA_CR_WR_FLUSH_ERR);
    EXPECT_EQ(*word, 0);
  });
}

// The protocol has one remote piece; others are ignored.
TEST_P(RequestTest, FurtherRemotePiecesAreIgnored) {
  run_one([config = config()](Channel&) {
    Self self(config);
    urma_sge_t here = piece(self.segment, self.out(), 40);
    urma_sge_t there[] = {piece(self.remote, self.in(), 40), piece(nullptr, self.in() + 100, 8)};
    urma_jfs_wr_t write = write_request(self.queue, &here, there, 1);
    write.rw.dst.num_sge = 2;
    self.endpoint.post(write);
    wait_for_success(self.endpoint.send_jfc, 1);
    EXPECT_TRUE(self.arrived(40));
    EXPECT_EQ(self.in()[100], 0);
    self.in()[3] = 'Z';
    urma_jfs_wr_t read = read_request(self.queue, &here, there, 2);
    read.rw.src.num_sge = 2;
    self.endpoint.post(read);
    wait_for_success(self.endpoint.send_jfc, 2);
    EXPECT_EQ(self.out()[3], 'Z');
  });
}

// It is too long whether or not there is memory.
TEST_P(RequestTest, RequestsAboveTheSizeLimitAreRefused) {
  run_one([config = config()](Channel&) {
    Self self(config);
    urma_device_attr_t attr;
    ASSERT_EQ(urma_query_device(self.endpoint.ctx->dev, &attr), URMA_SUCCESS);
    ASSERT_EQ(attr.dev_cap.max_msg_size, attr.dev_cap.max_write_size);
    urma_sge_t here[] = {piece(self.segment, self.out(), attr.dev_cap.max_msg_size),
                         piece(self.segment, self.out(), 1)};
    urma_sge_t there[] = {piece(self.remote, self.in(), 8), piece(self.remote, self.in(), 8)};
    urma_jfs_wr_t refused[] = {send_request(self.queue, here),
                               send_imm_request(self.queue, here, 1),
                               send_invalidate_request(self.queue, here, self.remote),
                               write_request(self.queue, here, there),
                               write_imm_request(self.queue, here, there, 1),
                               write_notify_request(self.queue, here, there, 1)};
    for (urma_jfs_wr_t& wr : refused) {
      SCOPED_TRACE(static_cast<int>(wr.opcode));
      // The local lists of both have the same address.
      wr.rw.src.num_sge = 2;
      urma_jfs_wr_t* bad = nullptr;
      EXPECT_EQ(self.endpoint.post(&wr, &bad), URMA_EINVAL);
      EXPECT_EQ(bad, &wr);
    }
    urma_jfs_wr_t read = read_request(self.queue, here, there);
    read.rw.dst.num_sge = 2;
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(self.endpoint.post(&read, &bad), URMA_EINVAL);
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
  });
}

TEST_P(RequestTest, ChosenIdIsTakenOnceAndFoundByOthers) {
  if (::getenv("URMA_PEER_NETWORK") != nullptr)
    GTEST_SKIP() << "peers on different hosts (URMA_PEER_NETWORK) may choose the same id";
  Config chosen = config();
  chosen.id = 4711;
  run_two(
      "owner",
      [chosen](Channel& channel) {
        Self self(chosen);
        self.endpoint.post_receive(self.segment, self.in(), 100);
        EXPECT_EQ(self.endpoint.receiver_id(), 4711u);
        channel.sync();
        wait_for_success(self.endpoint.receive_jfc, 0);
        channel.sync();
      },
      "other",
      [config = config()](Channel& channel) {
        channel.sync();
        Self self(config);
        QueueId known = self.endpoint.queue_id();
        known.id = 4711;
        urma_sge_t from = piece(self.segment, self.out(), 8);
        self.endpoint.post(send_request(self.endpoint.import(known), &from, 1));
        wait_for_success(self.endpoint.send_jfc, 1);
        urma_jfr_cfg_t taken = self.endpoint.jfr->jfr_cfg;
        taken.id = 4711;
        errno = 0;
        if (!config.jetty) {
          EXPECT_EQ(urma_create_jfr(self.endpoint.ctx, &taken), nullptr);
          EXPECT_EQ(errno, EEXIST);
        }
        channel.sync();
      });
}

TEST_F(ProcessTest, FlatCallsMoveBytes) {
  run_one([](Channel&) {
    Config config;
    config.jetty = false;
    Self self(config);
    urma_jfs_wr_flag_t signalled = {};
    signalled.bs.complete_enable = 1;
    const auto in = reinterpret_cast<uint64_t>(self.in());
    const auto out = reinterpret_cast<uint64_t>(self.out());
    urma_jfs_t* jfs = self.endpoint.jfs;
    ASSERT_EQ(urma_recv(self.endpoint.jfr, self.segment, in, 100, 7), URMA_SUCCESS);
    ASSERT_EQ(urma_send(jfs, self.queue, self.segment, out, 50, signalled, 1), URMA_SUCCESS);
    wait_for_success(self.endpoint.send_jfc, 1);
    EXPECT_EQ(wait_for_success(self.endpoint.receive_jfc, 7).completion_len, 50u);
    ASSERT_EQ(urma_write(jfs, self.queue, self.remote, self.segment, in, out, 3000, signalled, 2),
              URMA_SUCCESS);
    wait_for_success(self.endpoint.send_jfc, 2);
    EXPECT_TRUE(self.arrived(3000));
    ASSERT_EQ(urma_read(jfs, self.queue, self.segment, self.remote, in, out, 5000, signalled, 3),
              URMA_SUCCESS);
    wait_for_success(self.endpoint.send_jfc, 3);
    EXPECT_TRUE(self.arrived(5000));
  });
}

INSTANTIATE_TEST_SUITE_P(All, RequestTest, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Jetty" : "JfsJfr");
});

}  // namespace
}  // namespace urma_test
