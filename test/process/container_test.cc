// SPDX-License-Identifier: MIT
//
// Processes in different containers, which share only the runtime directory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/staged_party.h"

namespace urma_test {
namespace {

// More than a process of this pid namespace may hold.
constexpr int kNeighbours = 20;

bool write_text(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  const bool done = fd >= 0 && ::write(fd, text.data(), text.size()) == ssize_t(text.size());
  ::close(fd);
  return done;
}

// Enters new namespaces, in which user, group and files are the same as before. Only children
// created afterwards are in the new pid namespace.
bool leave_namespaces() {
  const std::string user = std::to_string(::geteuid()), group = std::to_string(::getegid());
  return ::unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                   CLONE_NEWNS) == 0 &&
         write_text("/proc/self/setgroups", "deny") &&
         write_text("/proc/self/uid_map", user + " " + user + " 1") &&
         write_text("/proc/self/gid_map", group + " " + group + " 1");
}

// Runs `body` as the first process of a container.
int run_contained(const std::function<void()>& body) {
  if (!leave_namespaces()) return -1;
  const pid_t first = ::fork();
  if (first == 0) {
    if (::mount("proc", "/proc", "proc", 0, nullptr) != 0) ::_exit(77);
    body();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  if (first < 0 || ::waitpid(first, &status, 0) != first) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Body contained(const Body& body) {
  return [body](Channel& channel) { EXPECT_EQ(run_contained([&] { body(channel); }), 0); };
}

bool can_contain() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run_contained([] {}) == 0 ? 0 : 1);
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

void do_everything(Channel& channel) {
  Party party(channel);
  write_and_read(party, channel);
  write_with_immediate(party, channel);
  write_and_notify(party, channel);
  count(party, channel);
  send_messages(party, channel);
}

// Whether memory is mapped where that is possible.
class ContainerTest : public ProcessTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    SKIP_UNLESS_SHARED_MEMORY("containers reach each other");
    if (!can_contain()) GTEST_SKIP() << "this process may not create namespaces; run as root";
    if (!GetParam()) stay_in_place();
  }
  void TearDown() override { ::unsetenv("URMA_SHM_INPLACE"); }
};

TEST_P(ContainerTest, TwoContainersReachEachOther) {
  run_two("one", contained(do_everything), "other", contained(do_everything));
}

TEST_P(ContainerTest, ContainerAndHostReachEachOther) {
  run_two("container", contained(do_everything), "host", do_everything);
}

// All have the same pid, so the pid cannot tell them apart.
TEST_P(ContainerTest, ManyProcessesOfAContainerReachOneQueue) {
  Child owner("owner", contained([](Channel& channel) {
                Config config;
                config.receive_depth = kNeighbours;
                const Pages room(kPage);
                OwnedEndpoint owner(config);
                urma_target_seg_t* segment = owner.add(room.get(), kPage);
                for (int i = 0; i < kNeighbours; ++i) {
                  owner.post_receive(segment, room.get(), 8);
                }
                channel.send(owner.queue_id());
                for (int i = 0; i < kNeighbours; ++i) {
                  EXPECT_EQ(wait_for(owner.receive_jfc).status, URMA_CR_SUCCESS);
                }
                channel.sync();
              }));
  const auto queue = owner.channel().receive<QueueId>();
  std::vector<std::unique_ptr<Child>> senders;
  for (int i = 0; i < kNeighbours; ++i) {
    senders.push_back(std::make_unique<Child>(
        "sender", contained([](Channel& channel) {
          OwnedEndpoint sender;
          uint64_t word = 4711;
          urma_target_seg_t* segment = sender.add(&word, sizeof(word));
          urma_sge_t here = piece(segment, &word, sizeof(word));
          sender.post(send_request(sender.import(channel.receive<QueueId>()), &here));
          wait_for_success(sender.send_jfc, 0);
          channel.sync();
        })));
    senders.back()->channel().send(queue);
  }
  owner.channel().sync();
  for (const auto& sender : senders) sender->channel().sync();
  for (const auto& sender : senders) sender->expect_success();
  owner.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Ways, ContainerTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Mapped" : "Staged"; });

}  // namespace
}  // namespace urma_test
