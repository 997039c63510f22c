// SPDX-License-Identifier: MIT
//
// Children of a process that uses the library: no write of theirs to registered memory, no call and
// no kind of exit harms the parent or its peers, and none keeps a dead parent alive for them.
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/party.h"
#include "test/process/soak.h"
#include "urma_ext.h"
#include "urma_perf.h"

namespace urma_test {
namespace {

constexpr uint64_t kBytes = 64 * kPage;
constexpr uint64_t kScribble = 0x6b6b6b6b6b6b6b6b;

enum class Way { kUnderscoreExit, kExit, kExec, kKilled };

// Each side has private memory and memory of the library, and imports both of the peer.
struct Side {
  Endpoint endpoint;
  const Pages memory{kBytes};
  char* own = static_cast<char*>(urma_ext_alloc(kBytes, 0));
  urma_target_seg_t *segment, *own_segment, *remote, *remote_own;
  urma_target_jetty_t* queue;
  urma_target_ur_t* region;

  explicit Side(Channel& channel) {
    fill(memory.get(), kBytes);
    fill(own, kBytes);
    segment = endpoint.add(memory.get(), kBytes);
    own_segment = endpoint.add(own, kBytes);
    const auto first = channel.swap(offer_of(endpoint, segment));
    const auto second = channel.swap(offer_of(endpoint, own_segment));
    queue = endpoint.import(first.queue);
    remote = endpoint.import(first.segment, true);
    remote_own = endpoint.import(second.segment, true);
    urma_ur_t ur = {};
    std::strcpy(ur.name, name().c_str());
    EXPECT_EQ(urma_create_ur(endpoint.ctx, &ur), URMA_SUCCESS);
    region = urma_import_ur(endpoint.ctx, ur.name, 0, {});
    EXPECT_NE(region, nullptr);
    channel.sync();
  }
  std::string name() const { return std::to_string(endpoint.queue_id().id); }
  // The region changes, which its import has yet to learn.
  void change_region() const {
    urma_target_seg_t* list[] = {segment};
    EXPECT_EQ(urma_attach_ur(endpoint.ctx, name().c_str(), 0, list, 1), URMA_SUCCESS);
    EXPECT_EQ(urma_detach_ur(endpoint.ctx, name().c_str(), list, 1), URMA_SUCCESS);
  }
  bool is_region_out_of_date() const {
    pollfd ready = {urma_ext_ur_fd(region), POLLIN, 0};
    return ::poll(&ready, 1, 0) == 1;
  }
  // Messages both ways, and all one-sided operations, in the last page.
  void have_traffic(Channel& channel, uint64_t number) {
    endpoint.post_receive(segment, memory.get() + kBytes - kPage + 64, 8, number);
    channel.sync();
    urma_sge_t here = piece(segment, memory.get() + kBytes - kPage + 128, 8);
    *memory.word(kBytes - kPage + 128) = number;
    endpoint.post(send_request(queue, &here, number));
    wait_for_success(endpoint.send_jfc, number);
    wait_for_success(endpoint.receive_jfc, number);
    EXPECT_EQ(*memory.word(kBytes - kPage + 64), number);
    for (urma_target_seg_t* target : {remote, remote_own}) {
      urma_sge_t there = piece(target, target->seg.ubva.va + kBytes - kPage + 192, 8);
      endpoint.post(write_request(queue, &here, &there, number));
      wait_for_success(endpoint.send_jfc, number);
    }
    channel.sync();
    EXPECT_EQ(*memory.word(kBytes - kPage + 192), number);
    EXPECT_EQ(*word_at(own, kBytes - kPage + 192), number);
  }
  void expect_unharmed() const {
    expect_filled(memory.get(), kBytes);
    expect_filled(own, kBytes);
    for (uint64_t at = 8; at < kBytes - kPage; at += kPage) {
      ASSERT_EQ(*memory.word(at), 0U);
      ASSERT_EQ(*word_at(own, at), 0U);
    }
  }
  void close() {
    EXPECT_EQ(urma_unimport_ur(region), URMA_SUCCESS);
    endpoint.remove(own_segment);
    EXPECT_EQ(urma_ext_free(own), URMA_SUCCESS);
    endpoint.close();
  }
};

void scribble(char* memory) {
  for (uint64_t at = 0; at < kBytes; at += 8) *word_at(memory, at) = kScribble;
}

// The child. Returns whether each call has failed as it must here.
bool misbehave(const Side& side) {
  scribble(side.memory.get());
  scribble(side.own);
  urma_cr_t record;
  urma_sge_t here = piece(side.segment, side.memory.get(), 8);
  urma_sge_t there = piece(side.remote, side.remote->seg.ubva.va, 8);
  urma_jfs_wr_t wr = write_request(side.queue, &here, &there);
  urma_jfs_wr_t send = send_request(side.queue, &here);
  urma_jfs_wr_t* bad = nullptr;
  urma_jetty_t* jetty = side.endpoint.jetty;
  bool refused = urma_poll_jfc(side.endpoint.send_jfc, 1, &record) < 0;
  refused &= urma_post_jetty_send_wr(jetty, &wr, &bad) != URMA_SUCCESS;
  refused &= urma_post_jetty_send_wr(jetty, &send, &bad) != URMA_SUCCESS;
  refused &= urma_unimport_seg(side.remote) != URMA_SUCCESS;
  refused &= urma_unimport_jetty(side.queue) != URMA_SUCCESS;
  refused &= urma_unregister_seg(side.segment) != URMA_SUCCESS;
  refused &= urma_ext_free(side.own) != URMA_SUCCESS;
  refused &= urma_delete_jetty(jetty) != URMA_SUCCESS;
  refused &= urma_ext_refresh_ur(side.region) != URMA_SUCCESS;
  refused &= urma_unimport_ur(side.region) != URMA_SUCCESS;
  refused &= urma_start_perf() != URMA_SUCCESS;
  refused &= urma_uninit() != URMA_SUCCESS;
  return refused;
}

[[noreturn]] void leave(Way way, int status) {
  if (way == Way::kExit) std::exit(status);
  if (way == Way::kKilled && status == 0) ::raise(SIGKILL);
  if (way == Way::kExec && status == 0) ::execl("/bin/true", "true", nullptr);
  ::_exit(status);
}

class ForkTest : public ProcessTest, public testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    SKIP_UNLESS_SHARED_MEMORY("memory is shared");
    if (kSanitized) GTEST_SKIP() << "a sanitized program with threads may hang in fork";
  }
};

TEST_P(ForkTest, TheParentAndItsPeerContinue) {
  constexpr int kChildren = 3;
  const auto entries = [this] { return runtime_entries(); };
  run_two(
      "parent",
      [&](Channel& channel) {
        Side side(channel);
        side.have_traffic(channel, 1);
        const auto before = entries();
        for (int i = 0; i < kChildren; ++i) {
          side.change_region();
          const pid_t child = ::fork();
          if (child == 0) {
            ::alarm(20);
            leave(GetParam(), misbehave(side) ? 0 : 1);
          }
          int status = -1;
          EXPECT_EQ(::waitpid(child, &status, 0), child);
          EXPECT_EQ(status, GetParam() == Way::kKilled ? SIGKILL : 0);
          EXPECT_TRUE(side.is_region_out_of_date());
          EXPECT_EQ(urma_ext_refresh_ur(side.region), URMA_SUCCESS);
          side.expect_unharmed();
          side.have_traffic(channel, 2 + i);
        }
        EXPECT_EQ(entries(), before);
        channel.sync();
        side.close();
      },
      "peer",
      [](Channel& channel) {
        Side side(channel);
        side.have_traffic(channel, 1);
        for (int i = 0; i < kChildren; ++i) {
          side.have_traffic(channel, 2 + i);
          side.expect_unharmed();
        }
        channel.sync();
        side.close();
      });
}

std::string name_of(const testing::TestParamInfo<Way>& info) {
  constexpr const char* kNames[] = {"UnderscoreExit", "Exit", "Exec", "Killed"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Ways, ForkTest,
                         testing::Values(Way::kUnderscoreExit, Way::kExit, Way::kExec,
                                         Way::kKilled),
                         name_of);

// Receives one message, leaves a child that answers on the channel, and waits to be killed.
void leave_a_child(Channel& channel) {
  Party party;
  urma_target_jetty_t* peer = party.endpoint.import(channel.swap(party.endpoint.queue_id()));
  party.endpoint.bind(peer);
  party.post_receive();
  channel.sync();
  wait_for_success(party.endpoint.receive_jfc, 0);
  if (::fork() == 0) {
    ::alarm(60);
    channel.send('c');
    // Ends with an exception at the latest when the test does.
    channel.sync();
    ::_exit(0);
  }
  ::pause();
}

// One message has arrived; the others end with the peer.
void outlive_the_parent(Channel& channel) {
  constexpr int kInFlight = 4;
  Party party;
  urma_target_jetty_t* peer = party.endpoint.import(channel.swap(party.endpoint.queue_id()));
  party.endpoint.bind(peer);
  channel.sync();
  for (int i = 0; i <= kInFlight; ++i) party.send(8, i);
  wait_for_success(party.endpoint.send_jfc, 0);
  channel.sync();
  for (int i = 0; i < kInFlight; ++i) {
    wait_for_status(party.endpoint.send_jfc, URMA_CR_ACK_TIMEOUT_ERR);
  }
  urma_async_event_t event;
  EXPECT_EQ(urma_get_async_event(party.endpoint.ctx, &event), URMA_SUCCESS);
  EXPECT_EQ(event.event_type, URMA_EVENT_JETTY_ERR);
  EXPECT_EQ(event.element.jetty, party.endpoint.jetty);
  urma_ack_async_event(&event);
  channel.sync();
  // Stays while the entries of the others go.
  channel.sync();
}

class OrphanTest : public ProcessTest {
 protected:
  OrphanTest() { wait_long_for_answers(); }
};

TEST_F(OrphanTest, PeersLearnThatTheParentHasDied) {
  if (kSanitized) GTEST_SKIP() << "a sanitized program with threads may hang in fork";
  Child survivor("survivor", outlive_the_parent);
  const auto id = survivor.channel().receive<QueueId>();
  const auto own = runtime_entries();
  Child parent("parent", leave_a_child);
  survivor.channel().send(parent.channel().receive<QueueId>());
  parent.channel().send(id);
  parent.channel().sync();
  survivor.channel().sync();
  survivor.channel().sync();
  ASSERT_EQ(parent.channel().receive<char>(), 'c');
  parent.kill();
  survivor.channel().sync();
  const auto deadline = Clock::now() + promised(seconds(1));
  while (runtime_entries() != own && Clock::now() < deadline) ::sched_yield();
  EXPECT_EQ(runtime_entries(), own);
  survivor.channel().sync();
  parent.channel().sync();  // with the child
  survivor.expect_success();
}

class CloneTest : public ProcessTest {
 protected:
  void SetUp() override {
    SKIP_UNLESS_SHARED_MEMORY("memory is shared");
    if (kSanitized) GTEST_SKIP() << "the sanitizers do not support a raw clone";
  }
};

// A raw clone runs no handlers: its child shares memory that is shared at that moment with the
// parent, as docs/reference/shm.md says, and its exit harms no one.
TEST_F(CloneTest, ARawCloneSharesMemoryWithItsParent) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "parent",
      [](Channel& channel) {
        Side side(channel);
        side.have_traffic(channel, 1);
        ASSERT_GT(memfd_areas(side.memory.get(), kBytes), 0);
        const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
        if (child == 0) {
          *side.memory.word(8) = kScribble;
          ::syscall(SYS_exit_group, 0);
        }
        int status = -1;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
        EXPECT_EQ(*side.memory.word(8), kScribble);
        *side.memory.word(8) = 0;
        side.expect_unharmed();
        side.have_traffic(channel, 2);
        channel.sync();
        side.close();
      },
      "peer",
      [](Channel& channel) {
        Side side(channel);
        side.have_traffic(channel, 1);
        side.have_traffic(channel, 2);
        channel.sync();
        side.close();
      });
}

}  // namespace
}  // namespace urma_test
