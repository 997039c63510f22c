// SPDX-License-Identifier: MIT
//
// What holds for near and far peers together: fences, modes RC and UM, groups, receives that are
// scarce, one descriptor.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "test/process/alias.h"
#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/owned.h"
#include "urma_ubagg.h"

namespace urma_test {
namespace {

using TogetherTest = ProcessTest;

const char* directory_of(bool near) { return near ? "one" : "other"; }

// Has words for others.
void own_words(Channel& channel, bool near) {
  live_in(directory_of(near));
  std::array<uint64_t, 8> words = {};
  OwnedEndpoint endpoint;
  channel.send(offer_of(endpoint, endpoint.add(words.data(), sizeof(words))));
  channel.sync();
}

// Fetches from one peer, and writes what has come to the other one, which the fence holds up.
void relay(const Offer& from, const Offer& to) {
  constexpr uint64_t kRounds = 200;
  constexpr uint64_t kRead = 0;
  constexpr uint64_t kAdded = 8;
  live_in("one");
  std::array<uint64_t, 8> words = {};
  Importer source(from, /*mapped=*/false);
  Endpoint& endpoint = source.endpoint;
  urma_target_seg_t* local = endpoint.add(words.data(), sizeof(words));
  urma_target_jetty_t* queue = endpoint.import(to.queue);
  urma_target_seg_t* remote = endpoint.import(to.segment);
  for (uint64_t round = 1; round <= kRounds; ++round) {
    source.write(kRead, round);
    words = {};
    std::array<urma_sge_t, 2> here = {piece(local, &words[0], 8), piece(local, &words[1], 8)};
    std::array<urma_sge_t, 2> there;
    std::array<urma_sge_t, 2> beyond;
    for (const uint64_t i : {0, 1}) {
      there[i] = piece(source.remote, from.segment.va + 8 * i, 8);
      beyond[i] = piece(remote, to.segment.va + 8 * i, 8);
    }
    std::array<urma_jfs_wr_t, 4> list = {
        read_request(source.queue, &here[0], &there[0], 0),
        write_request(queue, &here[0], &beyond[0], 1),
        add_request(source.queue, &here[1], &there[1], 1, 2),
        write_request(queue, &here[1], &beyond[1], 3),
    };
    for (size_t i = 0; i < 3; ++i) list[i].next = &list[i + 1];
    list[1].flag.bs.fence = list[3].flag.bs.fence = 1;
    urma_jfs_wr_t* bad = nullptr;
    ASSERT_EQ(endpoint.post(list.data(), &bad), URMA_SUCCESS);
    for (uint64_t i = 0; i < list.size(); ++i) wait_for_success(endpoint.send_jfc, i);
    words = {};
    for (const uint64_t i : {0, 1}) {
      endpoint.post(read_request(queue, &here[i], &beyond[i], i));
      wait_for_success(endpoint.send_jfc, i);
    }
    EXPECT_EQ(words[kRead / 8], round);
    EXPECT_EQ(words[kAdded / 8], round - 1);
  }
}

void relay_between(bool from_near) {
  Child near("near", [](Channel& channel) { own_words(channel, true); });
  Child far("far", [](Channel& channel) { own_words(channel, false); });
  const auto near_offer = near.channel().receive<Offer>();
  const auto far_offer = far.channel().receive<Offer>();
  Child user("user", [=](Channel&) {
    from_near ? relay(near_offer, far_offer) : relay(far_offer, near_offer);
  });
  user.expect_success();
  for (Child* child : {&near, &far}) {
    child->channel().sync();
    child->expect_success();
  }
}

TEST_F(TogetherTest, AWriteToANearPeerWaitsForWhatIsReadFromAFarOne) {
  relay_between(/*from_near=*/false);
}

TEST_F(TogetherTest, AWriteToAFarPeerWaitsForWhatIsReadFromANearOne) {
  relay_between(/*from_near=*/true);
}

struct Stamp {
  uint64_t near;
  uint64_t number;
};

// Sends numbered messages; `ahead` of its completions at most.
class Sender {
 public:
  explicit Sender(bool near, const Config& config = {}) : near_(near), endpoint(config) {
    segment_ = endpoint.add(stamps_.data(), sizeof(stamps_));
  }
  void post(urma_target_jetty_t* queue, uint64_t number, uint8_t hint = 0) {
    Stamp& stamp = stamps_[number % stamps_.size()];
    stamp = {near_ ? 1U : 0U, number};
    urma_sge_t local = piece(segment_, &stamp, sizeof(stamp));
    urma_jfs_wr_t wr = send_request(queue, &local, number);
    wr.send.target_hint = hint;
    endpoint.post(wr);
  }
  void send(urma_target_jetty_t* queue, uint64_t number, uint8_t hint = 0) {
    post(queue, number, hint);
    wait_for_success(endpoint.send_jfc, number);
  }

 private:
  const bool near_;
  std::array<Stamp, 32> stamps_ = {};

 public:
  OwnedEndpoint endpoint;

 private:
  urma_target_seg_t* segment_;
};

// Takes those messages. Each sender's come in order.
class Taker {
 public:
  explicit Taker(const Config& config = {}) : endpoint(config) {
    segment_ = endpoint.add(stamps_.data(), sizeof(stamps_));
  }
  void post_receive() {
    Stamp& stamp = stamps_[posted_++ % stamps_.size()];
    endpoint.post_receive(segment_, &stamp, sizeof(stamp));
  }
  // The sender of the next message is near.
  bool take(urma_cr_t* record = nullptr) {
    const urma_cr_t cr = wait_for(endpoint.receive_jfc);
    EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
    EXPECT_EQ(cr.completion_len, sizeof(Stamp));
    const Stamp stamp = stamps_[taken_++ % stamps_.size()];
    EXPECT_EQ(stamp.number, next[stamp.near]++) << (stamp.near != 0 ? "near" : "far");
    if (record != nullptr) *record = cr;
    return stamp.near != 0;
  }

 private:
  std::array<Stamp, 32> stamps_ = {};
  uint64_t posted_ = 0;
  uint64_t taken_ = 0;

 public:
  OwnedEndpoint endpoint;
  std::array<uint64_t, 2> next = {};  // numbers of far and near messages

 private:
  urma_target_seg_t* segment_;
};

// All messages of both wait when the first receive is posted, and there is one at a time: so it is
// rare that all of one are taken before any of the other.
TEST_F(TogetherTest, NeitherNearNorFarSendersStarveWhereReceivesAreScarce) {
  static constexpr uint64_t kRounds = 50;
  static constexpr uint64_t kOfEach = 16;
  Child receiver("receiver", [](Channel& channel) {
    live_in("one");
    Taker taker;
    channel.send(taker.endpoint.queue_id());
    uint64_t one_sided = 0;  // rounds
    for (uint64_t round = 0; round < kRounds; ++round) {
      channel.sync();
      uint64_t near = 0;
      for (uint64_t i = 0; i < 2 * kOfEach; ++i) {
        taker.post_receive();
        near += taker.take() ? 1 : 0;
        if (i + 1 == kOfEach && (near == 0 || near == kOfEach)) ++one_sided;
      }
      channel.sync();
    }
    EXPECT_LT(one_sided, kRounds / 2);
  });
  const auto to = receiver.channel().receive<QueueId>();
  const auto send = [=](bool near) {
    return [=](Channel& channel) {
      live_in(directory_of(near));
      Config config;
      config.rnr_retry = 7;
      Sender sender(near, config);
      urma_target_jetty_t* queue = sender.endpoint.import(to);
      for (uint64_t round = 0; round < kRounds; ++round) {
        const uint64_t first = round * kOfEach;
        for (uint64_t i = first; i < first + kOfEach; ++i) sender.post(queue, i);
        channel.sync();
        for (uint64_t i = first; i < first + kOfEach; ++i) {
          wait_for_success(sender.endpoint.send_jfc, i);
        }
        channel.sync();
      }
    };
  };
  Child near("near", send(true));
  Child far("far", send(false));
  for (uint64_t round = 0; round < kRounds; ++round) {
    near.channel().sync();
    far.channel().sync();
    receiver.channel().sync();
    receiver.channel().sync();
    near.channel().sync();
    far.channel().sync();
  }
  for (Child* child : {&near, &far, &receiver}) child->expect_success();
}

TEST_F(TogetherTest, DatagramsOfNearAndFarSendersAreTaken) {
  static constexpr uint64_t kRounds = 20;
  static constexpr uint64_t kOfEach = 8;
  static const Config kConfig = [] {
    Config config;
    config.mode = URMA_TM_UM;
    return config;
  }();
  Child receiver("receiver", [](Channel& channel) {
    live_in("one");
    Taker taker(kConfig);
    channel.send(taker.endpoint.queue_id());
    for (uint64_t round = 0; round < kRounds; ++round) {
      for (uint64_t i = 0; i < 2 * kOfEach; ++i) taker.post_receive();
      channel.sync();
      for (uint64_t i = 0; i < 2 * kOfEach; ++i) taker.take();
      channel.sync();
    }
    EXPECT_EQ(taker.next[0], taker.next[1]);
  });
  const auto to = receiver.channel().receive<QueueId>();
  const auto send = [=](bool near) {
    return [=](Channel& channel) {
      live_in(directory_of(near));
      Sender sender(near, kConfig);
      urma_target_jetty_t* queue = sender.endpoint.import(to);
      for (uint64_t i = 0; i < kRounds * kOfEach; ++i) {
        if (i % kOfEach == 0) channel.sync();
        sender.send(queue, i);
      }
    };
  };
  Child near("near", send(true));
  Child far("far", send(false));
  for (uint64_t round = 0; round < kRounds; ++round) {
    receiver.channel().sync();
    near.channel().sync();
    far.channel().sync();
    receiver.channel().sync();
  }
  for (Child* child : {&near, &far, &receiver}) child->expect_success();
}

// A second jetty beside that of the endpoint, with the same JFR.
urma_jetty_t* add_jetty(const Endpoint& endpoint, urma_jetty_grp_t* group = nullptr) {
  urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
  cfg.id = 0;
  cfg.jetty_grp = group;
  urma_jetty_t* jetty = urma_create_jetty(endpoint.ctx, &cfg);
  EXPECT_NE(jetty, nullptr);
  return jetty;
}

// Jetties of one JFR, one bound to a near peer and one to a far one.
TEST_F(TogetherTest, JettiesBoundToNearAndFarPeersShareAJfr) {
  static constexpr uint64_t kOfEach = 300;
  static const Config kConfig = [] {
    Config config;
    config.mode = URMA_TM_RC;
    config.rnr_retry = 7;
    return config;
  }();
  Child receiver("receiver", [](Channel& channel) {
    live_in("one");
    Taker taker(kConfig);
    Endpoint& endpoint = taker.endpoint;
    const OwnedJetty second = add_jetty(endpoint);
    QueueId id = endpoint.queue_id();
    channel.send(id);
    id.id = second->jetty_id.id;
    channel.send(id);
    endpoint.bind(endpoint.import(channel.receive<QueueId>()));
    urma_target_jetty_t* far = endpoint.import(channel.receive<QueueId>());
    ASSERT_EQ(urma_bind_jetty(second, far), URMA_SUCCESS);
    for (int i = 0; i < 16; ++i) taker.post_receive();
    for (uint64_t i = 0; i < 2 * kOfEach; ++i) {
      urma_cr_t cr = {};
      const bool near = taker.take(&cr);
      EXPECT_EQ(cr.local_id, near ? endpoint.jetty->jetty_id.id : second->jetty_id.id);
      taker.post_receive();
    }
    channel.sync();
    EXPECT_EQ(urma_unbind_jetty(second), URMA_SUCCESS);
    channel.sync();
  });
  const auto send = [](bool near) {
    return [near](Channel& channel) {
      live_in(directory_of(near));
      Sender sender(near, kConfig);
      urma_target_jetty_t* peer = sender.endpoint.import(channel.swap(sender.endpoint.queue_id()));
      sender.endpoint.bind(peer);
      for (uint64_t i = 0; i < kOfEach; ++i) sender.send(peer, i);
      channel.sync();
    };
  };
  Child near("near", send(true));
  Child far("far", send(false));
  introduce<QueueId>(receiver, near);
  introduce<QueueId>(receiver, far);
  for (Child* child : {&near, &far, &receiver}) child->channel().sync();
  receiver.channel().sync();
  for (Child* child : {&near, &far, &receiver}) child->expect_success();
}

// Each reaches the member that its hint picks.
TEST_F(TogetherTest, AGroupHasNearAndFarSenders) {
  static constexpr uint64_t kMembers = 3;
  static constexpr uint64_t kOfEach = 60;
  Child receiver("receiver", [](Channel& channel) {
    live_in("one");
    Taker taker;
    urma_jetty_grp_cfg_t cfg = {};
    std::strcpy(cfg.name, "members");
    cfg.policy = URMA_JETTY_GRP_POLICY_HASH_HINT;
    cfg.flag.bs.token_policy = URMA_TOKEN_NONE;
    const OwnedGroup group = urma_create_jetty_grp(taker.endpoint.ctx, &cfg);
    std::array<std::unique_ptr<OwnedJetty>, kMembers> members;
    for (auto& member : members) {
      member = std::make_unique<OwnedJetty>(add_jetty(taker.endpoint, group));
    }
    for (int i = 0; i < 16; ++i) taker.post_receive();
    channel.send(group->jetty_grp_id);
    for (uint64_t i = 0; i < 2 * kOfEach; ++i) {
      urma_cr_t cr = {};
      const uint64_t number = taker.next[taker.take(&cr) ? 1 : 0] - 1;
      EXPECT_EQ(cr.local_id, members[number % kMembers]->get()->jetty_id.id) << number;
      taker.post_receive();
    }
    channel.sync();
  });
  const auto to = receiver.channel().receive<urma_jetty_id_t>();
  const auto send = [=](bool near) {
    return [=](Channel&) {
      live_in(directory_of(near));
      Config config;
      config.rnr_retry = 7;
      Sender sender(near, config);
      urma_rjetty_t remote = {};
      remote.jetty_id = to;
      remote.trans_mode = URMA_TM_RM;
      remote.type = URMA_JETTY_GROUP;
      remote.policy = URMA_JETTY_GRP_POLICY_HASH_HINT;
      urma_token_t token = {};
      const ImportedJetty group = urma_import_jetty(sender.endpoint.ctx, &remote, &token);
      for (uint64_t i = 0; i < kOfEach; ++i) {
        sender.send(group, i, static_cast<uint8_t>(i % kMembers));
      }
    };
  };
  Child near("near", send(true));
  Child far("far", send(false));
  for (Child* child : {&near, &far}) child->expect_success();
  receiver.channel().sync();
  receiver.expect_success();
}

bondp_query_port_out_t ports_of(urma_context_t* ctx, bondp_query_port_in_t which) {
  bondp_query_port_out_t ports = {};
  EXPECT_EQ(command(ctx, BONDP_USER_CTL_QUERY_PORT, &which, sizeof(which), &ports, sizeof(ports)),
            URMA_SUCCESS);
  return ports;
}

// The commands of urma_ubagg.h, and the one descriptor tells of near and far messages.
TEST_F(TogetherTest, CommandsKnowTheMembers) {
  Child receiver("receiver", [](Channel& channel) {
    live_in("one");
    Config config;
    config.events = true;
    Taker taker(config);
    const Endpoint& endpoint = taker.endpoint;
    EXPECT_STREQ(endpoint.ctx->dev->name, "bonding_dev_0");
    bondp_query_port_in_t which = {};
    which.jfr = endpoint.jfr;
    const bondp_query_port_out_t ports = ports_of(endpoint.ctx, which);
    ASSERT_GE(ports.enabled_count, 2U) << "shared memory, and an interface";
    EXPECT_EQ(ports.enabled_indices[1], 1U);
    ASSERT_GE(ports.active_count, 2U);
    EXPECT_EQ(ports.active_indices[0], 0U);
    which.jetty = endpoint.jetty;
    EXPECT_EQ(ports_of(endpoint.ctx, which).enabled_count, ports.enabled_count);

    bondp_get_jfce_fd_list_in_t asked = {endpoint.jfce};
    bondp_get_jfce_fd_list_out_t list = {};
    EXPECT_EQ(command(endpoint.ctx, BONDP_USER_CTL_GET_JFCE_FD_LIST, &asked, sizeof(asked), &list,
                      sizeof(list)),
              URMA_SUCCESS);
    ASSERT_EQ(list.count, 1U);
    EXPECT_EQ(list.fd_list[0], endpoint.jfce->fd);
    for (int i = 1; i < URMA_UBAGG_DEV_MAX_NUM; ++i) EXPECT_EQ(list.fd_list[i], -1);
    channel.send(endpoint.queue_id());
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(urma_rearm_jfc(endpoint.receive_jfc, false), URMA_SUCCESS);
      taker.post_receive();
      channel.sync();
      pollfd raised = {list.fd_list[0], POLLIN, 0};
      ASSERT_EQ(::poll(&raised, 1, static_cast<int>(patience(seconds(10)).count())), 1);
      urma_jfc_t* ready = nullptr;
      ASSERT_EQ(urma_wait_jfc(endpoint.jfce, 1, 0, &ready), 1);
      uint32_t events = 1;
      urma_ack_jfc(&ready, &events, 1);
      taker.take();
    }
    EXPECT_EQ(taker.next[0], 1U);
    EXPECT_EQ(taker.next[1], 1U);
    channel.sync();
  });
  const auto to = receiver.channel().receive<QueueId>();
  for (const bool near : {true, false}) {
    receiver.channel().sync();
    Child sender("sender", [=](Channel&) {
      live_in(directory_of(near));
      Sender sender(near);
      sender.send(sender.endpoint.import(to), 0);
    });
    sender.expect_success();
  }
  receiver.channel().sync();
  receiver.expect_success();
}

// Checked, before there are objects.
TEST_F(TogetherTest, AModeIsCheckedAndChangesNothing) {
  Child user("user", [](Channel&) {
    live_in("one");
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    urma_context_t* ctx = urma_create_context(find_device(), 0);
    ASSERT_NE(ctx, nullptr);
    const auto set = [&](uint32_t mode, uint32_t level) {
      std::array<uint32_t, 2> wanted = {mode, level};
      static_assert(sizeof(wanted) == sizeof(bondp_set_bonding_mode_in_t));
      return command(ctx, BONDP_USER_CTL_SET_BONDING_MODE, wanted.data(), sizeof(wanted));
    };
    const auto set_legacy = [&](uint32_t mode) {
      return command(ctx, BONDP_USER_CTL_SET_BONDING_MODE_LEGACY, &mode, sizeof(mode));
    };
    for (uint32_t mode = 0; mode < BONDP_BONDING_MODE_MAX; ++mode) {
      EXPECT_EQ(set_legacy(mode), URMA_SUCCESS);
      for (uint32_t level = 0; level < BONDP_BONDING_LEVEL_MAX; ++level) {
        EXPECT_EQ(set(mode, level), URMA_SUCCESS);
      }
    }
    EXPECT_EQ(set(BONDP_BONDING_MODE_MAX, 0), URMA_FAIL);
    EXPECT_EQ(set(0, BONDP_BONDING_LEVEL_MAX), URMA_FAIL);
    EXPECT_EQ(set_legacy(BONDP_BONDING_MODE_MAX), URMA_FAIL);
    EXPECT_EQ(ctx->aggr_mode, URMA_AGGR_MODE_STANDALONE);
    urma_jfce_t* jfce = urma_create_jfce(ctx);
    EXPECT_EQ(set(0, 0), URMA_FAIL);
    EXPECT_EQ(set_legacy(0), URMA_FAIL);
    EXPECT_EQ(urma_delete_jfce(jfce), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
  user.expect_success();
}

}  // namespace
}  // namespace urma_test
