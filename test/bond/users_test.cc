// SPDX-License-Identifier: MIT
//
// Processes of two users in one runtime directory: by shared memory only if they admit each other.
#include <sched.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/inspect_reader.h"
#include "test/process/without_root.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr uid_t kAnna = 54321;
constexpr uid_t kBert = 54322;
constexpr gid_t kGroup = 54323;

class UsersTest : public WithoutRootTest {
 protected:
  void SetUp() override {
    WithoutRootTest::SetUp();
    if (!IsSkipped()) give_runtime_dir(0, kGroup, 02770);
  }

  // Anna, who owns what Bert uses, has these peers, and he those: his first request meets her.
  static void meet(
      const char* annas, const char* berts, bool by_network,
      const std::function<void()>& become_bert = [] { become(kBert, kGroup); }) {
    run_two(
        "Anna",
        [=](Channel& channel) {
          become(kAnna, kGroup);
          ::setenv("URMA_SHM_PEERS", annas, 1);
          std::array<uint64_t, 8> memory = {};
          Endpoint endpoint;
          const Closing closing(endpoint);
          urma_target_seg_t* segment = endpoint.add(memory.data(), sizeof(memory));
          endpoint.post_receive(segment, memory.data(), sizeof(uint64_t));
          channel.send(offer_of(endpoint, segment));
          wait_for_success(endpoint.receive_jfc, 0);
          EXPECT_EQ(memory[0], 17u);
          EXPECT_EQ(memory[1], 5u);
          channel.sync();
        },
        "Bert",
        [=](Channel& channel) {
          become_bert();
          ::setenv("URMA_SHM_PEERS", berts, 1);
          std::array<uint64_t, 1> memory = {17};
          Endpoint endpoint;
          const Closing closing(endpoint);
          urma_target_seg_t* segment = endpoint.add(memory.data(), sizeof(memory));
          const auto offer = channel.receive<Offer>();
          urma_target_jetty_t* queue = endpoint.import(offer.queue);
          urma_target_seg_t* remote = endpoint.import(offer.segment);
          urma_sge_t local = piece(segment, memory.data(), sizeof(uint64_t));
          urma_sge_t there = piece(remote, offer.segment.va + 8, sizeof(uint64_t));
          endpoint.post(add_request(queue, &local, &there, 5, 1));
          wait_for_success(endpoint.send_jfc, 1);
          memory[0] = 17;
          endpoint.post(send_request(queue, &local, 2));
          wait_for_success(endpoint.send_jfc, 2);
          EXPECT_EQ(streams_begun(), by_network ? 1u : 0u);
          channel.sync();
        });
  }
};

TEST_F(UsersTest, MeetByMemoryIfTheyAdmitEachOther) {
  meet("*", "*", /*by_network=*/false);
  meet("54322", "54320,54321,54322", /*by_network=*/false);
}

TEST_F(UsersTest, MeetByTheNetworkIfNot) { meet("nobody", "nobody", /*by_network=*/true); }

TEST_F(UsersTest, MeetByTheNetworkIfTheUserIsNotAdmitted) {
  meet("nobody", "*", /*by_network=*/true);
  meet("5432,54320", "54321", /*by_network=*/true);
}

TEST_F(UsersTest, MeetByTheNetworkIfTheOwnerIsNotAdmitted) {
  meet("*", "nobody", /*by_network=*/true);
  meet("54322", "5432", /*by_network=*/true);
}

// He is root there, and for her another user than root.
TEST_F(UsersTest, MeetByTheNetworkFromAnotherUserNamespace) {
  const auto become_root_elsewhere = [] {
    become(kBert, kGroup);
    require(::unshare(CLONE_NEWUSER) == 0, "unshare");
    std::ofstream("/proc/self/uid_map") << "0 " << kBert << " 1";
    require(::geteuid() == 0, "uid_map");
  };
  if (!succeeds(become_root_elsewhere)) GTEST_SKIP() << "the kernel allows no user namespaces";
  meet("nobody", "*", /*by_network=*/true, become_root_elsewhere);
  meet("*", "*", /*by_network=*/false, become_root_elsewhere);
}

// Others cannot open what root makes there: so she comes first.
TEST_F(UsersTest, RootMeetsByTheNetworkInTheDirectoryOfAUser) {
  give_runtime_dir(kAnna, kGroup, 0700);
  Child first("Anna, before", [](Channel&) {
    become(kAnna, kGroup);
    const OwnedEndpoint endpoint;
  });
  first.expect_success();
  meet("nobody", "54321", /*by_network=*/true, [] {});
}

}  // namespace
}  // namespace urma_test
