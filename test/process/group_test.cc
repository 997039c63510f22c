// SPDX-License-Identifier: MIT
//
// Jetty groups: several jetties that receive as one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/owned.h"
#include "test/process/party.h"

namespace urma_test {
namespace {

using GroupTest = ProcessTest;

constexpr uint32_t kSecret = 0x77;

// A process with a group, whose members share a JFR.
struct Owner : Party {
  explicit Owner(uint32_t members, uint32_t token = kNoToken, uint32_t id = 0)
      : Party(config_with(token)) {
    urma_jetty_grp_cfg_t cfg = {};
    std::strcpy(cfg.name, "members");
    cfg.id = id;
    cfg.policy = URMA_JETTY_GRP_POLICY_HASH_HINT;
    cfg.flag.bs.token_policy = token == kNoToken ? URMA_TOKEN_NONE : URMA_TOKEN_PLAIN_TEXT;
    cfg.token_value.token = token;
    group = urma_create_jetty_grp(endpoint.ctx, &cfg);
    EXPECT_NE(group, nullptr);
    for (uint32_t i = 0; i < members; ++i) join();
    for (uint64_t i = 0; i < 32; ++i) post_receive(i);
  }
  static Config config_with(uint32_t token) {
    Config config;
    config.token = token;
    return config;
  }
  urma_jetty_t* join() {
    urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
    cfg.id = 0;
    cfg.jetty_grp = group;
    more.push_back(urma_create_jetty(endpoint.ctx, &cfg));
    EXPECT_NE(more.back(), nullptr);
    return more.back();
  }
  void leave(size_t index) {
    EXPECT_EQ(urma_delete_jetty(more[index]), URMA_SUCCESS);
    more.erase(more.begin() + static_cast<ptrdiff_t>(index));
  }
  // The member that the next message reaches.
  size_t next_receiver() {
    const urma_cr_t cr = wait_for(endpoint.receive_jfc);
    EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
    const auto found = std::find_if(more.begin(), more.end(), [&](const urma_jetty_t* jetty) {
      return jetty->jetty_id.id == cr.local_id;
    });
    return static_cast<size_t>(found - more.begin());
  }
  void close() {
    for (urma_jetty_t* jetty : std::exchange(more, {})) {
      EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
    }
    EXPECT_EQ(urma_delete_jetty_grp(group), URMA_SUCCESS);
    Party::close();
  }

  urma_jetty_grp_t* group;
};

urma_target_jetty_t* import_group(Party& party, const urma_jetty_id_t& id,
                                  urma_jetty_grp_policy_t policy = URMA_JETTY_GRP_POLICY_HASH_HINT,
                                  uint32_t token_value = kNoToken) {
  urma_rjetty_t remote = remote_jetty(id, URMA_TM_RM, URMA_JETTY_GROUP);
  remote.policy = policy;
  remote.flag.bs.token_policy = token_value == kNoToken ? URMA_TOKEN_NONE : URMA_TOKEN_PLAIN_TEXT;
  urma_token_t token = {token_value};
  urma_target_jetty_t* target = urma_import_jetty(party.endpoint.ctx, &remote, &token);
  EXPECT_NE(target, nullptr);
  return target;
}

// A group of this process.
urma_target_jetty_t* import_group(Party& party, uint32_t id,
                                  urma_jetty_grp_policy_t policy = URMA_JETTY_GRP_POLICY_HASH_HINT,
                                  uint32_t token_value = kNoToken) {
  return import_group(party, urma_jetty_id_t{party.endpoint.ctx->eid, 0, id}, policy, token_value);
}

void send_to(Party& party, urma_target_jetty_t* group, uint8_t hint, uint64_t user_ctx = 0) {
  urma_jfs_wr_t wr = party.message(8, user_ctx);
  wr.tjetty = group;
  wr.send.target_hint = hint;
  party.endpoint.post(wr);
}

// The inodes of all rings that this process has mapped.
std::set<std::string> ring_files() {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("urma-ring") == std::string::npos) continue;
    std::istringstream words(line);
    std::string inode;
    for (int i = 0; i < 5; ++i) words >> inode;
    found.insert(inode);
  }
  return found;
}

// Messages with hints, one after the other, and the member of a group of three that gets each.
struct Sent {
  uint8_t hint;
  size_t member;
};

void send_to_members(urma_jetty_grp_policy_t policy, const std::vector<Sent>& messages) {
  run_two(
      "sender",
      [&](Channel& channel) {
        Party party{Config{}};
        const auto id = channel.receive<urma_jetty_id_t>();
        urma_target_jetty_t* group = import_group(party, id, policy);
        for (uint64_t i = 0; i < messages.size(); ++i) {
          send_to(party, group, messages[i].hint, i);
          EXPECT_EQ(wait_for_success(party.endpoint.send_jfc, i).remote_id.id, id.id);
          channel.sync();
        }
        EXPECT_EQ(urma_unimport_jetty(group), URMA_SUCCESS);
        channel.sync();
      },
      "owner",
      [&](Channel& channel) {
        Owner owner(3);
        channel.send(owner.group->jetty_grp_id);
        for (const Sent& message : messages) {
          EXPECT_EQ(owner.next_receiver(), message.member);
          channel.sync();
        }
        channel.sync();
        owner.close();
      });
}

TEST_F(GroupTest, HintPicksTheMember) {
  send_to_members(URMA_JETTY_GRP_POLICY_HASH_HINT,
                  {{0, 0}, {1, 1}, {2, 2}, {3, 0}, {5, 2}, {255, 0}, {1, 1}, {0, 0}});
}

TEST_F(GroupTest, RoundRobinReachesAllMembersInTurn) {
  std::vector<Sent> messages;
  for (size_t i = 0; i < 12; ++i) messages.push_back({7, i % 3});
  send_to_members(URMA_JETTY_GRP_POLICY_RR, messages);
}

// A new member is noticed after some rounds.
TEST_F(GroupTest, RoundRobinReachesANewMember) {
  run_one([](Channel&) {
    Owner owner(2);
    urma_target_jetty_t* group =
        import_group(owner, owner.group->jetty_grp_id.id, URMA_JETTY_GRP_POLICY_RR);
    const auto turn = [&](uint64_t i) {
      send_to(owner, group, 0, i);
      wait_for_success(owner.endpoint.send_jfc, i);
      owner.post_receive();
      return owner.next_receiver();
    };
    for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(turn(i), i % 2);
    owner.join();
    uint64_t i = 4;
    while (turn(i) != 2) ASSERT_LT(++i, 200u);
    for (size_t last = 2; ++i < 220;) {
      const size_t next = turn(i);
      EXPECT_EQ(next, (last + 1) % 3) << i;
      last = next;
    }
    EXPECT_EQ(urma_unimport_jetty(group), URMA_SUCCESS);
    owner.close();
  });
}

TEST_F(GroupTest, AnotherMemberTakesOver) {
  run_two(
      "sender",
      [](Channel& channel) {
        Party party{Config{}};
        urma_target_jetty_t* group = import_group(party, channel.receive<urma_jetty_id_t>());
        send_to(party, group, 1, 1);
        wait_for_success(party.endpoint.send_jfc, 1);
        channel.sync();  // member 1 goes
        channel.sync();
        // Its ring has closed; whether that costs one request is a race.
        urma_cr_t cr;
        do {
          send_to(party, group, 1, 2);
          cr = wait_for(party.endpoint.send_jfc);
        } while (cr.status == URMA_CR_REM_ACCESS_ABORT_ERR);
        EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
        channel.sync();
        channel.sync();  // no one is left
        for (int i = 0; i < 3; ++i) {
          send_to(party, group, 1, 3);
          wait_for_status(party.endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
        }
        channel.sync();
        channel.sync();  // one has joined
        send_to(party, group, 1, 4);
        wait_for_success(party.endpoint.send_jfc, 4);
        EXPECT_EQ(urma_unimport_jetty(group), URMA_SUCCESS);
        channel.sync();
      },
      "owner",
      [](Channel& channel) {
        Owner owner(2);
        channel.send(owner.group->jetty_grp_id);
        EXPECT_EQ(owner.next_receiver(), 1u);
        channel.sync();
        owner.leave(1);
        channel.sync();
        EXPECT_EQ(owner.next_receiver(), 0u);
        channel.sync();
        EXPECT_EQ(urma_delete_jetty_grp(owner.group), URMA_ENOPERM);
        owner.leave(0);
        channel.sync();
        channel.sync();
        owner.join();
        channel.sync();
        EXPECT_EQ(owner.next_receiver(), 0u);
        channel.sync();
        owner.close();
      });
}

// A member counts while it can receive.
TEST_F(GroupTest, InactiveMembersGetNoMessages) {
  run_one([](Channel&) {
    Owner owner(2);
    urma_target_jetty_t* group = import_group(owner, owner.group->jetty_grp_id.id);
    const auto receiver_of = [&](uint8_t hint) {
      send_to(owner, group, hint, hint);
      wait_for_success(owner.endpoint.send_jfc, hint);
      return owner.next_receiver();
    };
    urma_jetty_attr_t attr = {};
    attr.mask = JETTY_STATE;
    attr.state = URMA_JETTY_STATE_ERROR;
    EXPECT_EQ(urma_modify_jetty(owner.more[1], &attr), URMA_SUCCESS);
    wait_for_status(owner.endpoint.send_jfc, URMA_CR_WR_FLUSH_ERR_DONE);
    for (const uint8_t hint : {0, 1, 2, 3}) EXPECT_EQ(receiver_of(hint), 0u);
    attr.state = URMA_JETTY_STATE_READY;
    EXPECT_EQ(urma_modify_jetty(owner.more[1], &attr), URMA_SUCCESS);
    EXPECT_EQ(receiver_of(5), 1u);

    urma_jetty_cfg_t cfg = owner.more[0]->jetty_cfg;
    cfg.id = 0;
    urma_jetty_t* third = nullptr;
    ASSERT_EQ(urma_alloc_jetty(owner.endpoint.ctx, &cfg, &third), URMA_SUCCESS);
    owner.more.push_back(third);
    EXPECT_EQ(receiver_of(10), 0u);
    EXPECT_EQ(urma_active_jetty(third), URMA_SUCCESS);
    EXPECT_EQ(receiver_of(14), 2u);
    EXPECT_EQ(urma_deactive_jetty(third), URMA_SUCCESS);
    EXPECT_EQ(receiver_of(15), 1u);
    EXPECT_EQ(urma_free_jetty(third), URMA_SUCCESS);
    owner.more.pop_back();
    EXPECT_EQ(urma_unimport_jetty(group), URMA_SUCCESS);
    owner.close();
  });
}

// A member whose own JFR is in ERROR is skipped.
TEST_F(GroupTest, MembersWithAnInactiveReceiverAreSkipped) {
  run_one([](Channel&) {
    Owner owner(2);
    urma_target_jetty_t* group = import_group(owner, owner.group->jetty_grp_id.id);
    urma_jfr_cfg_t jfr_cfg = owner.endpoint.jfr->jfr_cfg;
    jfr_cfg.id = 0;
    urma_jfr_t* jfr = urma_create_jfr(owner.endpoint.ctx, &jfr_cfg);
    ASSERT_NE(jfr, nullptr);
    urma_jetty_cfg_t cfg = owner.more[0]->jetty_cfg;
    cfg.id = 0;
    cfg.shared.jfr = jfr;
    owner.more.push_back(urma_create_jetty(owner.endpoint.ctx, &cfg));
    ASSERT_NE(owner.more.back(), nullptr);
    urma_jfr_attr_t attr = {};
    attr.mask = JFR_STATE;
    attr.state = URMA_JFR_STATE_ERROR;
    EXPECT_EQ(urma_modify_jfr(jfr, &attr), URMA_SUCCESS);
    send_to(owner, group, 2, 2);
    wait_for_success(owner.endpoint.send_jfc, 2);
    EXPECT_LT(owner.next_receiver(), 2u);

    EXPECT_EQ(urma_modify_jfr(owner.endpoint.jfr, &attr), URMA_SUCCESS);
    for (int i = 0; i < 30; ++i) {
      wait_for_status(owner.endpoint.receive_jfc, URMA_CR_WR_FLUSH_ERR);
    }
    send_to(owner, group, 5);
    wait_for_status(owner.endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(urma_unimport_jetty(group), URMA_SUCCESS);
    owner.leave(2);
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
    owner.close();
  });
}

// A sender with many targets keeps the paths to a group that it uses.
TEST_F(GroupTest, PathsInUseStayOpenAmongManyOthers) {
  SKIP_UNLESS_SHARED_MEMORY("paths are told apart by their rings");
  run_one([](Channel&) {
    Owner owner(2);
    urma_target_jetty_t* group = import_group(owner, owner.group->jetty_grp_id.id);
    const auto receive = [&] {
      wait_for_success(owner.endpoint.send_jfc, 7);
      wait_for(owner.endpoint.receive_jfc);
      owner.post_receive();
    };
    for (uint32_t i = 0; i < 70; ++i) {
      urma_jfs_wr_t wr = owner.message(8, 7);
      // With its own token, which the owner does not require, each import has its own path.
      QueueId receiver = owner.endpoint.queue_id();
      receiver.token = i;
      wr.tjetty = owner.endpoint.import(receiver);
      owner.endpoint.post(wr);
      receive();
    }
    const auto send_both = [&] {
      for (const uint8_t hint : {0, 1}) {
        send_to(owner, group, hint, 7);
        receive();
      }
    };
    send_both();
    const auto rings = ring_files();
    EXPECT_GE(rings.size(), 72u);
    for (int i = 0; i < 3; ++i) send_both();
    EXPECT_EQ(ring_files(), rings);
    EXPECT_EQ(urma_unimport_jetty(group), URMA_SUCCESS);
    owner.close();
  });
}

// Requests that wait for an answer keep their path; all others make room for new ones.
TEST_F(GroupTest, EveryHintAtOnce) {
  run_one([](Channel&) {
    Owner owner(5);
    urma_target_jetty_t* group = import_group(owner, owner.group->jetty_grp_id.id);
    for (int round = 0; round < 2; ++round) {
      for (uint32_t first = 0; first < 256; first += 16) {
        for (uint32_t hint = first; hint < first + 16; ++hint) {
          send_to(owner, group, static_cast<uint8_t>(hint), hint);
        }
        std::vector<size_t> got(5), wanted(5);
        for (uint32_t hint = first; hint < first + 16; ++hint) {
          wait_for_success(owner.endpoint.send_jfc, hint);
          owner.post_receive();
          ++got[owner.next_receiver()];
          ++wanted[hint % 5];
        }
        EXPECT_EQ(got, wanted);
      }
    }
    EXPECT_EQ(urma_unimport_jetty(group), URMA_SUCCESS);
    owner.close();
  });
}

TEST_F(GroupTest, OneSidedRequestsNeedNoMember) {
  run_one([](Channel&) {
    Owner owner(0);
    urma_target_jetty_t* group = import_group(owner, owner.group->jetty_grp_id.id);
    urma_target_seg_t* remote = owner.endpoint.import(owner.endpoint.segment_id(owner.segment));
    owner.memory[kBufferSize] = 'x';
    urma_sge_t from = piece(owner.segment, owner.memory.data() + kBufferSize, 1);
    urma_sge_t to = piece(remote, owner.memory.data(), 1);
    owner.endpoint.post(write_request(group, &from, &to, 6));
    wait_for_success(owner.endpoint.send_jfc, 6);
    EXPECT_EQ(owner.memory[0], 'x');
    EXPECT_EQ(urma_unimport_jetty(group), URMA_SUCCESS);
    owner.close();
  });
}

TEST_F(GroupTest, RefusalsSayWhy) {
  run_one([](Channel&) {
    Owner owner(1, kSecret, 900);
    EXPECT_EQ(owner.group->jetty_grp_id.id, 900u);
    urma_target_jetty_t* wrong =
        import_group(owner, 900, URMA_JETTY_GRP_POLICY_HASH_HINT, kSecret + 1);
    send_to(owner, wrong, 0);
    wait_for_status(owner.endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(urma_unimport_jetty(wrong), URMA_SUCCESS);
    urma_target_jetty_t* right = import_group(owner, 900, URMA_JETTY_GRP_POLICY_HASH_HINT, kSecret);
    send_to(owner, right, 0, 8);
    wait_for_success(owner.endpoint.send_jfc, 8);
    EXPECT_EQ(urma_unimport_jetty(right), URMA_SUCCESS);

    urma_jetty_grp_cfg_t cfg = owner.group->cfg;
    EXPECT_EQ(urma_create_jetty_grp(owner.endpoint.ctx, &cfg), nullptr);
    EXPECT_EQ(errno, EEXIST);
    cfg.id = 0;
    cfg.policy = static_cast<urma_jetty_grp_policy_t>(2);
    EXPECT_EQ(urma_create_jetty_grp(owner.endpoint.ctx, &cfg), nullptr);
    EXPECT_EQ(errno, EINVAL);
    urma_rjetty_t remote = remote_jetty(owner.group->jetty_grp_id, URMA_TM_RC, URMA_JETTY_GROUP);
    urma_token_t token = {kSecret};
    EXPECT_EQ(urma_import_jetty(owner.endpoint.ctx, &remote, &token), nullptr);
    EXPECT_EQ(errno, EINVAL);
    owner.close();
  });
}

TEST_F(GroupTest, OfAnotherContextTakesNoMember) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    const OwnedContext other = urma_create_context(endpoint.ctx->dev, endpoint.ctx->eid_index);
    urma_jetty_grp_cfg_t group_cfg = {};
    const OwnedGroup group = urma_create_jetty_grp(other, &group_cfg);
    urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
    cfg.id = 0;
    cfg.jetty_grp = group;
    errno = 0;
    EXPECT_EQ(urma_create_jetty(endpoint.ctx, &cfg), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(group->jetty_cnt, 0u);
  });
}

// A group can be imported in the background before it has members, by those who know its token.
TEST_F(GroupTest, ImportInTheBackground) {
  run_one([](Channel&) {
    Owner owner(0, kSecret);
    urma_notifier_t* notifier = urma_create_notifier(owner.endpoint.ctx);
    urma_rjetty_t remote = remote_jetty(owner.group->jetty_grp_id, URMA_TM_RM, URMA_JETTY_GROUP);
    remote.policy = URMA_JETTY_GRP_POLICY_HASH_HINT;
    remote.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
    urma_notify_t notify;
    for (const uint32_t wrong : {kSecret + 1, 0U}) {
      const urma_token_t token = {wrong};
      EXPECT_NE(urma_import_jetty_async(notifier, &remote, &token, 1, -1), nullptr);
      EXPECT_EQ(urma_wait_notify(notifier, 1, &notify, -1), 1);
      EXPECT_EQ(notify.status, URMA_EINVAL);
    }
    const urma_token_t token = {kSecret};
    urma_target_jetty_t* group = urma_import_jetty_async(notifier, &remote, &token, 1, -1);
    EXPECT_EQ(urma_wait_notify(notifier, 1, &notify, -1), 1);
    EXPECT_EQ(notify.status, URMA_SUCCESS);
    owner.join();
    send_to(owner, group, 3, 3);
    wait_for_success(owner.endpoint.send_jfc, 3);
    EXPECT_EQ(urma_unimport_jetty_async(group), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_notifier(notifier), URMA_SUCCESS);
    owner.close();
  });
}

TEST_F(GroupTest, GroupWithoutANameShowsItsId) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    urma_jetty_grp_cfg_t cfg = {};
    cfg.policy = URMA_JETTY_GRP_POLICY_HASH_HINT;
    const OwnedGroup group = urma_create_jetty_grp(endpoint.ctx, &cfg);
    EXPECT_NE(group->cfg.id, 0u);
    EXPECT_EQ(group->cfg.id, group->jetty_grp_id.id);
    EXPECT_EQ(group->cfg.policy, URMA_JETTY_GRP_POLICY_HASH_HINT);
  });
}

}  // namespace
}  // namespace urma_test
