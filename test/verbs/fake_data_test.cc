// SPDX-License-Identifier: MIT
//
// The software devices move data as real ones do.
#include <arpa/inet.h>

#include <cerrno>

#include "test/verbs/fake_ends.h"

namespace urma::verbs {
namespace {

class FakeDataTest : public FakeEndsTest {
 protected:
  int post_read(uint32_t bytes, uint32_t rkey, uint64_t from) {
    return post(IBV_WR_RDMA_READ, a_.sge(0, bytes), [&](ibv_send_wr* wr) {
      wr->wr.rdma = {from, rkey};
    });
  }
  int post_atomic(ibv_wr_opcode opcode, size_t offset, uint64_t compare_add, uint64_t swap) {
    return post(opcode, a_.sge(0, 8), [&](ibv_send_wr* wr) {
      wr->wr.atomic.remote_addr = reinterpret_cast<uint64_t>(b_.memory + offset);
      wr->wr.atomic.rkey = b_.mr->rkey;
      wr->wr.atomic.compare_add = compare_add;
      wr->wr.atomic.swap = swap;
    });
  }
  static uint64_t word(const char* at) {
    uint64_t value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
};

TEST_F(FakeDataTest, WritesAndReads) {
  make_pair();
  std::strcpy(a_.memory, "hello");
  ASSERT_EQ(post_write(6, 100), 0);
  EXPECT_STREQ(b_.memory + 100, "hello");
  std::strcpy(b_.memory + 200, "world");
  ASSERT_EQ(post_read(6, b_.mr->rkey, reinterpret_cast<uint64_t>(b_.memory + 200)), 0);
  EXPECT_STREQ(a_.memory, "world");
  const auto done = poll(&a_);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(done[1].opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(done[1].byte_len, 6U);
  EXPECT_TRUE(poll(&b_).empty());
}

TEST_F(FakeDataTest, SendsWithImmediates) {
  make_pair();
  ASSERT_EQ(receive(&b_, 71, 0, 64), 0);
  ASSERT_EQ(receive(&b_, 72, 64, 64), 0);
  std::strcpy(a_.memory, "ping");
  ASSERT_EQ(
      post(IBV_WR_SEND_WITH_IMM, a_.sge(0, 5), [](ibv_send_wr* wr) { wr->imm_data = htonl(77); }),
      0);
  ASSERT_EQ(post(IBV_WR_RDMA_WRITE_WITH_IMM, a_.sge(0, 5),
                 [&](ibv_send_wr* wr) {
                   wr->imm_data = htonl(78);
                   wr->wr.rdma = {reinterpret_cast<uint64_t>(b_.memory + 900), b_.mr->rkey};
                 }),
            0);
  const auto got = poll(&b_);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].wr_id, 71U);
  EXPECT_EQ(got[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(got[0].byte_len, 5U);
  EXPECT_EQ(ntohl(got[0].imm_data), 77U);
  EXPECT_EQ(got[0].qp_num, b_.qp->qp_num);
  EXPECT_EQ(got[1].wr_id, 72U);
  EXPECT_EQ(got[1].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(ntohl(got[1].imm_data), 78U);
  EXPECT_STREQ(b_.memory, "ping");
  EXPECT_STREQ(b_.memory + 900, "ping");
  EXPECT_EQ(statuses(&a_), (Statuses{IBV_WC_SUCCESS, IBV_WC_SUCCESS}));
}

TEST_F(FakeDataTest, InlineDataIsTakenAtThePost) {
  make_pair();
  fake_.stall(a_.qp->qp_num);
  std::strcpy(a_.memory, "early");
  ASSERT_EQ(post_write(6, 0, IBV_SEND_INLINE | IBV_SEND_SIGNALED), 0);
  ASSERT_EQ(post_write(6, 100), 0);
  std::strcpy(a_.memory, "late!");
  EXPECT_EQ(b_.memory[0], '\0');
  fake_.resume(a_.qp->qp_num);
  EXPECT_STREQ(b_.memory, "early");
  EXPECT_STREQ(b_.memory + 100, "late!");
  EXPECT_EQ(post_write(65, 0, IBV_SEND_INLINE), EINVAL);
}

TEST_F(FakeDataTest, Atomics) {
  make_pair();
  const uint64_t start = 0x0102030405060708;
  std::memcpy(b_.memory + 8, &start, 8);
  ASSERT_EQ(post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 5, 0), 0);
  EXPECT_EQ(word(a_.memory), start);
  EXPECT_EQ(word(b_.memory + 8), start + 5);
  ASSERT_EQ(post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 8, start, 1), 0);
  EXPECT_EQ(word(a_.memory), start + 5);
  EXPECT_EQ(word(b_.memory + 8), start + 5);
  ASSERT_EQ(post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 8, start + 5, 1), 0);
  EXPECT_EQ(word(b_.memory + 8), 1U);
  EXPECT_EQ(statuses(&a_), Statuses(3, IBV_WC_SUCCESS));
  ASSERT_EQ(post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 12, 5, 0), 0);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_REM_INV_REQ_ERR});
}

TEST_F(FakeDataTest, KeysAndBoundsAndRightsAreChecked) {
  make_pair();
  MrHandle readable(&api(), api().reg_mr(b_.pd.get(), b_.memory, 64,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
  const auto at = reinterpret_cast<uint64_t>(b_.memory);
  ASSERT_EQ(post_read(64, readable->rkey, at), 0);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_SUCCESS});
  fake_.stall(a_.qp->qp_num);
  ASSERT_EQ(post_read(64, readable->rkey, at + 1), 0);
  ASSERT_EQ(post_write(1, 0), 0);
  fake_.resume(a_.qp->qp_num);
  EXPECT_EQ(statuses(&a_), (Statuses{IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR}));
}

TEST_F(FakeDataTest, WritesNeedTheRightAndALivingKey) {
  make_pair();
  MrHandle region(&api(), api().reg_mr(b_.pd.get(), b_.memory, 64, kAllRights));
  const uint32_t key = region->rkey;
  const auto write = [&](uint32_t rkey) {
    return post(IBV_WR_RDMA_WRITE, a_.sge(0, 4), [&](ibv_send_wr* wr) {
      wr->wr.rdma = {reinterpret_cast<uint64_t>(b_.memory), rkey};
    });
  };
  ASSERT_EQ(write(key), 0);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_SUCCESS});
  region.reset();
  ASSERT_EQ(write(key), 0);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_REM_ACCESS_ERR});
}

TEST_F(FakeDataTest, AForeignLocalKeyIsRefused) {
  make_pair();
  auto sge = a_.sge(0, 4);
  sge.lkey = b_.mr->lkey;
  ASSERT_EQ(receive(&b_, 1, 0, 64), 0);
  ASSERT_EQ(post(IBV_WR_SEND, sge), 0);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_LOC_PROT_ERR});
  EXPECT_TRUE(poll(&b_).empty());
}

TEST_F(FakeDataTest, AMessageThatDoesNotFitFailsBothEnds) {
  make_pair();
  ASSERT_EQ(receive(&b_, 1, 0, 4), 0);
  ASSERT_EQ(receive(&b_, 2, 0, 64), 0);
  ASSERT_EQ(post(IBV_WR_SEND, a_.sge(0, 5)), 0);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_REM_INV_REQ_ERR});
  const auto got = poll(&b_);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(got[0].wr_id, 1U);
  // Receives that other queue pairs may use stay in the shared queue.
  ibv_async_event event = {};
  ASSERT_EQ(api().get_async_event(b_.context.get(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  api().ack_async_event(&event);
}

TEST_F(FakeDataTest, ASenderWaitsForTheReceive) {
  make_pair();
  ASSERT_EQ(post(IBV_WR_SEND, a_.sge(0, 5)), 0);
  ASSERT_EQ(post_write(4, 64), 0);
  EXPECT_TRUE(poll(&a_).empty());
  ASSERT_EQ(receive(&b_, 1, 0, 64), 0);
  EXPECT_EQ(statuses(&a_), (Statuses{IBV_WC_SUCCESS, IBV_WC_SUCCESS}));
  EXPECT_EQ(statuses(&b_), Statuses{IBV_WC_SUCCESS});
}

TEST_F(FakeDataTest, RetriesRunOut) {
  make_pair(true, 2);
  fake_.set_manual_rnr(true);
  ASSERT_EQ(post(IBV_WR_SEND, a_.sge(0, 5)), 0);
  fake_.fire_rnr_timers();
  EXPECT_TRUE(poll(&a_).empty());
  fake_.fire_rnr_timers();
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_RNR_RETRY_EXC_ERR});
}

TEST_F(FakeDataTest, RetriesWithoutDelayRunOutAtOnce) {
  make_pair(true, 2);
  ASSERT_EQ(post(IBV_WR_SEND, a_.sge(0, 5)), 0);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_RNR_RETRY_EXC_ERR});
}

TEST_F(FakeDataTest, AnEndedPeerDoesNotAnswer) {
  make_pair();
  fake_.set_reachable("b", false);
  ASSERT_EQ(post_write(4, 0), 0);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_RETRY_EXC_ERR});
  ASSERT_EQ(post_write(4, 0), 0);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_WR_FLUSH_ERR});
}

TEST_F(FakeDataTest, AChosenRequestFails) {
  make_pair();
  fake_.stall(a_.qp->qp_num);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(post_write(4, 0, 0), 0);
  fake_.fail_request(a_.qp->qp_num, IBV_WC_REM_OP_ERR);
  fake_.resume(a_.qp->qp_num);
  // Errors complete, whether a completion was requested or not.
  EXPECT_EQ(statuses(&a_), (Statuses{IBV_WC_REM_OP_ERR, IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR}));
}

TEST_F(FakeDataTest, DatagramsArriveAfterTheirHeader) {
  fake_.add_device({.name = "a", .gids = {{"fe80::1"}, {"10.0.0.1"}}});
  make(&a_, 0, IBV_QPT_UD, false);
  make(&b_, 0, IBV_QPT_UD, false);
  for (auto* end : {&a_, &b_}) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = 0x1234;
    ASSERT_EQ(api().modify_qp(end->qp.get(), &attr,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
              0);
    attr.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(api().modify_qp(end->qp.get(), &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(api().modify_qp(end->qp.get(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  ibv_ah_attr to = {};
  to.is_global = 1;
  to.port_num = 1;
  to.grh.dgid = gid("1");
  AhHandle ah(&api(), api().create_ah(a_.pd.get(), &to));
  ASSERT_TRUE(ah);
  const auto send = [&](uint32_t qkey, uint32_t bytes) {
    return post(IBV_WR_SEND, a_.sge(0, bytes), [&](ibv_send_wr* wr) {
      wr->wr.ud.ah = ah.get();
      wr->wr.ud.remote_qpn = b_.qp->qp_num;
      wr->wr.ud.remote_qkey = qkey;
    });
  };
  std::strcpy(a_.memory, "datagram");
  // No one waits for the first; the second has a wrong key.
  ASSERT_EQ(send(0x1234, 9), 0);
  ASSERT_EQ(receive(&b_, 5, 0, 128), 0);
  ASSERT_EQ(send(0x4321, 9), 0);
  EXPECT_TRUE(poll(&b_).empty());
  ASSERT_EQ(send(0x1234, 9), 0);
  const auto got = poll(&b_);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].byte_len, 49U);
  EXPECT_EQ(got[0].src_qp, a_.qp->qp_num);
  EXPECT_EQ(got[0].wc_flags & IBV_WC_GRH, unsigned{IBV_WC_GRH});
  EXPECT_STREQ(b_.memory + 40, "datagram");
  EXPECT_EQ(statuses(&a_), Statuses(3, IBV_WC_SUCCESS));
  EXPECT_EQ(send(0x1234, 1025), EMSGSIZE);
}

}  // namespace
}  // namespace urma::verbs
