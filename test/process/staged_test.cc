// SPDX-License-Identifier: MIT
//
// Memory that can be neither mapped nor copied by the kernel: every request still moves its bytes,
// through memory that its owner copies to and from.
#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/refusal.h"
#include "test/process/staged_party.h"

namespace urma_test {
namespace {

constexpr uint32_t kToken = 0x70ce;

struct Refusal {
  const char* name;
  void (*begin)();
};

void refuse_copies(int error) {
  refuse(SYS_process_vm_readv, error);
  refuse(SYS_process_vm_writev, error);
}

const Refusal kRefusals[] = {
    {"Permission", [] { refuse_copies(EPERM); }},
    {"NoSuchCall", [] { refuse_copies(ENOSYS); }},
    {"NoPidfd", [] { refuse(SYS_pidfd_open, ENOSYS); }},
    {"PidfdRefused", [] { refuse(SYS_pidfd_open, EPERM); }},
    {"Setting", [] { ::setenv("URMA_SHM_COPY", "staged", 1); }},
};

class StagedTest : public ProcessTest, public testing::WithParamInterface<Refusal> {
 protected:
  void run(const Body& body) {
    SKIP_UNLESS_SHARED_MEMORY("copies are staged");
    const Body refused = [&](Channel& channel) {
      stay_in_place();
      GetParam().begin();
      body(channel);
    };
    run_two("one", refused, "other", refused);
  }
};

TEST_P(StagedTest, EveryRequestMovesItsBytesInBothDirections) {
  run([](Channel& channel) {
    Party party(channel);
    write_and_read(party, channel);
    write_with_immediate(party, channel);
    write_and_notify(party, channel);
    count(party, channel);
    send_messages(party, channel);
    party.expect_staged();
  });
}

INSTANTIATE_TEST_SUITE_P(Refusals, StagedTest, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

class StagedPeersTest : public ProcessTest {
 protected:
  void SetUp() override {
    SKIP_UNLESS_SHARED_MEMORY("copies are staged");
    ::setenv("URMA_SHM_COPY", "staged", 1);
    stay_in_place();
  }
  void TearDown() override {
    ::unsetenv("URMA_SHM_COPY");
    ::unsetenv("URMA_SHM_INPLACE");
  }
};

// What the kernel allowed before.
TEST_F(StagedPeersTest, RefusalDuringTrafficLosesNothing) {
  ::unsetenv("URMA_SHM_COPY");
  const Body body = [](Channel& channel) {
    Party party(channel);
    urma_sge_t here = party.here(kBytes), there = party.there(kBytes);
    fill_with(party.out(), kBytes, 1);
    party.succeed(write_request(party.queue, &here, &there, 1));
    for (const urma_ext_part_t& part : parts_of(party.remote)) {
      EXPECT_EQ(part.path, URMA_EXT_PATH_COPIED);
    }
    channel.sync();
    // Of this thread; the service thread copies nothing for polling threads.
    refuse_copies(EPERM);
    write_and_read(party, channel);
    send_messages(party, channel);
  };
  run_two("one", body, "other", body);
}

// No one polls: the service threads move the parts.
TEST_F(StagedPeersTest, MessagesReachSleepingReceivers) {
  const Body body = [](Channel& channel) {
    Config config;
    config.events = true;
    Party party(channel, config);
    const auto sleep_until = [&](urma_jfc_t* jfc, uint64_t user_ctx) {
      const auto deadline = Clock::now() + patience(seconds(10));
      urma_cr_t record = {};
      while (urma_poll_jfc(jfc, 1, &record) == 0) {
        ASSERT_LT(Clock::now(), deadline);
        ASSERT_EQ(urma_rearm_jfc(jfc, false), URMA_SUCCESS);
        urma_jfc_t* rung = nullptr;
        uint32_t events = 1;
        if (urma_wait_jfc(party.endpoint.jfce, 1, 10'000, &rung) == 1) {
          urma_ack_jfc(&rung, &events, 1);
        }
      }
      EXPECT_EQ(record.status, URMA_CR_SUCCESS);
      EXPECT_EQ(record.user_ctx, user_ctx);
    };
    for (uint64_t round = 1; round <= 5; ++round) {
      party.endpoint.post_receive(party.segment, party.in(), kBytes, round);
      channel.sync();
      fill_with(party.out(), kBytes, round);
      urma_sge_t here = party.here(kBytes);
      party.endpoint.post(send_request(party.queue, &here, round));
      sleep_until(party.endpoint.receive_jfc, round);
      EXPECT_TRUE(is_filled_with(party.in(), kBytes, round));
      sleep_until(party.endpoint.send_jfc, round);
      urma_sge_t there = party.there(kBytes);
      channel.sync();
      party.endpoint.post(write_request(party.queue, &here, &there, round));
      sleep_until(party.endpoint.send_jfc, round);
      channel.sync();
    }
  };
  run_two("one", body, "other", body);
}

// More ways than there are places.
TEST_F(StagedPeersTest, ManyQueuesShareTheStagingSlots) {
  constexpr uint64_t kQueues = 12;
  constexpr uint64_t kShare = kBytes / kQueues;
  const Body body = [](Channel& channel) {
    Party party(channel);
    std::vector<urma_jetty_t*> queues;
    for (uint64_t i = 0; i < kQueues; ++i) {
      urma_jetty_cfg_t cfg = party.endpoint.jetty->jetty_cfg;
      cfg.id = 0;
      queues.push_back(urma_create_jetty(party.endpoint.ctx, &cfg));
      ASSERT_NE(queues.back(), nullptr);
    }
    fill_with(party.out(), kBytes, 9);
    for (uint64_t i = 0; i < kQueues; ++i) {
      urma_sge_t here = party.here(kShare, i * kShare), there = party.there(kShare, i * kShare);
      urma_jfs_wr_t wr = write_request(party.queue, &here, &there, i);
      urma_jfs_wr_t* bad = nullptr;
      ASSERT_EQ(urma_post_jetty_send_wr(queues[i], &wr, &bad), URMA_SUCCESS);
    }
    for (uint64_t i = 0; i < kQueues; ++i) {
      EXPECT_EQ(wait_for(party.endpoint.send_jfc).status, URMA_CR_SUCCESS);
    }
    channel.sync();
    EXPECT_TRUE(is_filled_with(party.in(), kQueues * kShare, 9));
    for (urma_jetty_t* queue : queues) EXPECT_EQ(urma_delete_jetty(queue), URMA_SUCCESS);
  };
  run_two("one", body, "other", body);
}

TEST_F(StagedPeersTest, TokensAndRightsAreChecked) {
  run_two(
      "owner",
      [](Channel& channel) {
        const Pages pages(kMiB);
        OwnedEndpoint owner;
        fill_with(pages.get(), kMiB, 3);
        channel.send(owner.queue_id());
        urma_target_seg_t* secret = owner.add(pages.get(), kMiB, kAllAccess, kToken);
        channel.send(owner.segment_id(secret, kToken + 1));
        channel.sync();
        owner.remove(secret);
        urma_target_seg_t* constant = owner.add(pages.get(), kMiB, URMA_ACCESS_READ);
        channel.send(owner.segment_id(constant));
        channel.sync();
        owner.remove(constant);
        channel.sync();
        channel.sync();
        EXPECT_TRUE(is_filled_with(pages.get(), kMiB, 3));
      },
      "importer",
      [](Channel& channel) {
        const Pages pages(kMiB);
        OwnedEndpoint importer;
        urma_target_seg_t* local = importer.add(pages.get(), kMiB);
        urma_sge_t here = piece(local, pages.get(), kMiB);
        urma_target_jetty_t* queue = importer.import(channel.receive<QueueId>());
        const auto end_of = [&](const urma_jfs_wr_t& wr) {
          importer.post(wr);
          return wait_for(importer.send_jfc).status;
        };
        SegmentId id = channel.receive<SegmentId>();
        urma_target_seg_t* secret = importer.import(id);
        urma_sge_t there = piece(secret, id.va, kMiB);
        EXPECT_EQ(end_of(write_request(queue, &here, &there)), URMA_CR_REM_ACCESS_ABORT_ERR);
        EXPECT_EQ(end_of(read_request(queue, &here, &there)), URMA_CR_REM_ACCESS_ABORT_ERR);
        channel.sync();
        id = channel.receive<SegmentId>();
        urma_target_seg_t* constant = importer.import(id);
        there = piece(constant, id.va, kMiB);
        EXPECT_EQ(end_of(write_request(queue, &here, &there)), URMA_CR_REM_ACCESS_ABORT_ERR);
        EXPECT_EQ(end_of(read_request(queue, &here, &there)), URMA_CR_SUCCESS);
        EXPECT_TRUE(is_filled_with(pages.get(), kMiB, 3));
        channel.sync();
        channel.sync();
        EXPECT_EQ(end_of(read_request(queue, &here, &there)), URMA_CR_REM_ACCESS_ABORT_ERR);
        channel.sync();
      });
}

// The program of the owner has unmapped what it registered: its service thread must not crash.
TEST_F(StagedPeersTest, MemoryThatIsGoneIsAnError) {
  const Body body = [](Channel& channel) {
    Party party(channel);
    ASSERT_EQ(::mprotect(party.in(), kPage, PROT_NONE), 0);
    channel.sync();
    urma_sge_t here = party.here(kBytes), there = party.there(kBytes);
    EXPECT_EQ(party.end_of(write_request(party.queue, &here, &there)),
              URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(party.end_of(read_request(party.queue, &here, &there)), URMA_CR_REM_ACCESS_ABORT_ERR);
    channel.sync();
    ASSERT_EQ(::mprotect(party.in(), kPage, PROT_READ | PROT_WRITE), 0);
    channel.sync();
    party.succeed(write_request(party.queue, &here, &there, 1));
    channel.sync();
  };
  run_two("one", body, "other", body);
}

// Posts requests of one kind until one fails, and returns its status.
urma_cr_status_t work_until_failure(Party& party, bool messages) {
  urma_sge_t here = party.here(kBytes), there = party.there(kBytes);
  const auto deadline = Clock::now() + patience(seconds(20));
  urma_cr_status_t status = URMA_CR_SUCCESS;
  while (status == URMA_CR_SUCCESS && Clock::now() < deadline) {
    status = party.end_of(messages ? send_request(party.queue, &here)
                                   : write_request(party.queue, &here, &there));
  }
  return status;
}

class StagedEndTest : public StagedPeersTest {
 protected:
  // What happens to the requests of a process when the other one gets a signal in the middle.
  void end_with(int signal, bool messages) {
    Child victim("victim", [](Channel& channel) {
      Party party(channel);
      for (uint64_t i = 0; i < 32; ++i)
        party.endpoint.post_receive(party.segment, party.in(), kBytes);
      channel.sync();
      for (;;) {
        urma_cr_t record;
        if (urma_poll_jfc(party.endpoint.receive_jfc, 1, &record) == 1) {
          party.endpoint.post_receive(party.segment, party.in(), kBytes);
        }
      }
    });
    Child survivor("survivor", [messages](Channel& channel) {
      Party party(channel);
      channel.sync();
      urma_sge_t here = party.here(kBytes), there = party.there(kBytes);
      party.succeed(messages ? send_request(party.queue, &here)
                             : write_request(party.queue, &here, &there));
      channel.send('w');
      EXPECT_EQ(work_until_failure(party, messages), URMA_CR_ACK_TIMEOUT_ERR);
      channel.sync();
    });
    introduce_all(victim, survivor);
    survivor.channel().receive<char>();
    ::kill(victim.pid(), signal);
    survivor.channel().sync();
    survivor.expect_success();
    victim.kill();
  }

 private:
  static void introduce_all(Child& victim, Child& survivor) {
    introduce<Offer>(victim, survivor);
    meet({&victim, &survivor});
  }
};

TEST_F(StagedEndTest, OwnerIsKilled) { end_with(SIGKILL, /*messages=*/false); }
TEST_F(StagedEndTest, OwnerIsStopped) { end_with(SIGSTOP, /*messages=*/false); }
TEST_F(StagedEndTest, ReceiverIsKilled) { end_with(SIGKILL, /*messages=*/true); }

// A sender that stops or dies while its message is being received blocks the receives only briefly.
TEST_F(StagedEndTest, EndedSendersDelayReceivesOnlyBriefly) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    SCOPED_TRACE(signal);
    Child receiver("receiver", [](Channel& channel) {
      const Pages pages(kBytes);
      OwnedEndpoint endpoint;
      urma_target_seg_t* segment = endpoint.add(pages.get(), kBytes);
      channel.send(endpoint.queue_id());
      const auto deadline = Clock::now() + patience(seconds(30));
      endpoint.post_receive(segment, pages.get(), kBytes);
      for (uint64_t length = 0; length != 8;) {
        ASSERT_LT(Clock::now(), deadline);
        urma_cr_t record;
        if (urma_poll_jfc(endpoint.receive_jfc, 1, &record) != 1) continue;
        EXPECT_EQ(record.status, URMA_CR_SUCCESS);
        length = record.completion_len;
        if (length == 8) break;
        channel.send('r');
        endpoint.post_receive(segment, pages.get(), kBytes);
      }
    });
    const auto queue = receiver.channel().receive<QueueId>();
    const auto sender = [](uint64_t bytes) {
      return [bytes](Channel& channel) {
        const Pages pages(kBytes);
        OwnedEndpoint endpoint;
        urma_target_seg_t* segment = endpoint.add(pages.get(), kBytes);
        urma_target_jetty_t* target = endpoint.import(channel.receive<QueueId>());
        urma_sge_t here = piece(segment, pages.get(), bytes);
        do {
          endpoint.post(send_request(target, &here));
          wait_for_success(endpoint.send_jfc, 0);
        } while (bytes != 8);
      };
    };
    Child goner("goner", sender(kBytes));
    goner.channel().send(queue);
    for (int messages = 0; messages < 3; ++messages) receiver.channel().receive<char>();
    ::kill(goner.pid(), signal);
    Child other("other", sender(8));
    other.channel().send(queue);
    other.expect_success();
    receiver.expect_success();
    goner.kill();
  }
}

}  // namespace
}  // namespace urma_test
