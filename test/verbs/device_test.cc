// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/device.h"

#include <arpa/inet.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "test/verbs/device_fixture.h"
#include "urma/providers/verbs/cq_pump.h"
#include "urma/providers/verbs/queue_pair.h"

namespace urma::verbs {
namespace {

std::string text_of(const urma_eid_t& eid) {
  char text[INET6_ADDRSTRLEN] = {};
  return ::inet_ntop(AF_INET6, eid.raw, text, sizeof(text));
}

std::vector<std::string> eids_of(const DeviceInfo& info) {
  std::vector<std::string> eids;
  for (const auto& address : info.eids) eids.push_back(text_of(address.eid));
  return eids;
}

using Texts = std::vector<std::string>;

class DeviceTest : public DeviceFixture {};

TEST_F(DeviceTest, WithoutDevicesItReportsNone) {
  EXPECT_TRUE(find().empty());
  EXPECT_NE(why_.find("no RDMA device"), std::string::npos) << why_;
  for (const int error : {ENOSYS, ENOENT}) {
    fake_.set_list_error(error);
    EXPECT_TRUE(find().empty());
    EXPECT_NE(why_.find("no RDMA device"), std::string::npos) << why_;
  }
  fake_.set_list_error(ENOMEM);
  EXPECT_TRUE(find().empty());
  EXPECT_NE(why_.find(std::strerror(ENOMEM)), std::string::npos) << why_;
}

// Too late once a driver has given its device memory.
struct ForkPreparation {
  static int prepare() {
    too_late |= fake->calls("open_device") != 0;
    return prepare_really();
  }
  inline static int (*prepare_really)();
  inline static FakeVerbs* fake;
  inline static bool too_late;
};

TEST_F(DeviceTest, ForksArePreparedForBeforeADeviceIsUsed) {
  ForkPreparation::fake = &fake_;
  ForkPreparation::prepare_really =
      std::exchange(fake_.table().fork_init, ForkPreparation::prepare);
  EXPECT_TRUE(find().empty());
  EXPECT_EQ(fake_.calls("fork_init"), 0U);
  fake_.add_device({});
  EXPECT_EQ(find().size(), 1U);
  EXPECT_EQ(fake_.calls("fork_init"), 1U);
  EXPECT_FALSE(ForkPreparation::too_late);
  // The devices are there without it.
  fake_.fail("fork_init", EINVAL);
  EXPECT_EQ(find().size(), 1U);
}

TEST_F(DeviceTest, WithoutPermissionItNamesTheRemedy) {
  fake_.add_device({});
  for (const int error : {EACCES, EPERM, ENOENT}) {
    fake_.set_open_error("fake0", error);
    EXPECT_TRUE(find().empty());
    EXPECT_NE(why_.find("/dev/infiniband/uverbs"), std::string::npos) << why_;
  }
  fake_.add_device({.name = "other0"});
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "urma_other0");
  EXPECT_NE(why_.find("fake0"), std::string::npos) << why_;
}

TEST_F(DeviceTest, EachPortIsADevice) {
  fake_.add_device({.ports = 2});
  const auto found = find();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "urma_fake0");
  EXPECT_EQ(found[1].name, "urma_fake0_2");
  EXPECT_EQ(found[1].port, 2);
  EXPECT_NE(std::memcmp(&found[0].attr.guid, &found[1].attr.guid, sizeof(urma_guid_t)), 0);
  EXPECT_EQ(why_, "");
}

TEST_F(DeviceTest, OmitsDevicesThatCannotCarryQueues) {
  fake_.add_device({.name = "nosrq", .has_srq = false});
  EXPECT_TRUE(find().empty());
  EXPECT_NE(why_.find("nosrq"), std::string::npos) << why_;
  fake_.add_device({.name = "noip", .gids = {}});
  EXPECT_TRUE(find().empty());
  fake_.set_gids("noip", {{"::"}});
  EXPECT_TRUE(find().empty());
  fake_.add_device({.name = std::string(60, 'x')});
  EXPECT_TRUE(find().empty());
}

TEST_F(DeviceTest, RoceAddressesAreRoceV2WithIpFirst) {
  fake_.add_device({.gids = {{"fe80::1", IBV_GID_TYPE_ROCE_V1},
                             {"fe80::1", IBV_GID_TYPE_ROCE_V2, 3},
                             {"10.0.0.1", IBV_GID_TYPE_ROCE_V1},
                             {"fd00::1", IBV_GID_TYPE_ROCE_V2},
                             {"::"},
                             {"10.0.0.2", IBV_GID_TYPE_ROCE_V2}}});
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(eids_of(found[0]), (Texts{"::ffff:10.0.0.2", "fd00::1", "fe80::1"}));
  EXPECT_EQ(found[0].eids[0].gid_index, 5U);
  EXPECT_EQ(found[0].eids[2].gid_index, 1U);
  EXPECT_EQ(found[0].eids[2].netdev, 3U);
  EXPECT_EQ(found[0].attr.dev_cap.max_eid_cnt, 3U);
  EXPECT_EQ(found[0].link_layer, LinkLayer::kRoce);
}

TEST_F(DeviceTest, OldRoceHasRoceV1Addresses) {
  fake_.add_device({.gids = {{"10.0.0.1", IBV_GID_TYPE_ROCE_V1}}});
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(eids_of(found[0]), Texts{"::ffff:10.0.0.1"});
}

TEST_F(DeviceTest, InfinibandKeepsTheOrderOfTheDevice) {
  fake_.add_device({.infiniband = true, .gids = {{"fe80::2:c903:1"}, {"fd00::2:c903:1"}}});
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(eids_of(found[0]), (Texts{"fe80::2:c903:1", "fd00::2:c903:1"}));
  EXPECT_EQ(found[0].link_layer, LinkLayer::kInfiniband);
}

TEST_F(DeviceTest, IwarpAddressesAreThoseOfItsInterface) {
  const std::vector<FakeGid> gids = {
      {"fe80::9", 0, 4}, {"10.0.0.9", 0, 4}, {"127.0.0.1", 0, 4}, {"::1", 0, 4}};
  fake_.add_device({.name = "plain", .gids = {{"10.0.0.1"}}});
  fake_.add_device({.name = "new", .iwarp = true, .gids = gids});
  fake_.add_device({.name = "old", .iwarp = true, .gids = gids, .tells_netdev = false});
  const auto found = find();
  ASSERT_EQ(found.size(), 3U);
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(found[i].link_layer, LinkLayer::kIwarp);
    ASSERT_GE(found[i].eids.size(), 2U);
    EXPECT_EQ(text_of(found[i].eids[0].eid), "::ffff:10.0.0.9");
    EXPECT_EQ(text_of(found[i].eids.back().eid), "fe80::9");
    EXPECT_EQ(found[i].eids[0].netdev, 4U);
    EXPECT_EQ(found[i].eids[0].gid_index, 0U);
  }
}

TEST_F(DeviceTest, AttributesMatchTheDevice) {
  fake_.add_device({.mtu = IBV_MTU_2048,
                    .max_inline = 128,
                    .max_sge = 4,
                    .max_qp_wr = 500,
                    .max_cqe = 700,
                    .max_srq_wr = 300,
                    .max_message = 1 << 20});
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  const auto& attr = found[0].attr;
  const auto& cap = attr.dev_cap;
  EXPECT_EQ(cap.max_jfs_inline_len, 128U);
  EXPECT_EQ(cap.max_jfs_depth, 500U);
  EXPECT_EQ(cap.max_jfc_depth, 700U);
  EXPECT_EQ(cap.max_jfr_depth, 300U);
  // One is used by the data that come with a datagram, and one of each receive by a message that is
  // too long.
  EXPECT_EQ(cap.max_jfs_sge, 3U);
  EXPECT_EQ(cap.max_jfr_sge, 2U);
  EXPECT_EQ(cap.max_msg_size, 1U << 20);
  EXPECT_EQ(cap.max_read_size, 1U << 20);
  EXPECT_EQ(cap.max_write_size, 1U << 20);
  EXPECT_EQ(cap.max_cas_size, 8U);
  EXPECT_EQ(cap.atomic_feat.bs.fetch_and_xor, 1U);
  EXPECT_EQ(cap.trans_mode, URMA_TM_RM | URMA_TM_RC | URMA_TM_UM);
  EXPECT_EQ(cap.feature.bs.non_pin, 0U);
  EXPECT_GE(cap.ceq_cnt, 1U);
  EXPECT_EQ(attr.port_cnt, 1);
  EXPECT_EQ(attr.port_attr[0].active_mtu, URMA_MTU_2048);
  EXPECT_EQ(attr.port_attr[0].max_mtu, URMA_MTU_4096);
  EXPECT_EQ(attr.port_attr[0].state, URMA_PORT_ACTIVE);
  // Four lanes of 25 gigabits.
  EXPECT_EQ(attr.port_attr[0].active_width, URMA_LINK_X4);
  EXPECT_EQ(attr.port_attr[0].active_speed, URMA_SP_100G);
  EXPECT_EQ(attr.reserved_jetty_id_min, 1U);
  EXPECT_EQ(attr.reserved_jetty_id_max, 65535U);
}

TEST_F(DeviceTest, IwarpHasNeitherAtomicsNorDatagrams) {
  fake_.add_device({.iwarp = true, .max_sge = 6});
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  const auto& cap = found[0].attr.dev_cap;
  EXPECT_EQ(cap.trans_mode, URMA_TM_RM | URMA_TM_RC);
  EXPECT_EQ(cap.um_tp_cap.value, 0U);
  EXPECT_EQ(cap.atomic_feat.value, 0U);
  EXPECT_EQ(cap.max_cas_size, 0U);
  EXPECT_EQ(cap.max_swap_size, 0U);
  EXPECT_EQ(cap.max_jfs_sge, 6U);
  EXPECT_FALSE(found[0].has_immediates());
  EXPECT_EQ(describe_further(found[0]).immediate, 0U);
  EXPECT_FALSE(found[0].has_solicited());
  // Its own largest unit is nonsense.
  EXPECT_EQ(found[0].attr.port_attr[0].max_mtu, found[0].attr.port_attr[0].active_mtu);
}

TEST_F(DeviceTest, APortThatIsDownIsListed) {
  fake_.add_device({.port_state = IBV_PORT_DOWN});
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].attr.port_attr[0].state, URMA_PORT_DOWN);
}

// The address of a queue pair has the current LID.
TEST_F(DeviceTest, LaterQueuePairsUseANewLid) {
  const auto device = open({.infiniband = true, .lid = 5});
  auto pump =
      std::make_shared<CqPump>(*device, 16, std::make_shared<NotifyChannel>(*device), [] {});
  const auto lid_of_next = [&] {
    QueuePair pair(*device, IBV_QPT_RC, pump, nullptr, QueuePairLimits{}, PortAddress{}, 0, [] {});
    const uint16_t lid = pair.address().lid;
    pair.close();
    return lid;
  };
  EXPECT_EQ(lid_of_next(), 5);
  fake_.set_lid("fake0", 9);
  EXPECT_EQ(lid_of_next(), 9);
}

TEST_F(DeviceTest, OnlyQueuesUseCompletionQueues) {
  static ibv_device_attr limits;
  static int (*query)(ibv_context*, ibv_device_attr_ex*);
  query =
      std::exchange(fake_.table().query_device_ex, [](ibv_context* of, ibv_device_attr_ex* attr) {
        const int error = query(of, attr);
        attr->orig_attr.max_cq = limits.max_cq;
        attr->orig_attr.max_qp = limits.max_qp;
        attr->orig_attr.max_srq = limits.max_srq;
        return error;
      });
  fake_.add_device({});
  const auto cap_of = [&](int cqs, int pairs, int srqs) {
    limits.max_cq = cqs;
    limits.max_qp = pairs;
    limits.max_srq = srqs;
    return find().at(0).attr.dev_cap;
  };
  auto cap = cap_of(100, 300, 200);
  EXPECT_EQ(cap.max_jfc, 65535U);
  EXPECT_EQ(cap.max_jfs, 100U);
  EXPECT_EQ(cap.max_jfr, 100U);
  EXPECT_EQ(cap.max_jetty, 100U);
  cap = cap_of(1 << 20, 300, 200);
  EXPECT_EQ(cap.max_jfs, 300U);
  EXPECT_EQ(cap.max_jfr, 200U);
  EXPECT_EQ(cap.max_jetty, 200U);
}

TEST_F(DeviceTest, DiscoveryKeepsNothingOpen) {
  fake_.add_device({.has_on_demand = true});
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].attr.dev_cap.feature.bs.non_pin, 1U);
  EXPECT_EQ(fake_.objects(), 0U);
}

TEST_F(DeviceTest, DiscoverySurvivesEveryFailure) {
  fake_.add_device({});
  for (const char* verb : {"query_device_ex", "query_port", "query_gid_table"}) {
    fake_.fail(verb, EIO);
    EXPECT_TRUE(find().empty()) << verb;
    EXPECT_NE(why_, "") << verb;
    EXPECT_EQ(fake_.objects(), 0U) << verb;
  }
  for (const char* verb : {"alloc_pd", "create_cq"}) {
    fake_.fail(verb, ENOMEM);
    const auto found = find();
    ASSERT_EQ(found.size(), 1U) << verb;
    EXPECT_EQ(found[0].max_inline, 0U) << verb;
  }
}

TEST_F(DeviceTest, OpeningFailsAsAWhole) {
  fake_.add_device({});
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  for (const char* verb : {"get_device_list", "open_device", "alloc_pd"}) {
    fake_.fail(verb, EMFILE);
    const auto [status, text] =
        failure_of([&] { const Device device(fake_.api(), &service_, found[0]); });
    const bool refused = std::strcmp(verb, "get_device_list") != 0;
    EXPECT_EQ(status, refused ? EMFILE : int{URMA_FAIL}) << verb;
    EXPECT_NE(text.find("fake0"), std::string::npos) << text;
    EXPECT_EQ(fake_.objects(), 0U) << verb;
  }
}

TEST_F(DeviceTest, AddressesAreReadAgain) {
  const auto device = open({.gids = {{"10.0.0.1"}, {"10.0.0.2"}}});
  const auto second = device->info().eids[1].eid;
  fake_.set_gids("fake0", {{"fe80::1"}, {"10.0.0.7"}, {"10.0.0.2"}});
  ASSERT_TRUE(device->find_address(second));
  EXPECT_EQ(device->find_address(second)->gid_index, 2U);
  EXPECT_FALSE(device->find_address(device->info().eids[0].eid));
  EXPECT_EQ(device->addresses().size(), 3U);
}

// Records the events, and lets the test wait for the last one.
class Listener : public DeviceListener, public QueueListener {
 public:
  void port_changed(bool active) override { add(active ? "up" : "down"); }
  void addresses_changed() override { add("addresses"); }
  void device_failed() override { add("failed"); }
  void queue_event(ibv_event_type type) override { add(std::to_string(type)); }

  Texts wait(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return heard_.size() >= count; });
    return heard_;
  }

 private:
  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    heard_.push_back(what);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Texts heard_;
};

TEST_F(DeviceTest, ReportsEventsOfItsPort) {
  const auto device = open({.ports = 2});
  ASSERT_EQ(device->port(), 2);
  Listener listener;
  device->add_listener(&listener);
  fake_.raise_port_event("fake0", IBV_EVENT_PORT_ERR, 1);
  fake_.raise_port_event("fake0", IBV_EVENT_PORT_ERR, 2);
  fake_.raise_port_event("fake0", IBV_EVENT_LID_CHANGE, 2);
  fake_.raise_port_event("fake0", IBV_EVENT_PORT_ACTIVE, 2);
  fake_.raise_port_event("fake0", IBV_EVENT_GID_CHANGE, 2);
  fake_.raise_port_event("fake0", IBV_EVENT_DEVICE_FATAL, 0);
  EXPECT_EQ(listener.wait(4), (Texts{"down", "up", "addresses", "failed"}));
  device->remove_listener(&listener);
  Listener other;
  device->add_listener(&other);
  fake_.raise_port_event("fake0", IBV_EVENT_PORT_ERR, 2);
  EXPECT_EQ(other.wait(1), Texts{"down"});
  EXPECT_EQ(listener.wait(4).size(), 4U);
  device->remove_listener(&other);
}

TEST_F(DeviceTest, ReportsEventsToTheirQueues) {
  const auto device = open({});
  const auto& api = device->api();
  Listener of_cq, of_srq, of_qp;
  CqHandle cq(&api,
              api.create_cq(device->context(), 8, static_cast<QueueListener*>(&of_cq), nullptr, 0));
  CqHandle silent(&api, api.create_cq(device->context(), 8, nullptr, nullptr, 0));
  ibv_srq_init_attr srq_attr = {static_cast<QueueListener*>(&of_srq), {8, 1, 0}};
  SrqHandle srq(&api, api.create_srq(device->pd(), &srq_attr));
  ibv_qp_init_attr qp_attr = {};
  qp_attr.qp_context = static_cast<QueueListener*>(&of_qp);
  qp_attr.send_cq = cq.get();
  qp_attr.recv_cq = cq.get();
  qp_attr.srq = srq.get();
  qp_attr.qp_type = IBV_QPT_RC;
  qp_attr.cap = {4, 0, 1, 0, 0};
  QpHandle qp(&api, api.create_qp(device->pd(), &qp_attr));
  ASSERT_TRUE(cq && silent && srq && qp);
  fake_.raise_cq_event(silent.get(), IBV_EVENT_CQ_ERR);
  fake_.raise_cq_event(cq.get(), IBV_EVENT_CQ_ERR);
  fake_.raise_srq_event(srq.get(), IBV_EVENT_SRQ_LIMIT_REACHED);
  fake_.raise_qp_event(qp->qp_num, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(of_cq.wait(1), Texts{std::to_string(IBV_EVENT_CQ_ERR)});
  EXPECT_EQ(of_srq.wait(1), Texts{std::to_string(IBV_EVENT_SRQ_LIMIT_REACHED)});
  EXPECT_EQ(of_qp.wait(1), Texts{std::to_string(IBV_EVENT_QP_FATAL)});
}

TEST_F(DeviceTest, ABrokenEventStreamIsNoLongerRead) {
  const auto device = open({});
  Listener listener;
  device->add_listener(&listener);
  fake_.fail("get_async_event", EIO);
  fake_.raise_port_event("fake0", IBV_EVENT_PORT_ERR);
  while (fake_.calls("get_async_event") == 0) std::this_thread::yield();
  // The descriptor stays readable; nothing reads it any more, and the device still closes.
  for (int turn = 0; turn < 100; ++turn) service_.run([] {});
  EXPECT_EQ(fake_.calls("get_async_event"), 1U);
  device->remove_listener(&listener);
}

}  // namespace
}  // namespace urma::verbs
