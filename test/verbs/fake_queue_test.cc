// SPDX-License-Identifier: MIT
//
// The queues of the software devices fill, wake, break and end as those of real ones do.
#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <thread>

#include "test/verbs/fake_ends.h"

namespace urma::verbs {
namespace {

class FakeQueueTest : public FakeEndsTest {
 protected:
  static bool readable(int fd) {
    pollfd here = {fd, POLLIN, 0};
    return ::poll(&here, 1, 0) == 1;
  }
  // Takes and acknowledges the event of this queue's channel.
  void take_event(FakeEnd* end) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(api().get_cq_event(end->channel.get(), &cq, &context), 0);
    EXPECT_EQ(cq, end->cq.get());
    api().ack_cq_events(cq, 1);
  }
  ibv_event_type next_event(FakeEnd* end) {
    ibv_async_event event = {};
    EXPECT_EQ(api().get_async_event(end->context.get(), &event), 0);
    api().ack_async_event(&event);
    return event.event_type;
  }
};

TEST_F(FakeQueueTest, SlotsAreFreeOnceALaterCompletionIsPolled) {
  make_pair();
  for (int i = 0; i < 7; ++i) ASSERT_EQ(post_write(4, 0, 0), 0);
  ASSERT_EQ(post_write(4, 0), 0);
  EXPECT_EQ(post_write(4, 0), ENOMEM);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_SUCCESS});
  for (int i = 0; i < 8; ++i) ASSERT_EQ(post_write(4, 0, 0), 0);
  EXPECT_EQ(post_write(4, 0), ENOMEM);
  EXPECT_TRUE(poll(&a_).empty());
}

TEST_F(FakeQueueTest, AListIsPostedUpToTheBadRequest) {
  make_pair();
  ibv_send_wr wrs[3] = {};
  ibv_sge sge = a_.sge(0, 4);
  for (int i = 0; i < 3; ++i) {
    wrs[i].next = i < 2 ? &wrs[i + 1] : nullptr;
    wrs[i].opcode = i == 1 ? IBV_WR_LOCAL_INV : IBV_WR_RDMA_WRITE;
    wrs[i].sg_list = &sge;
    wrs[i].num_sge = 1;
    wrs[i].send_flags = IBV_SEND_SIGNALED;
    wrs[i].wr.rdma = {reinterpret_cast<uint64_t>(b_.memory), b_.mr->rkey};
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(api().post_send(a_.qp.get(), wrs, &bad), EINVAL);
  EXPECT_EQ(bad, &wrs[1]);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_SUCCESS});
  fake_.fail("post_send", ENOMEM);
  wrs[1].opcode = IBV_WR_RDMA_WRITE;
  EXPECT_EQ(api().post_send(a_.qp.get(), wrs, &bad), ENOMEM);
  EXPECT_EQ(bad, &wrs[0]);
  EXPECT_TRUE(poll(&a_).empty());
}

TEST_F(FakeQueueTest, ArmingIsForOneEvent) {
  make_pair();
  ASSERT_EQ(post_write(4, 0), 0);
  ASSERT_EQ(api().req_notify_cq(a_.cq.get(), 0), 0);
  EXPECT_FALSE(readable(a_.channel->fd)) << "only what completes after arming wakes";
  ASSERT_EQ(post_write(4, 0), 0);
  ASSERT_EQ(post_write(4, 0), 0);
  EXPECT_TRUE(readable(a_.channel->fd));
  take_event(&a_);
  EXPECT_FALSE(readable(a_.channel->fd));
  ASSERT_EQ(::fcntl(a_.channel->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  EXPECT_EQ(api().get_cq_event(a_.channel.get(), &cq, &context), EAGAIN);
}

TEST_F(FakeQueueTest, SolicitedOnly) {
  make_pair();
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(receive(&b_, i, 0, 64), 0);
  ASSERT_EQ(api().req_notify_cq(b_.cq.get(), 1), 0);
  ASSERT_EQ(post(IBV_WR_SEND, a_.sge(0, 4)), 0);
  EXPECT_FALSE(readable(b_.channel->fd));
  ASSERT_EQ(post(IBV_WR_SEND, a_.sge(0, 4),
                 [](ibv_send_wr* wr) { wr->send_flags |= IBV_SEND_SOLICITED; }),
            0);
  take_event(&b_);
  // Armed for all, then for some: for all.
  ASSERT_EQ(api().req_notify_cq(b_.cq.get(), 0), 0);
  ASSERT_EQ(api().req_notify_cq(b_.cq.get(), 1), 0);
  ASSERT_EQ(post(IBV_WR_SEND, a_.sge(0, 4)), 0);
  take_event(&b_);
}

TEST_F(FakeQueueTest, ErrorsAreSolicited) {
  make_pair();
  ASSERT_EQ(api().req_notify_cq(a_.cq.get(), 1), 0);
  fake_.fail_request(a_.qp->qp_num, IBV_WC_REM_OP_ERR);
  ASSERT_EQ(post_write(4, 0), 0);
  take_event(&a_);
}

TEST_F(FakeQueueTest, AFullQueueIsLost) {
  make_pair(true, 7, 2);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(post_write(4, 0), 0);
  EXPECT_EQ(next_event(&a_), IBV_EVENT_CQ_ERR);
  EXPECT_EQ(statuses(&a_).size(), 2U);
  ASSERT_EQ(post_write(4, 0), 0);
  EXPECT_TRUE(poll(&a_).empty());
}

TEST_F(FakeQueueTest, QueuesGrowWhereTheDeviceCan) {
  make_pair(true, 7, 2);
  ASSERT_EQ(api().resize_cq(a_.cq.get(), 4), 0);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(post_write(4, 0), 0);
  EXPECT_EQ(statuses(&a_), Statuses(4, IBV_WC_SUCCESS));
  EXPECT_EQ(api().resize_cq(a_.cq.get(), 1 << 30), EINVAL);
}

TEST_F(FakeQueueTest, HeldCompletionsAppearWhenReleased) {
  make_pair();
  fake_.hold(a_.qp->qp_num);
  std::strcpy(a_.memory, "abc");
  ASSERT_EQ(post_write(4, 0), 0);
  EXPECT_STREQ(b_.memory, "abc");
  EXPECT_TRUE(poll(&a_).empty());
  fake_.release(a_.qp->qp_num);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_SUCCESS});
}

TEST_F(FakeQueueTest, TheLimitIsReportedOnce) {
  make_pair();
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(receive(&b_, i, 0, 64), 0);
  ibv_srq_attr attr = {0, 0, 3};
  ASSERT_EQ(api().modify_srq(b_.srq.get(), &attr, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(post(IBV_WR_SEND, a_.sge(0, 4)), 0);
  EXPECT_FALSE(readable(b_.context->async_fd));
  ASSERT_EQ(post(IBV_WR_SEND, a_.sge(0, 4)), 0);
  ASSERT_EQ(post(IBV_WR_SEND, a_.sge(0, 4)), 0);
  EXPECT_EQ(next_event(&b_), IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_FALSE(readable(b_.context->async_fd));
  ASSERT_EQ(api().query_srq(b_.srq.get(), &attr), 0);
  EXPECT_EQ(attr.srq_limit, 0U);
}

TEST_F(FakeQueueTest, ASharedReceiveQueueFillsUp) {
  make_pair();
  for (uint64_t i = 0; i < 16; ++i) ASSERT_EQ(receive(&b_, i, 0, 64), 0);
  EXPECT_EQ(receive(&b_, 16, 0, 64), ENOMEM);
  ibv_srq_attr attr = {17, 0, 0};
  ASSERT_EQ(api().modify_srq(b_.srq.get(), &attr, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(receive(&b_, 16, 0, 64), 0);
}

TEST_F(FakeQueueTest, ErrorFlushesPendingRequests) {
  make_pair(false);
  ASSERT_EQ(receive(&b_, 8, 0, 64), 0);
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(api().modify_qp(b_.qp.get(), &attr, IBV_QP_STATE), 0);
  ASSERT_EQ(receive(&b_, 9, 0, 64), 0);
  const auto got = poll(&b_);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].wr_id, 8U);
  EXPECT_EQ(got[1].wr_id, 9U);
  EXPECT_EQ(got[1].status, IBV_WC_WR_FLUSH_ERR);
  // The other end has no peer.
  ASSERT_EQ(post_write(4, 0), 0);
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_RETRY_EXC_ERR});
}

TEST_F(FakeQueueTest, StatesAreEnteredInOrder) {
  make_pair();
  FakeEnd c;
  make(&c, 0, IBV_QPT_RC, false);
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(api().modify_qp(c.qp.get(), &attr, IBV_QP_STATE), EINVAL);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(api().modify_qp(c.qp.get(), &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
  ibv_send_wr wr = {};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(api().post_send(c.qp.get(), &wr, &bad), EINVAL);
  EXPECT_EQ(bad, &wr);
}

TEST_F(FakeQueueTest, ObjectsInUseAreNotDestroyed) {
  make_pair();
  EXPECT_EQ(api().destroy_cq(a_.cq.get()), EBUSY);
  EXPECT_EQ(api().destroy_srq(b_.srq.get()), EBUSY);
  EXPECT_EQ(api().dealloc_pd(a_.pd.get()), EBUSY);
  EXPECT_EQ(api().destroy_comp_channel(a_.channel.get()), EBUSY);
  EXPECT_EQ(api().close_device(a_.context.get()), EBUSY);
}

TEST_F(FakeQueueTest, DestroyWaitsForTheAcknowledgement) {
  make_pair();
  fake_.raise_qp_event(a_.qp->qp_num, IBV_EVENT_QP_FATAL);
  ibv_async_event event = {};
  ASSERT_EQ(api().get_async_event(a_.context.get(), &event), 0);
  const uint32_t number = a_.qp->qp_num;
  std::thread ending([&] { a_.qp.reset(); });
  // It is gone for everyone else, but still exists.
  while (!fake_.queue_pairs().empty() && fake_.queue_pairs().front() == number) {
    std::this_thread::yield();
  }
  EXPECT_EQ(event.element.qp->qp_num, number);
  api().ack_async_event(&event);
  ending.join();
}

TEST_F(FakeQueueTest, CompletionsMayOutliveTheirQueuePair) {
  make_pair();
  ASSERT_EQ(post_write(4, 0), 0);
  a_.qp.reset();
  EXPECT_EQ(statuses(&a_), Statuses{IBV_WC_SUCCESS});
  fake_.set_clean_on_destroy(true);
  ASSERT_EQ(receive(&b_, 1, 0, 64), 0);
  b_.qp.reset();
  EXPECT_TRUE(poll(&b_).empty());
}

TEST_F(FakeQueueTest, TheNthCallFails) {
  make_pair();
  fake_.fail("poll_cq", EIO, 2);
  ibv_wc wc = {};
  EXPECT_EQ(api().poll_cq(a_.cq.get(), 1, &wc), 0);
  EXPECT_EQ(api().poll_cq(a_.cq.get(), 1, &wc), -1);
  EXPECT_EQ(api().poll_cq(a_.cq.get(), 1, &wc), 0);
  EXPECT_EQ(fake_.calls("poll_cq"), 3U);
}

}  // namespace
}  // namespace urma::verbs
