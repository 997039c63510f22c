// SPDX-License-Identifier: MIT
//
// A peer that does not progress holds up those who send to it, and costs memory to nobody.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/footprint.h"
#include "test/process/harness.h"
#include "test/process/soak.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr size_t kSize = 256 << 10;
constexpr uint32_t kDepth = 128;  // 32 MiB of messages
constexpr uint32_t kSlots = 4;
constexpr uint8_t kForEver = 7;
// The windows of both sides, 1 MiB each, and what the allocator keeps.
constexpr uint64_t kMost = 8 << 20;

Config config() {
  Config config;
  config.send_depth = kDepth;
  config.receive_depth = kDepth;
  config.rnr_retry = kForEver;
  return config;
}

// A process with memory for some messages, which they share.
struct Party {
  Party() : endpoint(config()), memory(kSlots * kSize) {
    segment = endpoint.add(memory.data(), memory.size());
  }
  char* slot(uint32_t i) { return memory.data() + i % kSlots * kSize; }
  void send(urma_target_jetty_t* queue, uint32_t i) {
    urma_sge_t local = piece(segment, slot(i), kSize);
    endpoint.post(send_request(queue, &local, i));
  }
  void write(urma_target_jetty_t* queue, urma_target_seg_t* theirs, uint32_t i) {
    urma_sge_t local = piece(segment, slot(i), kSize);
    urma_sge_t remote = piece(theirs, theirs->seg.ubva.va + i % kSlots * kSize, kSize);
    endpoint.post(write_request(queue, &local, &remote, i));
  }

  Endpoint endpoint;
  std::vector<char> memory;
  urma_target_seg_t* segment = nullptr;
  const Closing closing{endpoint};
};

uint64_t grown_since(const Footprint& before) {
  const uint64_t now = take_footprint().resident_bytes;
  return now > before.resident_bytes ? now - before.resident_bytes : 0;
}

uint64_t sent_bytes() {
  std::array<urma_ext_connection_t, 8> streams;
  uint32_t count = streams.size();
  EXPECT_EQ(urma_ext_query_connections(::getpid(), streams.data(), &count), URMA_SUCCESS);
  uint64_t sent = 0;
  for (uint32_t i = 0; i < count; ++i) sent += streams[i].sent_bytes;
  return sent;
}

// Polls until a thousand polls have sent nothing more: all windows are full.
void fill_windows(Party& party) {
  uint64_t before = UINT64_MAX;
  for (uint64_t now = 0; (now = sent_bytes()) != before; before = now) {
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(has_nothing(party.endpoint.send_jfc));
      ::sched_yield();
    }
  }
}

class StuckPeerTest : public ProcessTest {
 protected:
  StuckPeerTest() {
    if (const char* before = std::getenv(kTimeout)) before_ = before;
    ::setenv(kTimeout, "600000", 1);
  }
  ~StuckPeerTest() override {
    if (before_) {
      ::setenv(kTimeout, before_->c_str(), 1);
    } else {
      ::unsetenv(kTimeout);
    }
  }

 private:
  static constexpr char kTimeout[] = "URMA_TCP_TIMEOUT_MS";
  std::optional<std::string> before_;
};

// It has not posted any receive yet.
TEST_F(StuckPeerTest, MessagesWithoutReceivesWaitAtTheirSender) {
  const auto receiver = [](Channel& channel) {
    Party party;
    const Footprint before = take_footprint();
    channel.send(party.endpoint.queue_id());
    while (!channel.has_message()) EXPECT_TRUE(has_nothing(party.endpoint.receive_jfc));
    channel.receive<char>();
    EXPECT_LT(grown_since(before), kMost);
    for (uint32_t i = 0; i < kDepth; ++i) {
      party.endpoint.post_receive(party.segment, party.slot(0), kSize, i);
      wait_for_success(party.endpoint.receive_jfc, i);
      EXPECT_EQ(party.slot(0)[kSize - 1], static_cast<char>(i % kSlots));
    }
    channel.sync();
  };
  const auto sender = [](Channel& channel) {
    Party party;
    for (uint32_t i = 0; i < kSlots; ++i) std::memset(party.slot(i), static_cast<int>(i), kSize);
    urma_target_jetty_t* queue = party.endpoint.import(channel.receive<QueueId>());
    const Footprint before = take_footprint();
    for (uint32_t i = 0; i < kDepth; ++i) party.send(queue, i);
    fill_windows(party);
    EXPECT_LT(grown_since(before), kMost);
    channel.send('f');
    for (uint32_t i = 0; i < kDepth; ++i) wait_for_success(party.endpoint.send_jfc, i);
    channel.sync();
  };
  run_two("receiver", receiver, "sender", sender);
}

// Offers its memory; is stopped after the first sync.
void own(Channel& channel) {
  Party party;
  channel.send(offer_of(party.endpoint, party.segment));
  channel.sync();
  channel.sync();
}

// Whether a live owner may answer later than the timeout: with a short one, on a busy machine.
enum class Answers { kInTime, kMaybeLate };

// Has written to the owner once, and the owner is stopped, when this is constructed.
struct Sender : Party {
  explicit Sender(Channel& channel, Answers answers = Answers::kInTime) {
    const auto offer = channel.receive<Offer>();
    queue = endpoint.import(offer.queue);
    theirs = endpoint.import(offer.segment);
    const auto deadline = Clock::now() + patience(seconds(20));
    urma_cr_status_t status;
    do {
      write(queue, theirs, 0);
      status = wait_for(endpoint.send_jfc).status;
    } while (answers == Answers::kMaybeLate && status == URMA_CR_ACK_TIMEOUT_ERR &&
             Clock::now() < deadline);
    EXPECT_EQ(status, URMA_CR_SUCCESS);
    channel.sync();
    channel.sync();
  }

  urma_target_jetty_t* queue;
  urma_target_seg_t* theirs;
};

void stop_owner(Child& owner, Child& sender) {
  sender.channel().send(owner.channel().receive<Offer>());
  owner.channel().sync();
  sender.channel().sync();
  owner.stop();
  sender.channel().sync();
}

// It is stopped: nothing of it runs, and only its kernel takes bytes. The messages wait in their
// sender's memory, as they must not change before they are complete.
TEST_F(StuckPeerTest, RequestsToAStoppedProcessWaitAtTheirSender) {
  Child owner("owner", own);
  Child sender("sender", [](Channel& channel) {
    Sender party(channel);
    const Footprint before = take_footprint();
    for (uint32_t i = 0; i < kDepth; ++i) party.write(party.queue, party.theirs, i);
    fill_windows(party);
    EXPECT_LT(grown_since(before), kMost);
    channel.sync();  // and goes on
    for (uint32_t i = 0; i < kDepth; ++i) wait_for_success(party.endpoint.send_jfc, i);
    channel.sync();
  });
  stop_owner(owner, sender);
  sender.channel().sync();
  ::kill(owner.pid(), SIGCONT);
  sender.channel().sync();
  sender.expect_success();
  owner.channel().sync();
  owner.expect_success();
}

// A stopped process counts as gone after the timeout, whatever its kernel has taken.
TEST_F(StuckPeerTest, RequestsToAStoppedProcessEndInTime) {
  static constexpr milliseconds kTimeout{400};
  ::setenv("URMA_TCP_TIMEOUT_MS", "400", 1);
  Child owner("owner", own);
  Child sender("sender", [](Channel& channel) {
    Sender party(channel, Answers::kMaybeLate);
    const auto posted = Clock::now();
    for (uint32_t i = 0; i < kDepth; ++i) {
      if (i % 2 == 0) party.write(party.queue, party.theirs, i);
      if (i % 2 == 1) party.send(party.queue, i);
    }
    for (uint32_t i = 0; i < kDepth; ++i) {
      wait_for_status(party.endpoint.send_jfc, URMA_CR_ACK_TIMEOUT_ERR);
    }
    // Those in flight, one that looks for the owner anew, and the others with it.
    EXPECT_LT(Clock::now() - posted, promised(4 * kTimeout));
    channel.sync();
  });
  stop_owner(owner, sender);
  sender.channel().sync();
  sender.expect_success();
  owner.kill();
}

}  // namespace
}  // namespace urma_test
