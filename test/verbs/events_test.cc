// SPDX-License-Identifier: MIT
//
// Asynchronous events of a device, and what the program sees of them.
#include <gtest/gtest.h>
#include <poll.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "test/verbs/requests.h"
#include "urma/base/error.h"
#include "urma/providers/verbs/context_events.h"

namespace urma::verbs {
namespace {

// Stores the events of ports.
class PortRegistry final : public Registry {
 public:
  void add_provider(urma_provider_ops_t* /*ops*/) override {}
  void add_device(urma_provider_ops_t* /*ops*/, const DeviceDescription& /*device*/) override {}
  void explain(urma_provider_ops_t* /*ops*/, const std::string& /*reason*/) override {}
  void set_port_state(const char* device, uint32_t port, urma_port_state_t state) override {
    states[{device, port}] = state;
  }

  std::map<std::pair<std::string, uint32_t>, urma_port_state_t> states;
};

// Two ends in mode UM, in addition to those of the pair.
struct Datagrams {
  explicit Datagrams(Pair* of)
      : pair(of),
        jfs(in_um(of->fabric.jfs_cfg(of->send_jfc.get()))),
        target(of->fabric.import(kId, URMA_TM_UM)),
        receive(&of->fabric, in_um(of->fabric.jfr_cfg(of->receive_jfc.get())), kId),
        send(&of->fabric, jfs) {}

  template <typename Config>
  static Config in_um(Config cfg) {
    cfg.trans_mode = URMA_TM_UM;
    return cfg;
  }
  void post(SendEnd* from, uint64_t user_ctx, uint64_t count) const {
    Chain chain(target.get());
    for (uint64_t i = 0; i < count; ++i) chain.send(pair->here->sge(0, 8), user_ctx + i);
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(from->sender->post(chain.first(), &bad), URMA_SUCCESS);
  }

  static constexpr uint32_t kId = 2000;
  Pair* const pair;
  const urma_jfs_cfg_t jfs;
  std::unique_ptr<RemoteQueue> target;
  ReceiveEnd receive;
  SendEnd send;
};

class EventsTest : public testing::Test {
 protected:
  void SetUp() override {
    NEEDS_FAKE();
    FakeDeviceOptions options;
    options.ports = 2;
    options.gids = kGids;
    pair_.emplace(options);
    told_.emplace(fabric().device.get(), &registry_, &fabric().events, &fabric().transport,
                  &fabric().connections);
  }
  void TearDown() override { told_.reset(); }

  Fabric& fabric() { return pair_->fabric; }
  FakeVerbs& fake() { return *fabric().fake; }
  void raise(ibv_event_type type) {
    fake().raise_port_event("fake0", type, fabric().device->port());
    fabric().settle();
  }
  bool readable() {
    pollfd fd = {fabric().events.fd(), POLLIN, 0};
    return ::poll(&fd, 1, 0) == 1;
  }
  // Type and number of all pending events, which concern no object.
  using Numbered = std::vector<std::pair<urma_async_event_type_t, uint32_t>>;
  Numbered numbered() {
    Numbered all;
    urma_async_event_t event;
    while (fabric().events.take(&event)) {
      all.emplace_back(event.event_type, event.element.port_id);
      EXPECT_EQ(event.priv, nullptr);
      AsyncEvents::acknowledge(event);
    }
    return all;
  }

  static inline const std::vector<FakeGid> kGids = {{"10.0.0.1"}, {"10.0.0.2"}};
  PortRegistry registry_;
  std::optional<Pair> pair_;
  std::optional<ContextEvents> told_;
};

TEST_F(EventsTest, PortEventsEndWithTheLatestState) {
  EXPECT_FALSE(readable());
  raise(IBV_EVENT_PORT_ERR);
  EXPECT_TRUE(readable());
  EXPECT_EQ(numbered(), (Numbered{{URMA_EVENT_PORT_DOWN, 0}}));
  EXPECT_FALSE(readable());
  for (const auto type : {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR}) {
    raise(type);
  }
  EXPECT_EQ(numbered(), (Numbered{{URMA_EVENT_PORT_ACTIVE, 0}, {URMA_EVENT_PORT_DOWN, 0}}));
  fake().raise_port_event("fake0", IBV_EVENT_PORT_ERR, 2);
  fabric().settle();
  EXPECT_FALSE(readable());
}

TEST_F(EventsTest, TheStateOfThePortIsCurrent) {
  using States = decltype(registry_.states);
  const auto shown = [&](urma_port_state_t state) {
    return registry_.states == States{{{fabric().device->info().name, 0}, state}};
  };
  EXPECT_TRUE(shown(URMA_PORT_ACTIVE));
  raise(IBV_EVENT_PORT_ERR);
  EXPECT_TRUE(shown(URMA_PORT_DOWN));
  raise(IBV_EVENT_PORT_ACTIVE);
  EXPECT_TRUE(shown(URMA_PORT_ACTIVE));
  numbered();
  // Before there is a context, no one listens.
  told_.reset();
  fake().set_port_state("fake0", IBV_PORT_ARMED);
  told_.emplace(fabric().device.get(), &registry_, &fabric().events, &fabric().transport,
                &fabric().connections);
  EXPECT_TRUE(shown(URMA_PORT_ARMED));
}

TEST_F(EventsTest, ChangedAddressesAreReportedByTheirIndex) {
  raise(IBV_EVENT_GID_CHANGE);
  EXPECT_FALSE(readable());
  fake().set_gids("fake0", {{"10.0.0.1"}, {"10.0.0.9"}});
  raise(IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(numbered(), (Numbered{{URMA_EVENT_EID_CHANGE, 1}}));
  fake().set_gids("fake0", {{"10.0.0.9"}, {"10.0.0.2"}});
  raise(IBV_EVENT_GID_CHANGE);
  EXPECT_EQ(numbered(), (Numbered{{URMA_EVENT_EID_CHANGE, 0}, {URMA_EVENT_EID_CHANGE, 1}}));
}

TEST_F(EventsTest, ChangesThatTheDeviceHandlesRaiseNoEvent) {
  for (const auto type : {IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE, IBV_EVENT_SM_CHANGE,
                          IBV_EVENT_CLIENT_REREGISTER}) {
    raise(type);
  }
  EXPECT_FALSE(readable());
}

TEST_F(EventsTest, NothingIsReportedAfterTheEnd) {
  told_.reset();
  raise(IBV_EVENT_PORT_ERR);
  EXPECT_FALSE(readable());
}

// Requests end, receives are returned, and nothing waits for a device that is gone.
TEST_F(EventsTest, AFailedDeviceEndsAllRequests) {
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(pair_->post_receive(i), URMA_SUCCESS);
  pair_->connect();
  fake().stall_all();
  Chain chain(pair_->target.get());
  for (uint64_t i = 0; i < 2; ++i) chain.send(pair_->here->sge(0, 8), i);
  ASSERT_EQ(pair_->post(&chain), URMA_SUCCESS);
  for (const char* verb : {"create_qp", "modify_qp"}) fake().fail(verb, EIO);
  fake().raise_port_event("fake0", IBV_EVENT_DEVICE_FATAL, 0);
  fabric().settle();
  for (const auto& record : pair_->sent(2)) EXPECT_EQ(record.status, URMA_CR_LOC_OPERATION_ERR);
  const auto records = pair_->received(3);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(records[i].status, URMA_CR_WR_FLUSH_ERR);
    EXPECT_EQ(records[i].user_ctx, i);
  }
  EXPECT_EQ(pair_->receive->receiver->state(), URMA_JFR_STATE_ERROR);
  urma_async_event_t event;
  ASSERT_TRUE(fabric().events.take(&event));
  EXPECT_EQ(event.event_type, URMA_EVENT_DEV_FATAL);
  ASSERT_TRUE(fabric().events.take(&event));
  EXPECT_EQ(event.event_type, URMA_EVENT_JFR_ERR);
  EXPECT_EQ(event.element.jfr, &pair_->receive->object);
  AsyncEvents::acknowledge(event);
  EXPECT_FALSE(readable());
}

// The same in mode UM, whose requests have no connection that could break. Others end at once.
TEST_F(EventsTest, AFailedDeviceEndsDatagrams) {
  constexpr uint64_t kChanges = 8;  // more than follow
  Datagrams datagrams(&*pair_);
  SendEnd unused(&fabric(), datagrams.jfs);
  const auto post = [&](SendEnd* from, uint64_t user_ctx) { datagrams.post(from, user_ctx, 2); };
  post(&datagrams.send, 0);
  for (const auto& record : pair_->sent(2)) EXPECT_EQ(record.status, URMA_CR_SUCCESS);
  fake().stall_all();
  post(&datagrams.send, 2);
  for (uint64_t i = 1; i <= kChanges; ++i) fake().fail("modify_qp", EIO, i);
  fake().raise_port_event("fake0", IBV_EVENT_DEVICE_FATAL, 0);
  fabric().settle();
  urma_cr_t record;
  for (uint64_t i = 2; i < 4; ++i) {
    ASSERT_EQ(pair_->send_jfc->poll(1, &record), 1) << "nothing is waited for";
    EXPECT_EQ(record.status, URMA_CR_LOC_OPERATION_ERR);
    EXPECT_EQ(record.user_ctx, i);
  }
  post(&datagrams.send, 4);
  post(&unused, 6);
  for (const auto& late : pair_->sent(4)) EXPECT_EQ(late.status, URMA_CR_LOC_OPERATION_ERR);
  EXPECT_EQ(datagrams.receive.receiver->state(), URMA_JFR_STATE_ERROR);
  urma_async_event_t event;
  while (fabric().events.take(&event)) AsyncEvents::acknowledge(event);
  fabric().settle();
}

TEST_F(EventsTest, ALostCompletionQueueIsReportedForItsJfc) {
  fake().raise_cq_event(pair_->send->sender->pump()->cq(), IBV_EVENT_CQ_ERR);
  fabric().settle();
  EXPECT_TRUE(readable());
  urma_async_event_t event;
  ASSERT_TRUE(fabric().events.take(&event));
  EXPECT_EQ(event.event_type, URMA_EVENT_JFC_ERR);
  EXPECT_EQ(event.element.jfc, pair_->send_jfc.get());
  AsyncEvents::acknowledge(event);
  EXPECT_FALSE(readable());
}

// Nothing would report how they end.
TEST_F(EventsTest, RequestsEndWithTheirCompletionQueue) {
  pair_->connect();
  fake().stall_all();
  Chain chain(pair_->target.get());
  for (uint64_t i = 1; i <= 2; ++i) chain.send(pair_->here->sge(0, 8), i);
  ASSERT_EQ(pair_->post(&chain), URMA_SUCCESS);
  fabric().settle();
  fake().raise_cq_event(pair_->send->sender->pump()->cq(), IBV_EVENT_CQ_ERR);
  Chain late(pair_->target.get());
  late.send(pair_->here->sge(0, 8), 3);
  ASSERT_EQ(pair_->post(&late), URMA_SUCCESS);
  uint64_t user_ctx = 0;
  for (const auto& record : pair_->sent(3)) {
    EXPECT_EQ(record.status, URMA_CR_LOC_OPERATION_ERR);
    EXPECT_EQ(record.user_ctx, ++user_ctx);
  }
  urma_async_event_t event;
  ASSERT_TRUE(fabric().events.take(&event));
  EXPECT_EQ(event.event_type, URMA_EVENT_JFC_ERR);
  AsyncEvents::acknowledge(event);
}

TEST_F(EventsTest, DatagramsEndWithTheirCompletionQueue) {
  Datagrams datagrams(&*pair_);
  SendEnd& send = datagrams.send;
  const auto post = [&](uint64_t user_ctx) { datagrams.post(&send, user_ctx, 1); };
  post(1);
  EXPECT_EQ(pair_->sent(1)[0].status, URMA_CR_SUCCESS);
  fake().stall_all();
  post(2);
  fake().raise_cq_event(send.sender->pump()->cq(), IBV_EVENT_CQ_ERR);
  EXPECT_EQ(pair_->sent(1)[0].status, URMA_CR_LOC_OPERATION_ERR);
  fake().resume_all();
  post(3);
  EXPECT_EQ(pair_->sent(1)[0].status, URMA_CR_LOC_OPERATION_ERR);
  urma_async_event_t event;
  ASSERT_TRUE(fabric().events.take(&event));
  EXPECT_EQ(event.event_type, URMA_EVENT_JFC_ERR);
  AsyncEvents::acknowledge(event);
}

// Some devices report it only there.
TEST_F(EventsTest, AFailedPollLosesTheCompletionQueue) {
  pair_->connect();
  fake().stall_all();
  Chain chain(pair_->target.get());
  chain.send(pair_->here->sge(0, 8), 1);
  ASSERT_EQ(pair_->post(&chain), URMA_SUCCESS);
  fake().fail("poll_cq", EIO);
  EXPECT_EQ(pair_->sent(1)[0].status, URMA_CR_LOC_OPERATION_ERR);
  urma_async_event_t event;
  ASSERT_TRUE(fabric().events.take(&event));
  EXPECT_EQ(event.event_type, URMA_EVENT_JFC_ERR);
  EXPECT_EQ(event.element.jfc, pair_->send_jfc.get());
  AsyncEvents::acknowledge(event);
  EXPECT_FALSE(readable());
}

TEST_F(EventsTest, ReceivesEndWithTheirCompletionQueue) {
  static ibv_cq* made;
  static ibv_cq* (*create)(ibv_context*, int, void*, ibv_comp_channel*, int);
  create = std::exchange(
      fake().table().create_cq,
      [](ibv_context* context, int entries, void* listener, ibv_comp_channel* channel, int vector) {
        return made = create(context, entries, listener, channel, vector);
      });
  ReceiveEnd receive(&fabric(), fabric().jfr_cfg(pair_->receive_jfc.get()), 2000);
  urma_jfr_wr_t wr = {};
  wr.user_ctx = 7;
  urma_jfr_wr_t* bad;
  ASSERT_EQ(receive.receiver->post(&wr, &bad), URMA_SUCCESS);
  fake().raise_cq_event(made, IBV_EVENT_CQ_ERR);
  const auto record = pair_->received(1)[0];
  EXPECT_EQ(record.status, URMA_CR_WR_FLUSH_ERR);
  EXPECT_EQ(record.user_ctx, 7U);
  EXPECT_EQ(receive.receiver->state(), URMA_JFR_STATE_ERROR);
  EXPECT_THROW(receive.receiver->set_state(URMA_JFR_STATE_READY), Error);
  EXPECT_EQ(receive.receiver->state(), URMA_JFR_STATE_ERROR);
  urma_async_event_t event;
  ASSERT_TRUE(fabric().events.take(&event));
  EXPECT_EQ(event.event_type, URMA_EVENT_JFC_ERR);
  EXPECT_EQ(event.element.jfc, pair_->receive_jfc.get());
  AsyncEvents::acknowledge(event);
  ASSERT_TRUE(fabric().events.take(&event));
  EXPECT_EQ(event.event_type, URMA_EVENT_JFR_ERR);
  EXPECT_EQ(event.element.jfr, &receive.object);
  AsyncEvents::acknowledge(event);
  EXPECT_FALSE(readable());
}

// A pending connection keeps the queue longer than its sender, whose JFC may be gone.
TEST_F(EventsTest, ALostCompletionQueueWithoutASenderIsIgnored) {
  fabric().connector.hold = true;
  Chain chain(pair_->target.get());
  chain.send(pair_->here->sge(0, 8), 1);
  ASSERT_EQ(pair_->post(&chain), URMA_SUCCESS);
  fabric().settle();
  const std::weak_ptr<CqPump> pump = pair_->send->sender->pump();
  pair_->send.reset();
  ASSERT_FALSE(pump.expired());
  fake().raise_cq_event(pump.lock()->cq(), IBV_EVENT_CQ_ERR);
  fabric().settle();
  EXPECT_FALSE(readable());
  fabric().connector.release();
  fabric().settle();
  EXPECT_TRUE(pump.expired());
}

TEST_F(EventsTest, ALostReceiveQueueIsReportedForItsJfr) {
  static ibv_srq* made;
  static ibv_srq* (*create)(ibv_pd*, ibv_srq_init_attr*);
  create = std::exchange(fake().table().create_srq, [](ibv_pd* pd, ibv_srq_init_attr* attr) {
    return made = create(pd, attr);
  });
  ReceiveEnd receive(&fabric(), fabric().jfr_cfg(pair_->receive_jfc.get()), 2000);
  fake().raise_srq_event(made, IBV_EVENT_SRQ_ERR);
  fabric().settle();
  urma_async_event_t event;
  ASSERT_TRUE(fabric().events.take(&event));
  EXPECT_EQ(event.event_type, URMA_EVENT_JFR_ERR);
  EXPECT_EQ(event.element.jfr, &receive.object);
  AsyncEvents::acknowledge(event);
  EXPECT_FALSE(readable());
}

// The next request makes a new connection; what was sent is received.
TEST_F(EventsTest, ALostConnectionIsReplaced) {
  ASSERT_EQ(pair_->post_receive(7), URMA_SUCCESS);
  pair_->connect();
  fake().raise_qp_event(pair_->sender_pair(), IBV_EVENT_QP_FATAL);
  fabric().settle();
  Chain chain(pair_->target.get());
  chain.send(pair_->here->sge(0, 8), 1);
  ASSERT_EQ(pair_->post(&chain), URMA_SUCCESS);
  EXPECT_EQ(pair_->sent(1)[0].status, URMA_CR_SUCCESS);
  EXPECT_EQ(pair_->received(1)[0].user_ctx, 7U);
  EXPECT_EQ(fabric().connector.connects, 2);
  EXPECT_FALSE(readable());
}

}  // namespace
}  // namespace urma::verbs
