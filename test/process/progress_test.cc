// SPDX-License-Identifier: MIT
//
// Who must call what to make progress, and the order of completions.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

constexpr size_t kSize = 1 << 20;

// A process with memory; both processes access half of each other's: data goes from `out` to `in`.
struct Party {
  explicit Party(const Config& config = {}) : endpoint(config), memory(2 * kSize) {
    segment = endpoint.add(memory.data(), memory.size());
    std::memset(out(), 'o', kSize);
  }
  uint8_t* in() { return memory.data(); }
  uint8_t* out() { return memory.data() + kSize; }

  // Tells the other process what it may access, and learns the same.
  void meet(Channel& channel) {
    const Offer theirs = channel.swap(offer_of(endpoint, segment));
    queue = endpoint.import(theirs.queue);
    remote = endpoint.import(theirs.segment);
  }
  uint64_t remote_in() const { return remote->seg.ubva.va; }

  void post_receive(size_t size, uint64_t user_ctx = 0) {
    endpoint.post_receive(segment, in(), size, user_ctx);
  }
  void send(size_t size, uint64_t user_ctx = 0) {
    urma_sge_t here = piece(segment, out(), size);
    endpoint.post(send_request(queue, &here, user_ctx));
  }
  void write(size_t size, uint64_t user_ctx = 0) {
    urma_sge_t here = piece(segment, out(), size), there = piece(remote, remote_in(), size);
    endpoint.post(write_request(queue, &here, &there, user_ctx));
  }

  Endpoint endpoint;
  std::vector<uint8_t> memory;
  urma_target_seg_t* segment = nullptr;
  urma_target_seg_t* remote = nullptr;
  urma_target_jetty_t* queue = nullptr;
  const Closing closing{endpoint};
};

milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

using ProgressTest = ProcessTest;

// Both send and poll their send completions only; no one polls for received messages.
TEST_F(ProgressTest, PeersThatPollTheirSendsOnly) {
  constexpr int kMessages = 200;
  Config config;
  config.receive_depth = 256;
  auto body = [&config](Channel& channel) {
    Party party(config);
    for (int i = 0; i < kMessages; ++i) party.post_receive(kSize, i);
    party.meet(channel);
    for (int i = 0; i < kMessages; ++i) {
      party.send(i % 20 == 0 ? kSize : 64, i);
      wait_for_success(party.endpoint.send_jfc, i);
    }
    channel.sync();
    for (int i = 0; i < kMessages; ++i) wait_for_success(party.endpoint.receive_jfc, i);
    channel.sync();
  };
  run_two("first", body, "second", body);
}

// The receiver makes no URMA call from before the message is sent until it is told that the message
// is complete: it computes for a second, or as long as that takes.
TEST_F(ProgressTest, ReceiverThatMakesNoCall) {
  auto sender = [](Channel& channel) {
    Party party;
    party.meet(channel);
    channel.sync();
    for (size_t size : {size_t{64}, kSize}) {
      SCOPED_TRACE(size);
      party.send(size, size);
      wait_for_success(party.endpoint.send_jfc, size);
    }
    channel.sync();
  };
  auto receiver = [](Channel& channel) {
    Party party;
    for (int i = 0; i < 2; ++i) party.post_receive(kSize, i);
    party.meet(channel);
    channel.sync();
    const auto start = Clock::now();
    std::atomic<uint64_t> work = 0;
    while (since(start) < seconds(1)) work += 1;
    channel.sync();
    EXPECT_EQ(wait_for_success(party.endpoint.receive_jfc, 0).completion_len, 64u);
    EXPECT_EQ(wait_for_success(party.endpoint.receive_jfc, 1).completion_len, kSize);
    EXPECT_EQ(std::memcmp(party.in(), party.out(), kSize), 0);
  };
  run_two("sender", sender, "receiver", receiver);
}

// How often the threads of this process have slept, except for the calling one.
long others_have_slept() {
  rusage all, own;
  ::getrusage(RUSAGE_SELF, &all);
  ::getrusage(RUSAGE_THREAD, &own);
  return all.ru_nvcsw - own.ru_nvcsw;
}

// The sender looks for each answer before it can be there, and sends the next message more than a
// millisecond later. None of them waits that long, so none needs a hint, which would wake a service
// thread of the receiver.
TEST_F(ProgressTest, AMessageThatIsTakenInTimeWakesNobody) {
  SKIP_WITHOUT(device_traits().maps, "messages that no service thread reads from a network");
  constexpr int kRounds = 50;
  constexpr int kLooks = 64;
  auto sender = [](Channel& channel) {
    Party party;
    party.meet(channel);
    channel.sync();
    milliseconds late(0);
    for (int i = 0; i < kRounds; ++i) {
      const auto start = Clock::now();
      party.send(64, i);
      // A record would be that of a late look: a service thread has taken the message.
      urma_cr_t record;
      int records = 0;
      for (int look = 0; look < kLooks && records == 0; ++look) {
        records = urma_poll_jfc(party.endpoint.send_jfc, 1, &record);
      }
      ASSERT_GE(records, 0);
      channel.sync();
      if (records == 0) wait_for_success(party.endpoint.send_jfc, i);
      late += since(start);
      const auto end = Clock::now();
      while (since(end) < milliseconds(2)) {
      }
    }
    channel.send(late);
    channel.sync();
  };
  auto receiver = [](Channel& channel) {
    Party party;
    for (int i = 0; i < kRounds; ++i) party.post_receive(64, i);
    party.meet(channel);
    channel.sync();
    long before = 0;
    for (int i = 0; i < kRounds; ++i) {
      channel.sync();
      wait_for_success(party.endpoint.receive_jfc, i);
      // The first messages open the ring.
      if (i == kRounds / 5) before = others_have_slept();
    }
    // On a busy machine messages do wait, and are hinted at each millisecond.
    const long slept = others_have_slept() - before;
    EXPECT_LT(slept, kRounds / 2 + 4 * channel.receive<milliseconds>().count());
    channel.sync();
  };
  run_two("sender", sender, "receiver", receiver);
}

// The target waits for the end on its channel, that is, outside URMA.
TEST_F(ProgressTest, OneSidedWhileTheTargetMakesNoCall) {
  constexpr uint64_t kRounds = 200;
  auto initiator = [](Channel& channel) {
    Party party;
    party.meet(channel);
    channel.sync();
    party.write(kSize, 1);
    wait_for_success(party.endpoint.send_jfc, 1);
    urma_sge_t here = piece(party.segment, party.in(), kSize);
    urma_sge_t there = piece(party.remote, party.remote_in(), kSize);
    party.endpoint.post(read_request(party.queue, &here, &there, 2));
    wait_for_success(party.endpoint.send_jfc, 2);
    EXPECT_EQ(std::memcmp(party.in(), party.out(), kSize), 0);

    uint64_t value;
    std::memcpy(&value, party.out(), sizeof(value));
    urma_sge_t old = piece(party.segment, party.in(), 8);
    urma_sge_t counter = piece(party.remote, party.remote_in(), 8);
    for (uint64_t i = 0; i < kRounds; ++i, ++value) {
      party.endpoint.post(i % 2 ? add_request(party.queue, &old, &counter, 1)
                                : cas_request(party.queue, &old, &counter, value, value + 1));
      wait_for_success(party.endpoint.send_jfc, 0);
      EXPECT_EQ(std::memcmp(party.in(), &value, 8), 0);
    }
    channel.send(value);
    channel.sync();
  };
  auto target = [](Channel& channel) {
    Party party;
    party.meet(channel);
    channel.sync();
    const uint64_t value = channel.receive<uint64_t>();
    EXPECT_EQ(std::memcmp(party.in(), &value, 8), 0);
    EXPECT_EQ(std::memcmp(party.in() + 8, party.out() + 8, kSize - 8), 0);
    channel.sync();
  };
  run_two("initiator", initiator, "target", target);
}

// A mix of operations of very different speed, several in flight.
TEST_F(ProgressTest, SendCompletionsComeInPostOrder) {
  constexpr uint64_t kRequests = 1000, kInFlight = 32;
  Config config;
  config.receive_depth = 512;
  auto initiator = [&config](Channel& channel) {
    Party party(config);
    party.meet(channel);
    channel.sync();
    urma_sge_t here = piece(party.segment, party.in(), 8);
    urma_sge_t there = piece(party.remote, party.remote_in(), 8);
    auto post = [&](uint64_t i) {
      const size_t size = i % 7 == 0 ? 100000 : 1 + i % 100;
      switch (i * 2654435761u / 8 % 5) {
        case 0:
          return party.write(size, i);
        case 1:
          return party.send(size, i);
        case 2:
          return party.endpoint.post(read_request(party.queue, &here, &there, i));
        case 3:
          return party.endpoint.post(cas_request(party.queue, &here, &there, 0, 1, i));
        default:
          return party.endpoint.post(add_request(party.queue, &here, &there, 1, i));
      }
    };
    for (uint64_t i = 0; i < kRequests + kInFlight; ++i) {
      if (i < kRequests) post(i);
      if (i >= kInFlight) wait_for_success(party.endpoint.send_jfc, i - kInFlight);
    }
    EXPECT_TRUE(has_nothing(party.endpoint.send_jfc));
    channel.sync();
  };
  auto target = [&config](Channel& channel) {
    Party party(config);
    for (uint64_t i = 0; i < config.receive_depth; ++i) party.post_receive(kSize, i);
    party.meet(channel);
    channel.sync();
    channel.sync();
  };
  run_two("initiator", initiator, "target", target);
}

// A process that sends to itself, and whose own writes fill each poll.
struct Busy : Party {
  explicit Busy(const Config& config = {}) : Party(config) {
    queue = endpoint.import(endpoint.queue_id());
    remote = endpoint.import(endpoint.segment_id(segment));
    // The first ones wait for an answer, and some for a mapping. Later ones have ended when their
    // posts return.
    for (uint64_t i = 0; i < 32; ++i) {
      write(8, i);
      wait_for_success(endpoint.send_jfc, i);
    }
  }
  // Such a record comes nevertheless.
  template <typename Wanted>
  void expect_among_others(const Wanted& wanted) {
    constexpr int kRecords = 4;
    for (int i = 0; i < 2 * kRecords; ++i) write(8);
    const auto deadline = Clock::now() + patience(seconds(10));
    while (Clock::now() < deadline) {
      urma_cr_t records[kRecords];
      const int got = urma_poll_jfc(endpoint.send_jfc, kRecords, records);
      ASSERT_GE(got, 0);
      if (std::any_of(records, records + got, wanted)) return;
      for (int i = 0; i < got; ++i) write(8);
    }
    ADD_FAILURE() << "others fill each poll";
  }
  // A jetty that completes into this JFC.
  OwnedJetty another(urma_jfc_t* jfc) const {
    urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
    cfg.id = 0;
    cfg.jfs_cfg.jfc = jfc;
    return urma_create_jetty(endpoint.ctx, &cfg);
  }
};

TEST_F(ProgressTest, AQueueThatFillsEachPollStarvesNoOther) {
  SKIP_UNLESS_SHARED_MEMORY("a write has ended when its post returns");
  run_one([](Channel&) {
    Busy busy;
    const OwnedJetty other = busy.another(busy.endpoint.send_jfc);
    urma_sge_t here = piece(busy.segment, busy.out(), 8);
    urma_sge_t there = piece(busy.remote, busy.remote_in() + 8, 8);
    urma_jfs_wr_t wr = write_request(busy.queue, &here, &there);
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jetty_send_wr(other, &wr, &bad), URMA_SUCCESS);
    busy.expect_among_others(
        [&](const urma_cr_t& cr) { return cr.local_id == other->jetty_id.id; });
  });
}

TEST_F(ProgressTest, AQueueThatFillsEachPollHidesNoReceive) {
  SKIP_UNLESS_SHARED_MEMORY("a write has ended when its post returns");
  run_one([](Channel&) {
    Config config;
    config.one_jfc = true;
    Busy busy(config);
    urma_jfc_cfg_t jfc_cfg = busy.endpoint.send_jfc->jfc_cfg;
    const OwnedJfc jfc = urma_create_jfc(busy.endpoint.ctx, &jfc_cfg);
    const OwnedJetty other = busy.another(jfc);
    busy.post_receive(8);
    urma_sge_t here = piece(busy.segment, busy.out(), 8);
    urma_jfs_wr_t wr = send_request(busy.queue, &here, 1);
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jetty_send_wr(other, &wr, &bad), URMA_SUCCESS);
    wait_for_success(jfc, 1);
    busy.expect_among_others([](const urma_cr_t& cr) { return cr.flag.bs.s_r == 1; });
  });
}

TEST_F(ProgressTest, UnsignalledRequestsLeaveNoRecord) {
  constexpr uint64_t kMessages = 500;
  auto sender = [](Channel& channel) {
    Party party;
    party.meet(channel);
    channel.sync();
    for (uint64_t i = 0; i < kMessages; ++i) {
      // One in ten is signalled, and frees the entries of those before it.
      const bool signalled = i % 10 == 9;
      std::memcpy(party.out() + 16 * (i % 32), &i, sizeof(i));
      urma_sge_t here = piece(party.segment, party.out() + 16 * (i % 32), 8);
      urma_jfs_wr_t wr = send_request(party.queue, &here, i);
      wr.flag.bs.complete_enable = signalled;
      party.endpoint.post(wr);
      if (signalled) wait_for_success(party.endpoint.send_jfc, i);
    }
    EXPECT_TRUE(has_nothing(party.endpoint.send_jfc));
    channel.sync();
    EXPECT_TRUE(has_nothing(party.endpoint.send_jfc));
  };
  auto receiver = [](Channel& channel) {
    Party party;
    for (int i = 0; i < 64; ++i) party.post_receive(8);
    party.meet(channel);
    channel.sync();
    for (uint64_t i = 0; i < kMessages; ++i) {
      wait_for_success(party.endpoint.receive_jfc, 0);
      party.post_receive(8);
    }
    channel.sync();
    EXPECT_TRUE(has_nothing(party.endpoint.receive_jfc));
  };
  run_two("sender", sender, "receiver", receiver);
}

// Receives are consumed in the order of posting, each by the message meant for it, small and large
// mixed.
TEST_F(ProgressTest, ReceivesCompleteFirstInFirstOut) {
  constexpr uint64_t kMessages = 400, kSlots = 32, kSlot = kSize / kSlots;
  auto size_of = [](uint64_t i) -> size_t { return i % 5 == 0 ? kSlot : 9 + i % 200; };
  auto sender = [&size_of](Channel& channel) {
    Party party;
    party.meet(channel);
    channel.sync();
    for (uint64_t i = 0; i < kMessages; ++i) {
      if (i >= kSlots) wait_for_success(party.endpoint.send_jfc, i - kSlots);
      uint8_t* slot = party.out() + i % kSlots * kSlot;
      std::memcpy(slot, &i, sizeof(i));
      slot[size_of(i) - 1] = static_cast<uint8_t>(i);
      urma_sge_t here = piece(party.segment, slot, size_of(i));
      party.endpoint.post(send_request(party.queue, &here, i));
    }
    for (uint64_t i = kMessages - kSlots; i < kMessages; ++i) {
      wait_for_success(party.endpoint.send_jfc, i);
    }
    channel.sync();
  };
  auto receiver = [&size_of](Channel& channel) {
    Party party;
    auto slot_of = [&party](uint64_t i) { return party.in() + i % kSlots * kSlot; };
    auto post = [&](uint64_t i) {
      party.endpoint.post_receive(party.segment, slot_of(i), kSlot, i);
    };
    for (uint64_t i = 0; i < kSlots; ++i) post(i);
    party.meet(channel);
    channel.sync();
    for (uint64_t i = 0; i < kMessages; ++i) {
      const urma_cr_t cr = wait_for_success(party.endpoint.receive_jfc, i);
      EXPECT_EQ(cr.completion_len, size_of(i));
      EXPECT_EQ(std::memcmp(slot_of(i), &i, sizeof(i)), 0);
      EXPECT_EQ(slot_of(i)[size_of(i) - 1], static_cast<uint8_t>(i));
      post(i + kSlots);
    }
    channel.sync();
  };
  run_two("sender", sender, "receiver", receiver);
}

}  // namespace
}  // namespace urma_test
