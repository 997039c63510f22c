// SPDX-License-Identifier: MIT
//
// Processes of several users, in the runtime directory of a group that all are in: users that name
// each other in URMA_SHM_PEERS are peers, others are not.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/without_root.h"

namespace urma_test {
namespace {

constexpr uid_t kAnna = 54321;
constexpr uid_t kBert = 54322;
constexpr gid_t kGroup = 54323;
constexpr uint64_t kBytes = 64 * kPage;
constexpr uint32_t kToken = 4711;

// A process of this user, with these peers.
Body process_of(uid_t user, const char* peers, const Body& body) {
  return [=](Channel& channel) {
    become(user, kGroup);
    ::setenv("URMA_SHM_PEERS", peers, 1);
    body(channel);
  };
}

class OtherUsersTest : public WithoutRootTest {
 protected:
  void SetUp() override {
    WithoutRootTest::SetUp();
    if (!IsSkipped()) give_runtime_dir(0, kGroup, 02770);
  }

  std::set<std::string> entries() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(runtime_dir())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
};

// Mapped memory, and memory that one of them only copies for the other.
void own(Channel& channel) {
  Endpoint owner;
  Pages copied(kBytes);
  auto* const mapped = static_cast<char*>(urma_ext_alloc(kBytes, 0));
  urma_target_seg_t* inbox = owner.add(copied.get(), kPage, URMA_ACCESS_LOCAL_ONLY);
  for (int i = 0; i < 2; ++i) {
    char* const memory = i == 0 ? mapped : copied.get() + kPage;
    const uint64_t bytes = i == 0 ? kBytes : kBytes - kPage;
    owner.post_receive(inbox, copied.get(), 8);
    channel.send(offer_of(owner, owner.add(memory, bytes, kAllAccess, kToken), kToken));
    channel.sync();
    EXPECT_EQ(*word_at(memory, 8), 5u);
    EXPECT_EQ(*word_at(memory, 4000), 12u);
    wait_for_success(owner.receive_jfc, 0);
    EXPECT_EQ(*copied.word(0), 17u);
  }
  channel.sync();
  owner.close();
  EXPECT_EQ(urma_ext_free(mapped), URMA_SUCCESS);
}

void reach(Channel& channel) {
  Importer peer(channel.receive<Offer>());
  for (int i = 0; i < 2; ++i) {
    if (i == 0) {
      EXPECT_NE(peer.remote->mva, 0u);
      expect_all_mapped(peer.remote);
    } else {
      peer.turn_to(channel.receive<Offer>());
    }
    peer.write(8, 5);
    EXPECT_EQ(peer.read(8), 5u);
    EXPECT_EQ(peer.add(4000, 5), 0u);
    EXPECT_EQ(peer.cas(4000, 5, 12), 5u);
    peer.send_word(17);
    channel.sync();
  }
  channel.sync();
}

TEST_F(OtherUsersTest, ReachEachOtherIfBothAllowIt) {
  run_two("Anna", process_of(kAnna, "54322", own), "Bert",
          process_of(kBert, "nobody,54321", reach));
  run_two("Bert", process_of(kBert, "*", own), "Anna", process_of(kAnna, "*", reach));
  run_two("Anna", process_of(kAnna, "54322", own), "Anna", process_of(kAnna, "54322", reach));
  EXPECT_EQ(entries(), (std::set<std::string>{"eids", "ids"}));
}

TEST_F(OtherUsersTest, AreRefusedIfNotNamed) {
  const Body refused = [](Channel& channel) {
    const auto offer = channel.receive<Offer>();
    Pages memory(kPage);
    OwnedEndpoint stranger;
    urma_rjetty_t queue = {};
    queue.jetty_id.eid = offer.queue.eid;
    queue.jetty_id.id = offer.queue.id;
    queue.trans_mode = URMA_TM_RM;
    queue.type = URMA_JETTY;
    urma_target_seg_t* local = stranger.add(memory.get(), kPage);
    urma_token_t token = {offer.queue.token};
    urma_target_jetty_t* to = urma_import_jetty(stranger.ctx, &queue, &token);
    if (to != nullptr) {
      urma_sge_t here = piece(local, memory.get(), 8);
      stranger.post(send_request(to, &here));
      EXPECT_NE(wait_for(stranger.send_jfc).status, URMA_CR_SUCCESS);
      EXPECT_EQ(urma_unimport_jetty(to), URMA_SUCCESS);
    }
    channel.sync();
  };
  const Body refusing = [](Channel& channel) {
    Pages memory(kPage);
    OwnedEndpoint owner;
    urma_target_seg_t* segment = owner.add(memory.get(), kPage);
    owner.post_receive(segment, memory.get(), 8);
    channel.send(offer_of(owner, segment));
    channel.sync();
    EXPECT_TRUE(has_nothing(owner.receive_jfc));
  };
  run_two("Anna", process_of(kAnna, "nobody", refusing), "Bert", process_of(kBert, "*", refused));
  run_two("Anna", process_of(kAnna, "*", refusing), "Bert", process_of(kBert, "nobody", refused));
}

// A killed process leaves files of another user.
TEST_F(OtherUsersTest, CleanUpAfterEachOther) {
  Child survivor("Anna", process_of(kAnna, "*", [](Channel& channel) {
                   OwnedEndpoint endpoint;
                   channel.sync();
                   channel.sync();
                 }));
  survivor.channel().sync();
  const auto before = entries();
  Child victim("Bert", process_of(kBert, "*", [](Channel& channel) {
                 Config config;
                 config.id = 4711;
                 Endpoint endpoint(config);
                 channel.sync();
                 channel.sync();
               }));
  victim.channel().sync();
  EXPECT_GT(entries().size(), before.size());
  victim.kill();
  const auto deadline = Clock::now() + patience(seconds(20));
  while (entries() != before && Clock::now() < deadline) ::sched_yield();
  EXPECT_EQ(entries(), before);
  survivor.channel().sync();
  survivor.expect_success();
}

}  // namespace
}  // namespace urma_test
