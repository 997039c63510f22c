// SPDX-License-Identifier: MIT
//
// Transport channels and network addresses: names are assigned, held and checked.
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/owned.h"
#include "test/process/party.h"

namespace urma_test {
namespace {

using ChannelTest = ProcessTest;

constexpr uint32_t kAllMembers = (1 << 19) - 1;
constexpr uint32_t kGlobalPort = 1 << 16;

urma_get_tp_cfg_t wish(const Endpoint& endpoint) {
  urma_get_tp_cfg_t cfg = {};
  cfg.trans_mode = endpoint.config.mode;
  cfg.local_eid = endpoint.ctx->eid;
  cfg.peer_eid = endpoint.ctx->eid;
  return cfg;
}

uint64_t channel_of(const Endpoint& endpoint, uint32_t ctp = 0) {
  urma_get_tp_cfg_t cfg = wish(endpoint);
  cfg.flag.bs.ctp = ctp;
  cfg.flag.bs.rtp = 1 - ctp;
  uint32_t count = 1;
  urma_tp_info_t info = {};
  EXPECT_EQ(urma_get_tp_list(endpoint.ctx, &cfg, &count, &info), URMA_SUCCESS);
  EXPECT_EQ(count, 1u);
  EXPECT_NE(info.tp_handle, 0u);
  return info.tp_handle;
}

urma_rjetty_t descriptor_of(const Endpoint& endpoint) {
  urma_rjetty_t* made = nullptr;
  uint32_t length = 0;
  EXPECT_EQ(urma_get_rjetty(endpoint.jetty, &made, &length), URMA_SUCCESS);
  const urma_rjetty_t copy = *made;
  urma_put_rjetty(made);
  return copy;
}

TEST_F(ChannelTest, ListGivesTheSameHandlesAgain) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    urma_get_tp_cfg_t cfg = wish(endpoint);
    urma_tp_info_t all[4] = {};
    uint32_t count = 4;
    EXPECT_EQ(urma_get_tp_list(endpoint.ctx, &cfg, &count, all), URMA_SUCCESS);
    EXPECT_EQ(count, 2u);
    EXPECT_EQ(channel_of(endpoint, 0), all[0].tp_handle);
    EXPECT_EQ(channel_of(endpoint, 1), all[1].tp_handle);
    EXPECT_NE(all[0].tp_handle, all[1].tp_handle);
    cfg.peer_eid.raw[15] ^= 1;
    count = 1;
    urma_tp_info_t other = {};
    EXPECT_EQ(urma_get_tp_list(endpoint.ctx, &cfg, &count, &other), URMA_SUCCESS);
    EXPECT_NE(other.tp_handle, all[0].tp_handle);

    // RM does not take an unreliable channel, and the context has only one EID.
    cfg.flag.bs.utp = 1;
    EXPECT_EQ(urma_get_tp_list(endpoint.ctx, &cfg, &count, &other), URMA_EINVAL);
    cfg.flag.bs.utp = 0;
    cfg.local_eid.raw[15] ^= 1;
    EXPECT_EQ(urma_get_tp_list(endpoint.ctx, &cfg, &count, &other), URMA_EINVAL);
    EXPECT_EQ(count, 1u);
  });
}

TEST_F(ChannelTest, AttributesAreKeptMemberByMember) {
  run_one([](Channel&) {
    Endpoint endpoint;
    const uint64_t handle = channel_of(endpoint);
    uint8_t count = 0;
    uint32_t bitmap = 0;
    urma_tp_attr_value_t before;
    EXPECT_EQ(urma_get_tp_attr(endpoint.ctx, handle, &count, &bitmap, &before), URMA_SUCCESS);
    EXPECT_EQ(bitmap, kAllMembers);
    EXPECT_EQ(count, 19u);
    EXPECT_EQ(std::memcmp(before.sip, endpoint.ctx->eid.raw, sizeof before.sip), 0);

    urma_tp_attr_value_t wanted;
    std::memset(&wanted, 0xff, sizeof wanted);
    EXPECT_EQ(urma_set_tp_attr(endpoint.ctx, handle, 2, 1 << 8 | 1 << 13, &wanted), URMA_SUCCESS);
    urma_tp_attr_value_t after;
    EXPECT_EQ(urma_get_tp_attr(endpoint.ctx, handle, &count, &bitmap, &after), URMA_SUCCESS);
    EXPECT_EQ(after.dscp, 0x3f);
    EXPECT_EQ(after.data_udp_srcport, 0xffff);
    after.dscp = before.dscp;
    after.data_udp_srcport = before.data_udp_srcport;
    EXPECT_EQ(std::memcmp(&after, &before, sizeof after), 0);

    // All of them, except the one that programs cannot use.
    EXPECT_EQ(urma_set_tp_attr(endpoint.ctx, handle, 19, kAllMembers, &wanted), URMA_SUCCESS);
    EXPECT_EQ(urma_get_tp_attr(endpoint.ctx, handle, &count, &bitmap, &after), URMA_SUCCESS);
    EXPECT_EQ(after.udp_global_en, before.udp_global_en);
    EXPECT_EQ(after.retry_times_init, 7);
    EXPECT_EQ(after.vlan_id, 0xfff);
    EXPECT_EQ(after.dma[5], 0xff);
    EXPECT_EQ(after.sl_bitmap, 0xffff);
    EXPECT_EQ(after.dscp_config_mode, 1);

    EXPECT_EQ(urma_set_tp_attr(endpoint.ctx, handle, 1, 1 << 19, &wanted), URMA_EINVAL);
    EXPECT_EQ(urma_set_tp_attr(endpoint.ctx, handle, 0, kGlobalPort, &wanted), URMA_SUCCESS);
    for (const uint64_t unknown : {uint64_t{0}, handle + 1000, handle ^ (uint64_t{1} << 60)}) {
      EXPECT_EQ(urma_set_tp_attr(endpoint.ctx, unknown, 1, 1, &wanted), URMA_EINVAL);
      EXPECT_EQ(urma_get_tp_attr(endpoint.ctx, unknown, &count, &bitmap, &after), URMA_EINVAL);
    }
    endpoint.close();
  });
}

// Like programs: ask for one channel, and import over it.
TEST_F(ChannelTest, ImportOverAListedChannelSends) {
  run_two(
      "sender",
      [](Channel& channel) {
        Party party{Config{}};
        Endpoint& endpoint = party.endpoint;
        urma_rjetty_t remote = channel.receive<urma_rjetty_t>();
        urma_token_t token = {};
        urma_import_jetty_ex_cfg_t cfg = {};
        cfg.tp_handle = channel_of(endpoint, 1);
        const ImportedJetty target = urma_import_jetty_ex(endpoint.ctx, &remote, &token, &cfg);
        EXPECT_EQ(target->tp_type, URMA_CTP);
        urma_jfs_wr_t wr = party.message(8, 5);
        wr.tjetty = target;
        endpoint.post(wr);
        EXPECT_EQ(wait_for_success(endpoint.send_jfc, 5).tpn, target->tp.tpn);
        channel.sync();

        cfg.tp_handle += 1000;
        errno = 0;
        EXPECT_EQ(urma_import_jetty_ex(endpoint.ctx, &remote, &token, &cfg), nullptr);
        EXPECT_EQ(errno, EINVAL);
        cfg.tp_handle = channel_of(endpoint);
        urma_rjetty_t elsewhere = remote;
        elsewhere.jetty_id.eid.raw[0] ^= 1;
        EXPECT_EQ(urma_import_jetty_ex(endpoint.ctx, &elsewhere, &token, &cfg), nullptr);
      },
      "owner",
      [](Channel& channel) {
        Party party{Config{}};
        party.post_receive(9);
        channel.send(descriptor_of(party.endpoint));
        // The channel that the sender has picked is not told.
        const urma_cr_t cr = wait_for_success(party.endpoint.receive_jfc, 9);
        EXPECT_TRUE(!over_shared_memory() || cr.tpn == cr.remote_id.id) << cr.tpn;
        channel.sync();
      });
}

TEST_F(ChannelTest, SharedChannelsHaveOneNumber) {
  run_one([](Channel&) {
    Party party{Config{}};
    Endpoint& endpoint = party.endpoint;
    urma_rjetty_t first = descriptor_of(endpoint);
    urma_rjetty_t second = first;
    second.jetty_id.id = party.add_jetty()->jetty_id.id;
    urma_token_t token = {};
    urma_import_jetty_ex_cfg_t any = {};
    std::vector<urma_target_jetty_t*> targets;
    for (const uint32_t share : {0, 1}) {
      first.flag.bs.share_tp = second.flag.bs.share_tp = share;
      targets.push_back(urma_import_jetty_ex(endpoint.ctx, &first, &token, &any));
      targets.push_back(urma_import_jetty(endpoint.ctx, &second, &token));
    }
    EXPECT_NE(targets[0]->tp.tpn, targets[1]->tp.tpn);
    EXPECT_EQ(targets[2]->tp.tpn, targets[3]->tp.tpn);

    // Valid while in use; a shared one stays.
    const uint32_t own = targets[0]->tp.tpn, shared = targets[2]->tp.tpn;
    urma_tp_cfg_t cfg = {};
    urma_tp_attr_t attr = {};
    urma_tp_attr_mask_t mask = {};
    EXPECT_EQ(urma_modify_tp(endpoint.ctx, own, &cfg, &attr, mask), 0);
    for (urma_target_jetty_t* target : targets) {
      EXPECT_EQ(urma_unimport_jetty(target), URMA_SUCCESS);
    }
    EXPECT_EQ(urma_modify_tp(endpoint.ctx, own, &cfg, &attr, mask), URMA_EINVAL);
    EXPECT_EQ(urma_modify_tp(endpoint.ctx, shared, &cfg, &attr, mask), 0);
    mask.bs.state = 1;
    attr.state = static_cast<urma_tp_state_t>(URMA_TP_STATE_ERROR + 1);
    EXPECT_EQ(urma_modify_tp(endpoint.ctx, shared, &cfg, &attr, mask), URMA_EINVAL);
    mask.value = 1U << 31;
    EXPECT_EQ(urma_modify_tp(endpoint.ctx, shared, &cfg, &attr, mask), URMA_EINVAL);
  });
}

TEST_F(ChannelTest, BoundJettyHasANumber) {
  run_one([](Channel&) {
    Party party;
    urma_jetty_t* jetty = party.endpoint.jetty;
    EXPECT_EQ(urma_get_tpn(jetty), -URMA_EINVAL);
    urma_target_jetty_t* peer = party.import(party.add_jetty()->jetty_id.id);
    EXPECT_EQ(urma_bind_jetty(jetty, peer), URMA_SUCCESS);
    EXPECT_EQ(urma_get_tpn(jetty), static_cast<int>(peer->tp.tpn));
    EXPECT_GE(urma_get_tpn(jetty), 0);
    EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
    EXPECT_EQ(urma_get_tpn(jetty), -URMA_EINVAL);

    urma_bind_jetty_ex_cfg_t cfg = {};
    cfg.tp_handle = channel_of(party.endpoint) + 1000;
    EXPECT_EQ(urma_bind_jetty_ex(jetty, peer, &cfg), URMA_EINVAL);
    EXPECT_EQ(jetty->remote_jetty, nullptr);
    cfg.tp_handle = channel_of(party.endpoint);
    EXPECT_EQ(urma_bind_jetty_ex(jetty, peer, &cfg), URMA_SUCCESS);
    EXPECT_EQ(urma_get_tpn(jetty), static_cast<int>(peer->tp.tpn));
    EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
    EXPECT_EQ(peer->tp.tpn, UINT32_MAX);
  });
}

// A completion record has the number of the channel of its request.
TEST_F(ChannelTest, RecordsNameTheChannelOfTheLastBind) {
  run_one([](Channel&) {
    Party party;
    urma_jetty_t* other = party.add_jetty();
    urma_target_jetty_t* peer = party.import(other->jetty_id.id);
    urma_target_jetty_t* back = party.import(party.endpoint.jetty->jetty_id.id);
    EXPECT_EQ(urma_bind_jetty(other, back), URMA_SUCCESS);
    std::set<uint32_t> numbers;
    for (uint32_t number : {0, 1, 0}) {
      urma_bind_jetty_ex_cfg_t cfg = {};
      cfg.tp_handle = channel_of(party.endpoint, number);
      ASSERT_EQ(urma_bind_jetty_ex(party.endpoint.jetty, peer, &cfg), URMA_SUCCESS);
      party.post_receive(number);
      party.send(8, number);
      EXPECT_EQ(wait_for_success(party.endpoint.send_jfc, number).tpn, peer->tp.tpn);
      wait_for_success(party.endpoint.receive_jfc, number);
      numbers.insert(peer->tp.tpn);
      EXPECT_EQ(urma_unbind_jetty(party.endpoint.jetty), URMA_SUCCESS);
    }
    EXPECT_EQ(numbers.size(), 2u);
  });
}

TEST_F(ChannelTest, ManyThreadsAtOnce) {
  run_one([](Channel&) {
    std::vector<std::thread> threads;
    OwnedEndpoint endpoint;
    for (uint8_t number = 0; number < 4; ++number) {
      threads.emplace_back([&endpoint, number] {
        for (int round = 0; round < 200; ++round) {
          const uint64_t handle = channel_of(endpoint, number % 2);
          urma_tp_attr_value_t attr = {};
          attr.ttl = number;
          uint8_t count;
          uint32_t bitmap;
          EXPECT_EQ(urma_set_tp_attr(endpoint.ctx, handle, 1, 1 << 11, &attr), URMA_SUCCESS);
          EXPECT_EQ(urma_get_tp_attr(endpoint.ctx, handle, &count, &bitmap, &attr), URMA_SUCCESS);
          EXPECT_EQ(attr.ttl % 2, number % 2);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_F(ChannelTest, AddressesFollowFromTheEid) {
  run_one([](Channel&) {
    Endpoint endpoint;
    urma_context_t* ctx = endpoint.ctx;
    uint32_t count = 0;
    urma_net_addr_info_t* list = urma_get_net_addr_list(ctx, &count);
    ASSERT_NE(list, nullptr);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(list->index, ctx->eid_index);
    urma_net_addr_t address = {};
    EXPECT_EQ(urma_get_ip_by_eid(ctx, &ctx->eid, &address), URMA_SUCCESS);
    EXPECT_EQ(address.sin_family, list->netaddr.sin_family);
    urma_free_net_addr_list(list);

    urma_eid_t eid = {};
    EXPECT_EQ(urma_get_eid_by_ip(ctx, &address, &eid), URMA_SUCCESS);
    EXPECT_EQ(std::memcmp(&eid, &ctx->eid, sizeof eid), 0);
    uint8_t own[URMA_MAC_BYTES] = {}, other[URMA_MAC_BYTES] = {};
    EXPECT_EQ(urma_get_smac(ctx, own), URMA_SUCCESS);
    EXPECT_EQ(urma_get_dmac(ctx, &address, other), URMA_SUCCESS);
    EXPECT_EQ(std::memcmp(own, other, sizeof own), 0);
    EXPECT_EQ(own[0] & 3, 2);  // locally administered, of one card

    // An address that no one has, one of no family, and an empty one.
    urma_net_addr_t unknown = {};
    unknown.sin_family = AF_INET;
    ASSERT_EQ(::inet_pton(AF_INET, "203.0.113.7", &unknown.in4), 1);
    EXPECT_EQ(urma_get_eid_by_ip(ctx, &unknown, &eid), URMA_FAIL);
    EXPECT_EQ(urma_get_dmac(ctx, &unknown, other), URMA_FAIL);
    unknown.sin_family = AF_UNIX;
    EXPECT_EQ(urma_get_eid_by_ip(ctx, &unknown, &eid), URMA_EINVAL);
    urma_u32_to_eid(0xcb007107, &eid);
    EXPECT_EQ(urma_get_ip_by_eid(ctx, &eid, &unknown), URMA_FAIL);
    eid = {};
    EXPECT_EQ(urma_get_ip_by_eid(ctx, &eid, &unknown), URMA_EINVAL);
    endpoint.close();
  });
}

TEST_F(ChannelTest, AdviceIsAHint) {
  run_one([](Channel&) {
    Party party{Config{}};
    urma_target_jetty_t* self = party.import(party.endpoint.jetty->jetty_id.id);
    EXPECT_EQ(urma_advise_jetty(party.endpoint.jetty, self), URMA_SUCCESS);
    EXPECT_EQ(urma_advise_jetty(party.endpoint.jetty, self), URMA_SUCCESS);
    QueueId nobody = party.endpoint.queue_id();
    nobody.id ^= 1;
    EXPECT_EQ(urma_advise_jetty(party.endpoint.jetty, party.endpoint.import(nobody)), URMA_SUCCESS);
    EXPECT_EQ(urma_unadvise_jetty(party.endpoint.jetty, self), URMA_SUCCESS);
  });
}

}  // namespace
}  // namespace urma_test
