// SPDX-License-Identifier: MIT
#ifndef TEST_VERBS_FAKE_ENDS_H_
#define TEST_VERBS_FAKE_ENDS_H_

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "test/verbs/fake_verbs.h"
#include "urma/providers/verbs/handles.h"

namespace urma::verbs {

constexpr int kAllRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

// An open device with a completion queue, a queue pair and memory.
struct FakeEnd {
  ContextHandle context;
  PdHandle pd;
  ChannelHandle channel;
  CqHandle cq;
  SrqHandle srq;
  QpHandle qp;
  alignas(8) char memory[4096] = {};
  MrHandle mr;

  ibv_sge sge(size_t offset, uint32_t bytes) {
    return {reinterpret_cast<uint64_t>(memory + offset), bytes, mr->lkey};
  }
};

// Two software devices, and a queue pair on each.
class FakeEndsTest : public testing::Test {
 protected:
  const Api& api() const { return *fake_.api(); }

  void make(FakeEnd* end, int index, ibv_qp_type type, bool shared, int depth = 64) {
    int count = 0;
    ibv_device** list = api().get_device_list(&count);
    ASSERT_GT(count, index);
    end->context = {&api(), api().open_device(list[index])};
    api().free_device_list(list);
    end->pd = {&api(), api().alloc_pd(end->context.get())};
    end->channel = {&api(), api().create_comp_channel(end->context.get())};
    end->cq = {&api(), api().create_cq(end->context.get(), depth, nullptr, end->channel.get(), 0)};
    if (shared) {
      ibv_srq_init_attr attr = {nullptr, {16, 2, 0}};
      end->srq = {&api(), api().create_srq(end->pd.get(), &attr)};
    }
    ibv_qp_init_attr attr = {};
    attr.send_cq = end->cq.get();
    attr.recv_cq = end->cq.get();
    attr.srq = end->srq.get();
    attr.qp_type = type;
    attr.cap = {8, 8, 2, 2, 64};
    end->qp = {&api(), api().create_qp(end->pd.get(), &attr)};
    end->mr = {&api(), api().reg_mr(end->pd.get(), end->memory, sizeof(end->memory), kAllRights)};
  }

  void connect(FakeEnd* end, uint32_t peer, const char* peer_gid, uint8_t rnr_retry = 7) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAllRights;
    ASSERT_EQ(api().modify_qp(end->qp.get(), &attr,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 4;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = gid(peer_gid);
    attr.ah_attr.grh.sgid_index = 1;
    ASSERT_EQ(api().modify_qp(end->qp.get(), &attr,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    attr.qp_state = IBV_QPS_RTS;
    attr.max_rd_atomic = 4;
    attr.rnr_retry = rnr_retry;
    ASSERT_EQ(api().modify_qp(end->qp.get(), &attr,
                              IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }

  static ibv_gid gid(const char* last_of_ipv4) {
    ibv_gid gid = {};
    std::memset(gid.raw + 10, 0xff, 2);
    gid.raw[12] = 10;
    gid.raw[15] = static_cast<uint8_t>(std::atoi(last_of_ipv4));
    return gid;
  }

  void make_pair(bool shared = true, uint8_t rnr_retry = 7, int depth = 64) {
    fake_.add_device({.name = "a", .gids = {{"fe80::1"}, {"10.0.0.1"}}});
    fake_.add_device({.name = "b", .gids = {{"fe80::2"}, {"10.0.0.2"}}});
    make(&a_, 0, IBV_QPT_RC, false, depth);
    make(&b_, 1, IBV_QPT_RC, shared, depth);
    connect(&a_, b_.qp->qp_num, "2", rnr_retry);
    connect(&b_, a_.qp->qp_num, "1", rnr_retry);
  }

  // Posts one request of a; `fill` sets its other fields.
  template <typename Fill>
  int post(ibv_wr_opcode opcode, ibv_sge sge, Fill fill) {
    ibv_send_wr wr = {};
    wr.wr_id = ++last_id_;
    wr.opcode = opcode;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    fill(&wr);
    ibv_send_wr* bad = nullptr;
    return api().post_send(a_.qp.get(), &wr, &bad);
  }
  int post(ibv_wr_opcode opcode, ibv_sge sge) {
    return post(opcode, sge, [](ibv_send_wr*) {});
  }
  int post_write(uint32_t bytes, size_t to, int flags = IBV_SEND_SIGNALED) {
    return post(IBV_WR_RDMA_WRITE, a_.sge(0, bytes), [&](ibv_send_wr* wr) {
      wr->send_flags = static_cast<unsigned>(flags);
      wr->wr.rdma = {reinterpret_cast<uint64_t>(b_.memory + to), b_.mr->rkey};
    });
  }

  int receive(FakeEnd* end, uint64_t id, size_t offset, uint32_t bytes) {
    ibv_sge sge = end->sge(offset, bytes);
    ibv_recv_wr wr = {id, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    return end->srq ? api().post_srq_recv(end->srq.get(), &wr, &bad)
                    : api().post_recv(end->qp.get(), &wr, &bad);
  }

  std::vector<ibv_wc> poll(FakeEnd* end) {
    std::vector<ibv_wc> all(64);
    const int count = api().poll_cq(end->cq.get(), 64, all.data());
    EXPECT_GE(count, 0);
    all.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return all;
  }
  std::vector<ibv_wc_status> statuses(FakeEnd* end) {
    std::vector<ibv_wc_status> all;
    for (const auto& wc : poll(end)) all.push_back(wc.status);
    return all;
  }

  FakeVerbs fake_;
  FakeEnd a_, b_;
  uint64_t last_id_ = 0;
};

using Statuses = std::vector<ibv_wc_status>;

}  // namespace urma::verbs

#endif  // TEST_VERBS_FAKE_ENDS_H_
