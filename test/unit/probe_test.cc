// SPDX-License-Identifier: MIT
//
// What an owner reports about its queues and groups before anyone sends to them.
#include <gtest/gtest.h>

#include "jetty/groups.h"
#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

using ProbeTest = urma_test::ProcessTest;

Request probe(const urma_jetty_id_t& id, uint32_t type, uint32_t mode = URMA_TM_RM,
              uint32_t token = 0) {
  Request request = RawPeer::request(RequestType::kProbe);
  request.probe = {id.eid, id.id, type, mode, token};
  return request;
}

TEST_F(ProbeTest, OwnerReportsWhetherATargetExists) {
  Node owner;
  urma_jfr_t* jfr = owner.make_jfr(owner.make_jfc());
  RawPeer peer(owner);
  ASSERT_EQ(peer.greet(), Answer::kAccepted);
  EXPECT_EQ(peer.ask(probe(jfr->jfr_id, URMA_JFR)), Answer::kAccepted);
  EXPECT_EQ(peer.ask(probe(jfr->jfr_id, URMA_JFR, URMA_TM_RC)), Answer::kWrongMode);
  EXPECT_EQ(peer.ask(probe(jfr->jfr_id, URMA_JFR, UINT32_MAX)), Answer::kWrongMode);
  for (const uint32_t type : {uint32_t{URMA_JETTY}, uint32_t{URMA_JETTY_GROUP}, 3U, UINT32_MAX}) {
    EXPECT_EQ(peer.ask(probe(jfr->jfr_id, type)), Answer::kNoSuchObject) << type;
  }
  urma_jetty_id_t other = jfr->jfr_id;
  other.eid.raw[0] ^= 1;
  EXPECT_EQ(peer.ask(probe(other, URMA_JFR)), Answer::kNoSuchObject);
  owner.end(jfr);
  EXPECT_EQ(peer.ask(probe(other, URMA_JFR)), Answer::kNoSuchObject);
}

TEST_F(ProbeTest, ARequestBeforeTheGreetingIsRefused) {
  Node owner;
  urma_jfr_t* jfr = owner.make_jfr(owner.make_jfc());
  RawPeer peer(owner);
  EXPECT_EQ(peer.ask(probe(jfr->jfr_id, URMA_JFR)), Answer::kUnreachable);
}

Endpoint member(const urma_eid_t& eid, uint32_t group, uint32_t id) {
  Endpoint endpoint = {};
  endpoint.eid = eid;
  endpoint.group = group;
  endpoint.identity.id = id;
  return endpoint;
}

TEST(GroupTableTest, HintsSelectMembersInJoinOrder) {
  GroupTable table;
  urma_jetty_grp_t group = {};
  group.jetty_grp_id.id = 5;
  const urma_eid_t& eid = group.jetty_grp_id.eid;
  uint32_t id = 0, count = 0;
  EXPECT_FALSE(table.pick(eid, 5, 0, &id, &count));
  table.add(group);
  EXPECT_FALSE(table.pick(eid, 5, 0, &id, &count));
  for (const uint32_t one : {100, 101, 102}) table.join(member(eid, 5, one));
  table.join(member(eid, 0, 7));
  table.join(member(eid, 6, 8));
  for (const uint32_t hint : {0U, 1U, 2U, 200U, UINT32_MAX}) {
    ASSERT_TRUE(table.pick(eid, 5, hint, &id, &count));
    EXPECT_EQ(count, 3u);
    EXPECT_EQ(id, 100 + hint % 3);
  }
  table.leave(member(eid, 5, 101));
  ASSERT_TRUE(table.pick(eid, 5, 1, &id, &count));
  EXPECT_EQ(id, 102u);
  EXPECT_EQ(count, 2u);
  table.remove(group);
  EXPECT_FALSE(table.pick(eid, 5, 0, &id, &count));
}

// A program chooses ids per EID by itself.
TEST(GroupTableTest, TwoEidsMayUseTheSameId) {
  GroupTable table;
  urma_jetty_grp_t first = {}, second = {};
  first.jetty_grp_id.id = second.jetty_grp_id.id = 5;
  second.jetty_grp_id.eid.raw[0] = 1;
  second.cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  second.cfg.token_value.token = 9;
  table.add(first);
  table.add(second);
  const urma_eid_t& eid = second.jetty_grp_id.eid;
  table.join(member(eid, 5, 100));
  uint32_t id = 0, count = 0;
  EXPECT_FALSE(table.pick(first.jetty_grp_id.eid, 5, 0, &id, &count));
  EXPECT_TRUE(table.pick(eid, 5, 0, &id, &count));
  EXPECT_EQ(table.admits(first.jetty_grp_id.eid, 5, URMA_TM_RM, 1), Answer::kAccepted);
  EXPECT_EQ(table.admits(eid, 5, URMA_TM_RM, 8), Answer::kWrongToken);
  EXPECT_EQ(table.admits(eid, 5, URMA_TM_RC, 9), Answer::kWrongMode);
  EXPECT_EQ(table.admits(eid, 6, URMA_TM_RM, 9), Answer::kNoSuchObject);
  table.remove(first);
  EXPECT_EQ(table.admits(eid, 5, URMA_TM_RM, 9), Answer::kAccepted);
}

}  // namespace
}  // namespace urma::shm
