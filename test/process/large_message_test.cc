// SPDX-License-Identifier: MIT
//
// Messages that do not fit in a ring. The receiver reads them from the sender's memory: with plain
// loads if it is mapped, through the kernel otherwise.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/kernel.h"
#include "test/process/mapping_party.h"

namespace urma_test {
namespace {

constexpr uint64_t kRoom = 16 * kPage;
constexpr uint64_t kStreamed = 1 << 20;
constexpr uint32_t kToken = 0x70ce;

// A different pattern for each message.
char byte_of(uint64_t message, uint64_t i) {
  return static_cast<char>(message * 31 + i * 7 + (i >> 8));
}

void write_message(char* into, uint64_t bytes, uint64_t message) {
  for (uint64_t i = 0; i < bytes; ++i) into[i] = byte_of(message, i);
}

// The index of the first wrong byte, or `bytes`.
uint64_t first_wrong(const char* data, uint64_t bytes, uint64_t message) {
  uint64_t i = 0;
  while (i < bytes && data[i] == byte_of(message, i)) ++i;
  return i;
}

// Receives messages until an empty one.
void receive_all(Channel& channel) {
  std::vector<char> room(kRoom);
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(room.data(), room.size());
  channel.send(endpoint.queue_id());
  for (uint64_t message = 0;; ++message) {
    std::fill(room.begin(), room.end(), 0);
    endpoint.post_receive(segment, room.data(), room.size(), message);
    channel.sync();
    const urma_cr_t record = wait_for_success(endpoint.receive_jfc, message);
    if (record.completion_len == 0) break;
    ASSERT_EQ(first_wrong(room.data(), record.completion_len, message), record.completion_len)
        << "message " << message;
    ASSERT_TRUE(record.completion_len == room.size() || room[record.completion_len] == 0);
  }
}

class Sender {
 public:
  explicit Sender(Channel& channel)
      : channel_(channel), queue(endpoint.import(channel.receive<QueueId>())) {}

  void send(urma_target_seg_t* segment, char* from, uint64_t bytes) {
    write_message(from, bytes, sent_);
    post(segment, from, bytes);
    wait_for_success(endpoint.send_jfc, sent_++);
  }
  void post(urma_target_seg_t* segment, char* from, uint64_t bytes) {
    channel_.sync();
    urma_sge_t sge = piece(segment, from, bytes);
    endpoint.post(send_request(queue, &sge, sent_));
  }
  void end() {
    post(nullptr, nullptr, 0);
    wait_for_success(endpoint.send_jfc, sent_);
    endpoint.close();
  }

  Endpoint endpoint;

 private:
  Channel& channel_;
  urma_target_jetty_t* queue;
  uint64_t sent_ = 0;
};

bool all_mapped(const urma_target_seg_t* segment) {
  const std::vector<urma_ext_part_t> parts = parts_of(segment);
  return parts.size() == 1 && parts[0].path == URMA_EXT_PATH_MAPPED;
}

class LargeMessageTest : public ProcessTest {
 protected:
  static void run(const std::function<void(Sender&)>& body) {
    run_two("receiver", receive_all, "sender", [&](Channel& channel) {
      Sender sender(channel);
      body(sender);
      sender.end();
    });
  }
};

TEST_F(LargeMessageTest, OfWorldReadableMemoryIsMappedAfterAWhile) {
  SKIP_UNLESS_SHARED_MEMORY("a receiver maps the memory of its senders");
  SKIP_UNLESS_IN_PLACE();
  run([](Sender& sender) {
    Pages pages(kRoom);
    urma_target_seg_t* segment = sender.endpoint.add(pages.get(), kRoom);
    sender.send(segment, pages.get(), kRoom);
    EXPECT_FALSE(all_mapped(segment)) << "moved for one message";
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (!all_mapped(segment)) {
      ASSERT_LT(Clock::now(), deadline);
      sender.send(segment, pages.get(), kRoom);
    }
    for (uint64_t bytes = kPage; bytes <= kRoom; bytes += 1234) {
      sender.send(segment, pages.get() + kRoom - bytes, bytes);
    }
    sender.endpoint.remove(segment);
  });
}

TEST_F(LargeMessageTest, OfMemoryThatIsNotWorldReadableIsNeverMapped) {
  run([](Sender& sender) {
    Pages guarded(kRoom), closed(kRoom);
    urma_target_seg_t* with_token = sender.endpoint.add(guarded.get(), kRoom, kAllAccess, kToken);
    urma_target_seg_t* local = sender.endpoint.add(closed.get(), kRoom, URMA_ACCESS_LOCAL_ONLY);
    for (int i = 0; i < 40; ++i) {
      sender.send(with_token, guarded.get(), kRoom);
      sender.send(local, closed.get(), kRoom);
    }
    EXPECT_FALSE(all_mapped(with_token));
    EXPECT_FALSE(all_mapped(local));
    sender.endpoint.remove(with_token);
    sender.endpoint.remove(local);
  });
}

// The ends of ordinary memory share their pages with other data: they are copied, the pages between
// are not.
TEST_F(LargeMessageTest, UnalignedEndsAndSeveralPieces) {
  run([](Sender& sender) {
    std::vector<char> memory(3 * kRoom);
    urma_target_seg_t* segment = sender.endpoint.add(memory.data(), memory.size());
    for (uint64_t i = 0; i < 60; ++i) {
      sender.send(segment, memory.data() + 17 * i, kRoom - 13 * i);
    }
    sender.endpoint.remove(segment);
  });
}

// A mapping of one registration says nothing about the next one at the same address.
TEST_F(LargeMessageTest, OfMemoryRegisteredAgain) {
  run([](Sender& sender) {
    for (int registration = 0; registration < 6; ++registration) {
      Pages pages(kRoom);
      urma_target_seg_t* segment = sender.endpoint.add(pages.get(), kRoom);
      for (int i = 0; i < 12; ++i) sender.send(segment, pages.get(), kRoom);
      sender.endpoint.remove(segment);
    }
  });
}

// More segments than a receiver keeps mapped.
TEST_F(LargeMessageTest, OfManySegments) {
  run([](Sender& sender) {
    Pages pages(40 * kRoom);
    std::vector<urma_target_seg_t*> segments;
    for (uint64_t i = 0; i < 40; ++i) {
      segments.push_back(sender.endpoint.add(pages.get() + i * kRoom, kRoom));
    }
    for (int round = 0; round < 5; ++round) {
      for (uint64_t i = 0; i < 40; ++i) {
        sender.send(segments[i], pages.get() + i * kRoom, kRoom);
      }
    }
    for (urma_target_seg_t* segment : segments) sender.endpoint.remove(segment);
  });
}

// The number of segments that this process has imported with a grant of their owner.
int granted() {
  urma_ext_segment_t segments[64];
  uint32_t count = std::size(segments);
  EXPECT_EQ(urma_ext_query_segments_of(0, segments, &count), URMA_SUCCESS);
  return static_cast<int>(std::count_if(
      segments, segments + std::min<size_t>(count, std::size(segments)),
      [](const auto& segment) { return segment.imported != 0 && segment.access != 0; }));
}

void await_granted(int wanted, urma_jfc_t* polled) {
  const auto deadline = Clock::now() + patience(seconds(20));
  while (granted() != wanted) {
    ASSERT_LT(Clock::now(), deadline);
    EXPECT_TRUE(has_nothing(polled));
  }
}

// A receiver that cannot map the memory of its sender is not delayed by that, nor is a program that
// sleeps.
TEST_F(LargeMessageTest, OfAStoppedSender) {
  SKIP_UNLESS_SHARED_MEMORY("a receiver copies messages out of the memory of its senders");
  Child receiver("receiver", [](Channel& channel) {
    Config config;
    config.events = true;
    std::vector<char> room(kRoom);
    OwnedEndpoint endpoint(config);
    urma_target_seg_t* segment = endpoint.add(room.data(), room.size());
    channel.send(endpoint.queue_id());
    for (uint64_t message = 0; message < 2; ++message) {
      endpoint.post_receive(segment, room.data(), room.size(), message);
      channel.sync();
      wait_for_success(endpoint.receive_jfc, message);
      await_granted(1, endpoint.receive_jfc);
    }
    // With this message, copies have cost as much as a mapping.
    endpoint.post_receive(segment, room.data(), room.size(), 2);
    channel.sync();
    channel.sync();
    ASSERT_EQ(urma_rearm_jfc(endpoint.receive_jfc, false), URMA_SUCCESS);
    urma_jfc_t* jfc = nullptr;
    const auto limit = static_cast<int>(patience(seconds(20)).count());
    ASSERT_EQ(urma_wait_jfc(endpoint.jfce, 1, limit, &jfc), 1);
    uint32_t events = 1;
    urma_ack_jfc(&jfc, &events, 1);
    wait_for_success(endpoint.receive_jfc, 2);
    EXPECT_EQ(first_wrong(room.data(), kRoom, 2), kRoom);
    channel.sync();
  });
  Child peer("sender", [](Channel& channel) {
    Sender sender(channel);
    Pages pages(kRoom);
    urma_target_seg_t* segment = sender.endpoint.add(pages.get(), kRoom);
    for (int i = 0; i < 2; ++i) sender.send(segment, pages.get(), kRoom);
    write_message(pages.get(), kRoom, 2);
    sender.post(segment, pages.get(), kRoom);
    channel.sync();
    wait_for_success(sender.endpoint.send_jfc, 2);
    sender.endpoint.close();
  });
  peer.channel().send(receiver.channel().receive<QueueId>());
  for (int message = 0; message < 3; ++message) {
    receiver.channel().sync();
    peer.channel().sync();
  }
  // Posted, but not examined yet.
  peer.channel().sync();
  peer.stop();
  receiver.channel().sync();
  receiver.channel().sync();
  ASSERT_EQ(::kill(peer.pid(), SIGCONT), 0);
  receiver.expect_success();
  peer.expect_success();
}

// In shared memory.
struct Progress {
  std::atomic<uint64_t> polls{0};
  std::atomic<bool> enough{false};
};

// One byte of each page tells what was written there last.
void mark_pages(char* memory, uint64_t message) {
  for (uint64_t at = 0; at < kStreamed; at += kPage) memory[at] = static_cast<char>(message);
}

uint64_t first_wrong_page(const char* memory, uint64_t message) {
  uint64_t at = 0;
  while (at < kStreamed && memory[at] == static_cast<char>(message)) at += kPage;
  return at;
}

// Receives messages until there are enough, and an empty one.
void receive_stream(Channel& channel, Progress* progress) {
  constexpr uint64_t kReceives = 4;
  constexpr uint64_t kSeen = 100;  // apart from the marks of the messages around
  std::vector<char> rooms(kReceives * kStreamed);
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(rooms.data(), rooms.size());
  const auto room = [&](uint64_t message) {
    return rooms.data() + message % kReceives * kStreamed;
  };
  const auto post = [&](uint64_t message) {
    endpoint.post_receive(segment, room(message), kStreamed, message);
  };
  for (uint64_t message = 0; message < kReceives; ++message) post(message);
  channel.send(endpoint.queue_id());
  for (uint64_t message = 0;; ++message) {
    urma_cr_t record = {};
    while (urma_poll_jfc(endpoint.receive_jfc, 1, &record) == 0) ++progress->polls;
    ++progress->polls;
    ASSERT_EQ(record.status, URMA_CR_SUCCESS);
    // What was received before has not changed since.
    if (message > 0) {
      ASSERT_EQ(first_wrong_page(room(message - 1), message + kSeen), kStreamed);
      post(message - 1 + kReceives);
    }
    if (record.completion_len == 0) break;
    ASSERT_EQ(first_wrong_page(room(message), message), kStreamed);
    mark_pages(room(message), message + 1 + kSeen);
  }
}

void send_stream(Channel& channel, const Progress* progress) {
  std::vector<char> memory(kStreamed);
  Endpoint endpoint;
  urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
  urma_target_seg_t* segment = endpoint.add(memory.data(), kStreamed, URMA_ACCESS_LOCAL_ONLY);
  channel.sync();
  for (uint64_t message = 0, bytes = kStreamed; bytes != 0; ++message) {
    if (progress->enough) bytes = 0;
    mark_pages(memory.data(), message);
    urma_sge_t sge = piece(segment, memory.data(), bytes);
    endpoint.post(send_request(queue, &sge, message));
    wait_for_success(endpoint.send_jfc, message);
  }
  endpoint.close();
}

// Wherever it stops, it holds up nothing, and spoils nothing when it goes on.
TEST_F(LargeMessageTest, OfASenderThatIsStoppedAnywhere) {
  SKIP_UNLESS_SHARED_MEMORY("both ends copy messages");
  SKIP_UNLESS_THE_KERNEL_COPIES();
  void* shared =
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  for (int round = 0; round < 20; ++round) {
    auto* progress = new (shared) Progress();
    Child receiver("receiver", [&](Channel& channel) { receive_stream(channel, progress); });
    Child peer("sender", [&](Channel& channel) { send_stream(channel, progress); });
    peer.channel().send(receiver.channel().receive<QueueId>());
    peer.channel().sync();
    for (int stops = 0; stops < 3; ++stops) {
      const auto deadline = Clock::now() + patience(seconds(20));
      const auto await_polls = [&](uint64_t polls) {
        const uint64_t until = progress->polls + polls;
        while (progress->polls < until) ASSERT_LT(Clock::now(), deadline);
      };
      await_polls(1000 + 100 * static_cast<uint64_t>(round));
      peer.stop();
      await_polls(2000);
      ASSERT_EQ(::kill(peer.pid(), SIGCONT), 0);
    }
    progress->enough = true;
    receiver.expect_success();
    peer.expect_success();
  }
  ::munmap(shared, sizeof(Progress));
}

// Memory of a dead process is not kept.
TEST_F(LargeMessageTest, OfASenderThatIsKilled) {
  SKIP_UNLESS_SHARED_MEMORY("a receiver copies messages out of the memory of its senders");
  Child receiver("receiver", [](Channel& channel) {
    std::vector<char> room(kRoom);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(room.data(), room.size());
    channel.send(endpoint.queue_id());
    endpoint.post_receive(segment, room.data(), room.size(), 0);
    channel.sync();
    wait_for_success(endpoint.receive_jfc, 0);
    await_granted(1, endpoint.receive_jfc);
    channel.sync();
    await_granted(0, endpoint.receive_jfc);
  });
  Child peer("sender", [](Channel& channel) {
    Sender sender(channel);
    Pages pages(kRoom);
    sender.send(sender.endpoint.add(pages.get(), kRoom), pages.get(), kRoom);
    channel.sync();
  });
  peer.channel().send(receiver.channel().receive<QueueId>());
  receiver.channel().sync();
  peer.channel().sync();
  receiver.channel().sync();
  peer.kill();
  receiver.expect_success();
}

}  // namespace
}  // namespace urma_test
