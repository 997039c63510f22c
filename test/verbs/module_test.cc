// SPDX-License-Identifier: MIT
//
// The provider behind the C interface: what it adds to the interface, and what it reports if the
// device refuses.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "jetty/context.h"
#include "test/process/configs.h"
#include "test/verbs/module_fixture.h"
#include "urma/providers/verbs/transport.h"

namespace urma::verbs {
namespace {

TEST_F(ModuleTest, EmulatedAtomicsAreReported) {
  start({.has_dmabuf = true});
  urma_ext_device_t told;
  ASSERT_EQ(urma_ext_query_device(device_, &told), URMA_SUCCESS);
  EXPECT_STREQ(told.provider, "verbs");
  EXPECT_EQ(told.dmabuf, 1U);
  EXPECT_EQ(told.immediate, 1U);
  urma_atomic_feature_t wide = {};
  wide.bs.swap = wide.bs.fetch_and_and = wide.bs.fetch_and_or = wide.bs.fetch_and_xor = 1;
  EXPECT_EQ(told.emulated_atomics.value, wide.value);
  urma_device_attr_t attr;
  ASSERT_EQ(urma_query_device(device_, &attr), URMA_SUCCESS);
  EXPECT_EQ(told.emulated_atomics_4.value, attr.dev_cap.atomic_feat.value);
  EXPECT_EQ(urma_ext_query_device(nullptr, &told), URMA_EINVAL);
  EXPECT_EQ(urma_ext_query_device(device_, nullptr), URMA_EINVAL);
  urma_device_t foreign = {};
  EXPECT_EQ(urma_ext_query_device(&foreign, &told), URMA_EINVAL);
}

TEST_F(ModuleTest, NoAtomicsAreEmulatedWithoutAtomics) {
  start({.has_atomics = false});
  urma_ext_device_t told;
  ASSERT_EQ(urma_ext_query_device(device_, &told), URMA_SUCCESS);
  EXPECT_EQ(told.emulated_atomics.value, 0U);
  EXPECT_EQ(told.emulated_atomics_4.value, 0U);
}

TEST_F(ModuleTest, ConnectionsAreListedAtBothEnds) {
  start({});
  EXPECT_TRUE(all(urma_ext_query_connections).empty());
  alignas(8) char memory[64] = {};
  urma_target_seg_t* own = add(memory, sizeof(memory));
  urma_token_t token = {0};
  urma_target_seg_t* imported =
      urma_import_seg(ctx_, &own->seg, &token, 0, urma_import_seg_flag_t{});
  {
    const Loop loop(ctx_);
    const urma_sge_t from = piece(own, address(memory), 8);
    ASSERT_EQ(loop.post(URMA_OPC_WRITE, from, piece(imported, address(memory) + 8, 8)),
              URMA_SUCCESS);
    ASSERT_EQ(loop.status(), URMA_CR_SUCCESS);
    const auto ends = all(urma_ext_query_connections);
    ASSERT_EQ(ends.size(), 2U);
    for (const auto& end : ends) {
      EXPECT_STREQ(end.device, "urma_fake0");
      EXPECT_EQ(std::memcmp(&end.eid, &ctx_->eid, sizeof(end.eid)), 0);
      EXPECT_EQ(std::memcmp(&end.peer_eid, &ctx_->eid, sizeof(end.eid)), 0);
      EXPECT_EQ(end.state, URMA_EXT_CONNECTION_READY);
      EXPECT_EQ(end.trans_mode, uint32_t{URMA_TM_RM});
      EXPECT_EQ(end.status, 0U);
      EXPECT_GT(end.age_ns, 0U);
      EXPECT_LT(end.age_ns, kPatienceNs);
    }
    EXPECT_EQ(ends[0].incoming, 0U);
    EXPECT_EQ(ends[0].kind, URMA_EXT_QUEUE_JFS);
    EXPECT_EQ(ends[0].id, loop.jfs->jfs_id.id);
    EXPECT_EQ(ends[0].peer_kind, URMA_EXT_QUEUE_JFR);
    EXPECT_EQ(ends[0].peer_id, loop.jfr->jfr_id.id);
    EXPECT_EQ(ends[1].incoming, 1U);
    EXPECT_EQ(ends[1].kind, URMA_EXT_QUEUE_JFR);
    EXPECT_EQ(ends[1].id, loop.jfr->jfr_id.id);
    EXPECT_EQ(ends[1].peer_kind, URMA_EXT_QUEUE_JFS);
    EXPECT_EQ(ends[1].peer_id, loop.jfs->jfs_id.id);
    EXPECT_EQ(ends[0].handle, ends[1].handle);
    EXPECT_NE(ends[0].number, 0U);
    EXPECT_EQ(ends[0].number, ends[1].peer_number);
    EXPECT_EQ(ends[1].number, ends[0].peer_number);
    // The sender notices at its next poll; the receiver is notified.
    fake->raise_qp_event(ends[0].number, IBV_EVENT_QP_FATAL);
    EXPECT_TRUE(soon(
        [] { return all(urma_ext_query_connections)[0].state == URMA_EXT_CONNECTION_FAILED; }));
  }
  EXPECT_TRUE(soon([] { return all(urma_ext_query_connections).empty(); }));
  EXPECT_EQ(urma_unimport_seg(imported), URMA_SUCCESS);
  EXPECT_EQ(urma_unregister_seg(own), URMA_SUCCESS);
}

TEST_F(ModuleTest, TheSettingSelectsTheType) {
  ::setenv("URMA_VERBS_TYPE", "ib", 1);
  start({});
  ::unsetenv("URMA_VERBS_TYPE");
  EXPECT_EQ(device_->type, URMA_TRANSPORT_IB);
  EXPECT_EQ(urma_get_device_by_eid(ctx_->eid, URMA_TRANSPORT_IB), device_);
  EXPECT_EQ(urma_get_device_by_eid(ctx_->eid, URMA_TRANSPORT_UB), nullptr);
}

TEST_F(ModuleTest, AdviceOnATypedIbDeviceIsAnswered) {
  ::setenv("URMA_VERBS_TYPE", "ib", 1);
  start({});
  ::unsetenv("URMA_VERBS_TYPE");
  std::atomic<int> result{-1};
  const auto note = [](urma_status_t status, void* to) {
    static_cast<std::atomic<int>*>(to)->store(status);
  };
  const Loop loop(ctx_);
  ASSERT_EQ(urma_advise_jfr_async(loop.jfs, loop.target, note, &result), URMA_SUCCESS);
  EXPECT_TRUE(soon([&] { return result == URMA_SUCCESS; }));
  EXPECT_TRUE(soon([] { return all(urma_ext_query_connections).size() == 2; }));
  EXPECT_EQ(urma_advise_jfr_async(loop.jfs, loop.target, note, &result), URMA_EEXIST);
  EXPECT_EQ(urma_unadvise_jfr(loop.jfs, loop.target), URMA_SUCCESS);
}

TEST_F(ModuleTest, TheTypeIsUbWithoutASetting) {
  start({});
  EXPECT_EQ(device_->type, URMA_TRANSPORT_UB);
  EXPECT_EQ(urma_get_device_by_eid(ctx_->eid, URMA_TRANSPORT_UB), device_);
  EXPECT_EQ(urma_get_device_by_eid(ctx_->eid, URMA_TRANSPORT_IB), nullptr);
}

TEST_F(ModuleTest, TheStateOfThePortIsCurrent) {
  start({});
  const auto state = [&] {
    urma_device_attr_t attr;
    EXPECT_EQ(urma_query_device(device_, &attr), URMA_SUCCESS);
    return attr.port_attr[0].state;
  };
  EXPECT_EQ(state(), URMA_PORT_ACTIVE);
  fake->raise_port_event("fake0", IBV_EVENT_PORT_ERR);
  EXPECT_TRUE(soon([&] { return state() == URMA_PORT_DOWN; }));
  fake->raise_port_event("fake0", IBV_EVENT_PORT_ACTIVE);
  EXPECT_TRUE(soon([&] { return state() == URMA_PORT_ACTIVE; }));
}

TEST_F(ModuleTest, TheDescriptorOfEventsIsReadableWhileOneWaits) {
  start({});
  pollfd ready = {ctx_->async_fd, POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
  fake->raise_port_event("fake0", IBV_EVENT_PORT_ERR);
  EXPECT_EQ(::poll(&ready, 1, 20'000), 1);
  urma_async_event_t event = {};
  ASSERT_EQ(urma_get_async_event(ctx_, &event), URMA_SUCCESS);
  EXPECT_EQ(event.event_type, URMA_EVENT_PORT_DOWN);
  EXPECT_EQ(event.element.port_id, 0U);
  EXPECT_EQ(event.urma_ctx, ctx_);
  urma_ack_async_event(&event);
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
}

// What each call returns, and the remedy in its log line.
TEST_F(ModuleTest, RefusalsOfTheDeviceNameTheRemedy) {
  start({});
  alignas(8) char memory[64] = {};
  const auto segment_fails = [&](int error, int expected, const std::vector<std::string>& words) {
    fake->fail("reg_mr", error);
    errno = 0;
    EXPECT_EQ(add(memory, sizeof(memory)), nullptr);
    EXPECT_EQ(errno, expected) << error;
    EXPECT_TRUE(logged(words)) << error;
  };
  segment_fails(ENOMEM, ENOMEM, {"64 bytes", "ulimit -l", "CAP_IPC_LOCK"});
  segment_fails(EPERM, EPERM, {"64 bytes", "/dev/infiniband/uverbs"});
  segment_fails(EIO, EIO, {"64 bytes", "was removed", "urma_init"});
  segment_fails(ENODEV, EIO, {"64 bytes", "was removed", "urma_init"});
  const auto queue_fails = [&](const char* verb, int error, int expected,
                               const std::vector<std::string>& words) {
    urma_jfc_cfg_t jfc_cfg = urma_test::jfc_config(64);
    urma_jfc_t* jfc = urma_create_jfc(ctx_, &jfc_cfg);
    urma_jfr_cfg_t cfg = urma_test::jfr_config(jfc, 16);
    fake->fail(verb, error);
    errno = 0;
    EXPECT_EQ(urma_create_jfr(ctx_, &cfg), nullptr);
    EXPECT_EQ(errno, expected) << verb;
    EXPECT_TRUE(logged(words)) << verb;
    EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
  };
  for (const char* verb : {"create_srq", "create_cq"}) {
    queue_fails(verb, ENOMEM, ENOMEM, {"16", "ulimit -l"});
    queue_fails(verb, EPERM, EPERM, {"16", "/dev/infiniband/uverbs"});
    queue_fails(verb, ENODEV, EIO, {"16", "was removed"});
  }
  // The port stays open while a context exists.
  EXPECT_EQ(urma_delete_context(ctx_), URMA_SUCCESS);
  const auto context_fails = [&](int error, int expected, const std::vector<std::string>& words) {
    fake->set_open_error("fake0", error);
    errno = 0;
    EXPECT_EQ(urma_create_context(device_, 0), nullptr);
    EXPECT_EQ(errno, expected) << error;
    EXPECT_TRUE(logged(words)) << error;
  };
  context_fails(EACCES, EPERM, {"fake0", "/dev/infiniband/uverbs"});
  context_fails(ENODEV, EIO, {"fake0", "was removed"});
  fake->set_open_error("fake0", 0);
  ctx_ = urma_create_context(device_, 0);
  ASSERT_NE(ctx_, nullptr);
}

TEST_F(ModuleTest, AMissingPeerIsNamed) {
  start({});
  const Loop loop(ctx_);
  urma_jfr_id_t nobody = loop.jfr->jfr_id;
  nobody.id = 1 << 16 | 1;  // port 1
  urma_target_jetty_t* target = loop.import(nobody);
  logged({});
  ASSERT_EQ(loop.send(target), URMA_SUCCESS);
  EXPECT_EQ(loop.status(), URMA_CR_ACK_TIMEOUT_ERR);
  EXPECT_TRUE(logged({"cannot send to id 0x10001", "URMA_VERBS_TIMEOUT_MS", "urma_ping"}));
  EXPECT_EQ(urma_unimport_jfr(target), URMA_SUCCESS);
}

TEST_F(ModuleTest, ADeviceThatDoesNotAnswerIsNamed) {
  start({});
  const Loop loop(ctx_);
  loop.post_receive();
  ASSERT_EQ(loop.send(loop.target), URMA_SUCCESS);
  EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
  EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
  logged({});
  fake->set_reachable("fake0", false);
  ASSERT_EQ(loop.send(loop.target), URMA_SUCCESS);
  EXPECT_EQ(loop.status(), URMA_CR_ACK_TIMEOUT_ERR);
  EXPECT_TRUE(logged({"127.0.0.1", "has not answered urma_fake0", "err_timeout 14", "urma_ping"}));
}

// Addresses come and go, and others move up.
TEST_F(ModuleTest, AnAddressIsFoundAtAnyIndexOfItsTable) {
  start({});
  fake->set_gids("fake0", {{"10.77.0.1"}, {"127.0.0.1"}});
  fake->raise_port_event("fake0", IBV_EVENT_GID_CHANGE);
  const auto from_second = [&] {
    const Loop loop(ctx_);
    loop.post_receive();
    EXPECT_EQ(loop.send(loop.target), URMA_SUCCESS);
    EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
    EXPECT_EQ(loop.status(), URMA_CR_SUCCESS);
    const std::vector<uint32_t> pairs = fake->queue_pairs();
    EXPECT_FALSE(pairs.empty());
    return std::all_of(pairs.begin(), pairs.end(),
                       [](uint32_t pair) { return fake->gid_index_of(pair) == 1; });
  };
  EXPECT_TRUE(soon(from_second)) << "it works after the event was handled";
}

// A peer that asks for both kinds of end under one number would get one that it need not return.
TEST_F(ModuleTest, OneConnectionNumberHasOneEnd) {
  ASSERT_NO_FATAL_FAILURE(start({}));
  const Loop loop(ctx_);
  auto& transport = static_cast<Transport&>(static_cast<urma::Context*>(ctx_)->transport());
  Server server(&transport);
  const size_t before = fake->queue_pairs().size();
  const urma_eid_t eid = loop.jfr->jfr_id.eid;
  const PeerRef peer = {address_of(eid, LinkLayer::kRoce, 9), 5};
  ConnectRequest request = {};
  request.source = {eid, 1, 7, false};
  request.end.gid = eid;
  request.end.mtu = IBV_MTU_1024;
  request.end.qpn = request.end.rd_atomic = 1;
  request.target = {eid, loop.jfr->jfr_id.id, URMA_JFR, URMA_TM_RM, 0};
  for (const bool one_sided : {true, false}) {
    transport.service().run([&] {
      ++request.connection;
      request.one_sided = one_sided;
      EXPECT_EQ(server.on_connect(peer, request).answer, Answer::kAccepted);
      EXPECT_EQ(server.on_connect(peer, request).answer, Answer::kAccepted);
      request.one_sided = !one_sided;
      EXPECT_EQ(server.on_connect(peer, request).answer, Answer::kMalformed);
      EXPECT_EQ(fake->queue_pairs().size(), before + 1);
      server.on_disconnect(peer, {request.connection, true, DisconnectReason::kClosed, 0});
    });
    EXPECT_TRUE(soon([&] { return fake->queue_pairs().size() == before; }));
  }
}

}  // namespace
}  // namespace urma::verbs
