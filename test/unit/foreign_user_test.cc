// SPDX-License-Identifier: MIT
//
// Processes of another user, according to the kernel: they are refused without any other answer,
// and are sent no request, even if the permissions of the runtime directory let them in.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

constexpr uid_t kNobody = 65534;

// The C library would change all threads.
bool become_nobody() { return ::syscall(SYS_setresuid, -1, kNobody, -1) == 0; }

class ForeignUserTest : public urma_test::ProcessTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
    bool becomes = false;
    std::thread([&] { becomes = become_nobody(); }).join();
    if (!becomes)
      GTEST_SKIP()
          << "root may not become another user here; run in a namespace that has user 65534";
  }
  void take_walls_down(Host& host) {
    ASSERT_EQ(::chmod(runtime_dir().c_str(), 0755), 0);
    ASSERT_EQ(::chmod((runtime_dir() + "/" + host.socket_name()).c_str(), 0666), 0);
  }
};

TEST_F(ForeignUserTest, GetsNoConnection) {
  Node owner;
  take_walls_down(owner);
  Answer greeted = Answer::kUnreachable;
  Answer asked = Answer::kUnreachable;
  std::thread([&] {
    ASSERT_TRUE(become_nobody());
    RawPeer stranger(owner);
    greeted = stranger.greet();
    asked = stranger.ask(RawPeer::request(RequestType::kAtomic));
  }).join();
  EXPECT_EQ(greeted, Answer::kRefusedUser);
  EXPECT_EQ(asked, Answer::kUnreachable);
  RawPeer own(owner);
  EXPECT_EQ(own.greet(), Answer::kAccepted);
}

TEST_F(ForeignUserTest, GetsNoRequest) {
  Host stranger;
  const OwnFd listener = listen_at(stranger.runtime().dir_fd(), stranger.socket_name().c_str());
  bool listens = false;
  std::thread([&] { listens = become_nobody() && ::listen(listener.get(), 8) == 0; }).join();
  ASSERT_TRUE(listens);

  Node node;
  std::vector<char> source(64);
  urma_jfc_t* const jfc = node.make_jfc();
  urma_jfs_t* const jfs = node.make_jfs(jfc, 4);
  const urma_jfr_id_t queue = {stranger.runtime().eids()[0], stranger.runtime().uasid(),
                               stranger.runtime().alloc_id(IdKind::kJfr)};
  urma_target_jetty_t* const to = node.import(queue);
  ASSERT_EQ(node.send(jfs, to, piece(node.add(source.data(), source.size()), source.data(), 8), 1),
            URMA_SUCCESS);
  std::vector<urma_cr_t> records;
  ASSERT_TRUE(eventually([&] {
    node.poll(jfc, &records);
    return !records.empty();
  }));
  EXPECT_NE(records[0].status, URMA_CR_SUCCESS);
  // Connections were made, and closed without a message.
  const OwnFd accepted = OwnFd::accept(listener.get());
  ASSERT_TRUE(accepted.valid());
  Request hello;
  EXPECT_LE(::recv(accepted.get(), &hello, sizeof(hello), MSG_DONTWAIT), 0);
}

}  // namespace
}  // namespace urma::shm
