// SPDX-License-Identifier: MIT
//
// A process that breaks the rules of a connection, in hundreds of ways: each ends only that
// connection. Its peer survives, and no request of an innocent process is lost.
#include <gtest/gtest.h>
#include <sched.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tcp/stranger.h"

namespace urma_test {
namespace {

using namespace urma::tcp;  // NOLINT: what it speaks

constexpr size_t kSize = 4096;

// What no honest process would send, each as the first frame of a connection.
std::vector<std::string> malformed() {
  std::vector<std::string> all;
  for (int kind = 0; kind < 256; ++kind) {
    const auto shape = shape_of(static_cast<FrameKind>(kind));
    if (!known(static_cast<FrameKind>(kind))) {
      all.push_back(head_of(0, static_cast<uint8_t>(kind)));
      continue;
    }
    const auto of_kind = static_cast<uint8_t>(kind);
    if (shape.body != 0) all.push_back(head_of(shape.body - 1, of_kind));
    all.push_back(head_of(shape.body + shape.payload + 1, of_kind));
    all.push_back(head_of(UINT32_MAX, of_kind));
    all.push_back(head_of(INT32_MAX, of_kind));
  }
  for (const uint32_t way : {0U, 1U, 7U, UINT32_MAX}) {
    all.push_back(frame(MessageBody{way, 8, 0, 1, 0, {}}, std::string(8, 'x')));
    all.push_back(frame(MessageBody{way, 1U << 30, 0, 1, 4, {}}));
    all.push_back(frame(PullBody{way}));
    all.push_back(frame(PartBody{way}, std::string(100, 'x')));
    all.push_back(frame(ReceivedBody{way, 1, 0}));
    all.push_back(frame(CloseWayBody{way}));
    all.push_back(frame(WayClosedBody{way, 0}));
    all.push_back(frame(WayOpenedBody{way, 0, 0}));
    all.push_back(frame(AnswerBody{way, 0, {1, 1}, 0, UINT64_MAX, 0, 0}));
  }
  all.push_back(frame(HelloBody{}) + frame(HelloBody{}));
  all.push_back(frame(EndedBody{{UINT32_MAX, 1}}));
  for (const uint32_t count : {0U, 1U, 2U, UINT32_MAX}) {
    all.push_back(frame(DoneBody{count, 0}));
    all.push_back(frame(DoneBody{count, UINT32_MAX}, std::string(64, 'x')));
  }
  for (int kind = 0; kind < 16; ++kind) {
    const auto of_kind = static_cast<uint8_t>(kind);
    const auto access = [&](uint32_t index, uint32_t bytes, size_t payload) {
      all.push_back(
          frame(AccessBody{{index, 1}, 4096, bytes, 0, of_kind, 0}, std::string(payload, 'x')));
    };
    access(UINT32_MAX, 8, 8);
    access(1, 0, 0);
    access(1, UINT32_MAX, 8);
    access(1, 8, 9);
  }
  return all;
}

// Bytes that are not frames, or incomplete frames.
std::string noise(uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(random() % 300 + 1, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

void expect_refused(Stranger& stranger, const std::string& bytes, size_t index) {
  const auto stream = stranger.connect();
  ASSERT_NE(stream, nullptr) << index;
  send_all(*stream, bytes);
  wait_for_end(*stream);
}

// Receives everything sent to it, and serves its memory.
void victim(Channel& channel) {
  OwnedEndpoint endpoint;
  std::vector<char> memory(2 * kSize);
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  channel.send(offer_of(endpoint, segment));
  channel.send(endpoint.queue_id());
  for (int i = 0; i < 16; ++i) endpoint.post_receive(segment, memory.data(), kSize);
  while (!channel.has_message()) {
    urma_cr_t crs[16];
    const int got = urma_poll_jfc(endpoint.receive_jfc, 16, crs);
    ASSERT_GE(got, 0);
    for (int i = 0; i < got; ++i) {
      ASSERT_EQ(crs[i].status, URMA_CR_SUCCESS);
      endpoint.post_receive(segment, memory.data(), kSize);
    }
    ::sched_yield();
  }
}

// Sends and writes all the time, until told to stop.
void innocent(Channel& channel) {
  OwnedEndpoint endpoint;
  std::vector<char> memory(kSize);
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  const auto offer = channel.receive<Offer>();
  urma_target_jetty_t* queue = endpoint.import(offer.queue);
  urma_target_seg_t* theirs = endpoint.import(offer.segment);
  urma_sge_t local = piece(segment, memory.data(), 64);
  urma_sge_t remote = piece(theirs, offer.segment.va + kSize, 64);
  channel.send('b');
  while (!channel.has_message()) {
    endpoint.post(send_request(queue, &local, 1));
    wait_for_success(endpoint.send_jfc, 1);
    endpoint.post(write_request(queue, &local, &remote, 2));
    wait_for_success(endpoint.send_jfc, 2);
  }
}

class HostileTest : public ProcessTest {
 protected:
  // Runs attack(stranger) while an innocent process talks to the victim.
  void run(const std::function<void(Stranger&)>& attack) {
    Child target("victim", victim);
    const auto offer = target.channel().receive<Offer>();
    const auto queue = target.channel().receive<QueueId>();
    Child peer("innocent", innocent);
    peer.channel().send(offer);
    peer.channel().receive<char>();
    {
      Stranger stranger(queue);
      attack(stranger);
    }
    peer.channel().send('e');
    peer.expect_success();
    target.channel().send('e');
    target.expect_success();
  }
};

TEST_F(HostileTest, AnInvalidFrameEndsOnlyItsConnection) {
  const std::vector<std::string> all = malformed();
  ASSERT_GE(all.size(), 200U);
  run([&](Stranger& stranger) {
    for (size_t i = 0; i < all.size(); ++i) expect_refused(stranger, all[i], i);
  });
}

TEST_F(HostileTest, RandomBytesEndOnlyTheirConnection) {
  run([&](Stranger& stranger) {
    for (uint32_t seed = 0; seed < 200; ++seed) {
      const auto stream = stranger.connect();
      ASSERT_NE(stream, nullptr) << seed;
      send_all(*stream, noise(seed));
    }
  });
}

// The refusals of what was not granted are answers: the connection stays.
TEST_F(HostileTest, MemoryThatWasNotGrantedIsNotAccessed) {
  run([&](Stranger& stranger) {
    const auto stream = stranger.connect();
    ASSERT_NE(stream, nullptr);
    for (uint32_t index = 0; index < 64; ++index) {
      for (uint32_t generation = 1; generation < 8; generation += 2) {
        const AccessBody access = {
            {index, generation}, 4096, 8, 0, static_cast<uint8_t>(urma::OpKind::kRead), 0};
        send_all(*stream, frame(access));
        const auto done = receive_body<DoneBody>(*stream);
        ASSERT_EQ(done.status, static_cast<uint32_t>(URMA_CR_REM_ACCESS_ABORT_ERR));
      }
    }
  });
}

// The service thread of the owner is still opening the path.
TEST_F(HostileTest, APeerThatSendsBeforeItsPathIsOpenIsDisconnected) {
  run([&](Stranger& stranger) {
    const std::string message = frame(MessageBody{5, 8, 0, 1, 0, {}}, std::string(8, 'x'));
    for (size_t round = 0; round < 100; ++round) {
      expect_refused(stranger, frame(way_to(stranger.victim(), 5)) + message, round);
      expect_refused(stranger, frame(way_to(stranger.victim(), 5)) + frame(CloseWayBody{5}), round);
    }
  });
}

// Each ping is answered, and the answers are not read: 16 MiB of them wait before the end.
TEST_F(HostileTest, APeerThatReadsNoAnswersIsDisconnected) {
  run([&](Stranger& stranger) {
    const auto stream = stranger.connect();
    ASSERT_NE(stream, nullptr);
    std::string pings;
    for (int i = 0; i < 8192; ++i) pings += frame(PingBody{});
    const auto deadline = Clock::now() + milliseconds(kPatienceMs);
    std::string why;
    size_t sent = 0;
    while (stream->progress(&why) == StreamState::kOpen) {
      ASSERT_LT(Clock::now(), deadline);
      // Continues in the middle of a frame if the last call ended there.
      const size_t skip = sent % sizeof(Head);
      const iovec piece = {pings.data() + skip, pings.size() - skip};
      sent += stream->send({&piece, 1});
    }
    EXPECT_GT(sent, 16U << 20) << why;
  });
}

// The payload of a large message, for a path that was opened correctly.
TEST_F(HostileTest, APeerThatSendsUnrequestedDataIsDisconnected) {
  run([&](Stranger& stranger) {
    const auto stream = stranger.connect();
    ASSERT_NE(stream, nullptr);
    send_all(*stream, frame(way_to(stranger.victim(), 5)));
    const auto opened = receive_body<WayOpenedBody>(*stream);
    ASSERT_EQ(opened.answer, 0U);
    send_all(*stream, frame(PartBody{5}, std::string(100, 'x')));
    wait_for_end(*stream);
  });
}

// A large one has no payload with it, like one of a kind without data.
TEST_F(HostileTest, AMessageOfAnUnknownKindEndsItsConnection) {
  run([&](Stranger& stranger) {
    for (const int kind : {0, 3, 5, 255}) {
      SCOPED_TRACE(kind);
      const auto stream = stranger.connect();
      ASSERT_NE(stream, nullptr);
      send_all(*stream, frame(way_to(stranger.victim(), 5)));
      ASSERT_EQ(receive_body<WayOpenedBody>(*stream).answer, 0U);
      const MessageBody large = {5, 2U << 20, 0, static_cast<uint8_t>(kind), urma::kByReference,
                                 {}};
      send_all(*stream, frame(large) + frame(PingBody{}));
      char byte;
      const iovec piece = {&byte, 1};
      std::string why;
      while (stream->progress(&why) == StreamState::kOpen) {
        ASSERT_EQ(stream->receive({&piece, 1}), 0U) << "it is answered";
      }
    }
  });
}

}  // namespace
}  // namespace urma_test
