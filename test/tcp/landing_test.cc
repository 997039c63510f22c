// SPDX-License-Identifier: MIT
//
// Payloads go from the stream to memory of the process: in pieces of any size, into memory that
// ends meanwhile, and from peers that stop in the middle.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <optional>
#include <string>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tcp/stranger.h"

namespace urma_test {
namespace {

using namespace urma::tcp;  // NOLINT: what it speaks

constexpr size_t kSize = 256 << 10;

enum class Command : char { kUnregister, kDiscard, kEnd };

// Serves memory, in which the test looks.
void owner(Channel& channel, char* memory) {
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(memory, kSize);
  channel.send(offer_of(endpoint, segment));
  for (;;) {
    switch (channel.receive<Command>()) {
      case Command::kUnregister:
        endpoint.remove(segment);
        ::memset(memory, 'u', kSize);
        channel.send('u');
        break;
      case Command::kDiscard:
        ASSERT_EQ(::mmap(memory + kSize / 2, kSize / 2, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                  memory + kSize / 2);
        channel.send('d');
        break;
      case Command::kEnd:
        return;
    }
  }
}

std::string pattern(size_t bytes) {
  std::string all(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) all[i] = static_cast<char>(i * 7 + i / 251);
  return all;
}

char* shared_memory() {
  return static_cast<char*>(
      ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

class LandingTest : public ProcessTest {
 protected:
  LandingTest()
      : memory_(shared_memory()),
        owner_("owner", [this](Channel& channel) { owner(channel, memory_); }) {
    offer_ = owner_.channel().receive<Offer>();
    stranger_.emplace(offer_.queue);
  }
  ~LandingTest() override {
    owner_.channel().send(Command::kEnd);
    owner_.expect_success();
    ::munmap(memory_, kSize);
  }

  // A connection that may write there.
  std::unique_ptr<Stream> admitted() {
    auto stream = stranger_->connect();
    AskGrantBody asked = {};
    asked.ticket = 3;
    asked.token_id = offer_.segment.token_id;
    asked.token = offer_.segment.token;
    asked.access = URMA_ACCESS_WRITE;
    asked.eid = offer_.segment.eid;
    asked.va = offer_.segment.va;
    asked.len = kSize;
    send_all(*stream, frame(asked));
    const auto answer = receive_body<AnswerBody>(*stream);
    EXPECT_EQ(answer.answer, 0U);
    ref_ = answer.ref;
    return stream;
  }
  std::string write_to(size_t offset, const std::string& bytes) const {
    return frame(AccessBody{ref_, offer_.segment.va + offset, static_cast<uint32_t>(bytes.size()),
                            URMA_OPC_WRITE, static_cast<uint8_t>(urma::OpKind::kWrite), 0},
                 bytes);
  }
  static void expect_done(Stream& stream, uint32_t status) {
    const auto done = receive_body<DoneBody>(stream);
    EXPECT_EQ(done.count, 1U);
    EXPECT_EQ(done.status, status);
  }
  std::string memory() const { return {memory_, kSize}; }
  void command(Command command) {
    owner_.channel().send(command);
    owner_.channel().receive<char>();
  }
  char* const memory_;
  Child owner_;
  Offer offer_;
  std::optional<Stranger> stranger_;
  urma::SegmentRef ref_ = {};
};

TEST_F(LandingTest, PiecesOfAnySize) {
  const auto stream = admitted();
  const std::string bytes = pattern(40'003);
  for (const size_t size : {1UL, 31UL, 4099UL, 65'536UL}) {
    for (size_t offset = 0; offset < 8; ++offset) {
      std::memset(memory_, 0, kSize);
      const std::string all = write_to(offset, bytes);
      for (size_t at = 0; at < all.size(); at += size) {
        send_all(*stream, std::string_view(all).substr(at, size));
      }
      expect_done(*stream, URMA_CR_SUCCESS);
      const std::string now = memory();
      EXPECT_EQ(now.substr(offset, bytes.size()), bytes) << size << ", " << offset;
      EXPECT_EQ(now[offset + bytes.size()], '\0');
    }
  }
}

TEST_F(LandingTest, UnregisteringWaitsForNoPeer) {
  const auto stream = admitted();
  const std::string all = write_to(0, pattern(kSize));
  send_all(*stream, std::string_view(all).substr(0, all.size() / 2));
  command(Command::kUnregister);
  send_all(*stream, std::string_view(all).substr(all.size() / 2));
  // Besides the answer, the news that the registration has ended.
  const auto ended = receive_body<EndedBody>(*stream);
  EXPECT_EQ(ended.ref.index, ref_.index);
  expect_done(*stream, URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(memory(), std::string(kSize, 'u'));
  // The stream goes on where the payload ends.
  send_all(*stream, frame(PingBody{}));
  EXPECT_EQ(receive(*stream, sizeof(Head)).size(), sizeof(Head));
}

TEST_F(LandingTest, WhatIsRefusedIsDiscardedAndAnswered) {
  const auto stream = admitted();
  const std::string bytes = pattern(100'000);
  const std::string all = write_to(kSize - 50'000, bytes) + write_to(8, bytes);
  const auto other = stranger_->connect();
  // Also if what comes first would have had its place, and is there some time before the rest.
  for (const size_t first : {10'000UL, 300UL, 40'000UL, all.size()}) {
    send_all(*stream, std::string_view(all).substr(0, first));
    send_all(*other, frame(PingBody{}));
    EXPECT_EQ(receive(*other, sizeof(Head)).size(), sizeof(Head));
    send_all(*stream, std::string_view(all).substr(first));
    expect_done(*stream, URMA_CR_REM_ACCESS_ABORT_ERR);
    expect_done(*stream, URMA_CR_SUCCESS);
    const std::string now = memory();
    EXPECT_TRUE(now.substr(8, bytes.size()) == bytes) << first;
    EXPECT_TRUE(now.substr(kSize - 50'000) == std::string(50'000, '\0')) << first;
  }
}

// All but the last word would have had its place.
TEST_F(LandingTest, AWriteThatIsTooLongByOneByteChangesNothing) {
  const auto stream = admitted();
  const std::string bytes = pattern(100'000);
  for (int i = 0; i < 2; ++i) {
    send_all(*stream, write_to(kSize - bytes.size() + 1, bytes));
    expect_done(*stream, URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_TRUE(memory() == std::string(kSize, '\0'));
  }
}

TEST_F(LandingTest, PagesThatHaveGoneFailOnlyTheRequest) {
  const auto stream = admitted();
  const std::string bytes = pattern(100'000);
  command(Command::kDiscard);
  send_all(*stream,
           write_to(kSize / 2 - 50'000, bytes) + write_to(kSize / 2, bytes) + write_to(8, bytes));
  expect_done(*stream, URMA_CR_REM_ACCESS_ABORT_ERR);
  expect_done(*stream, URMA_CR_REM_ACCESS_ABORT_ERR);
  expect_done(*stream, URMA_CR_SUCCESS);
}

// A packet may lie on both sides of where the memory ends.
TEST_F(LandingTest, PagesThatGoBehindOthersHoldUpNothing) {
  const auto stream = admitted();
  const std::string bytes = pattern(100'000);
  command(Command::kDiscard);
  for (const size_t backed : {100UL, 4096UL, 50'001UL}) {
    // Behind the first one, the next payload does not come through a buffer.
    send_all(*stream, write_to(8, bytes) + write_to(kSize / 2 - backed, bytes) + frame(PingBody{}));
    expect_done(*stream, URMA_CR_SUCCESS);
    expect_done(*stream, URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_EQ(receive(*stream, sizeof(Head)).size(), sizeof(Head));
  }
}

TEST_F(LandingTest, APeerThatEndsOrStopsHoldsOnlyItsConnection) {
  const std::string bytes = pattern(100'000);
  auto stops = admitted();
  const std::string half = write_to(0, bytes).substr(0, 50'000);
  send_all(*stops, half);
  auto ends = admitted();
  send_all(*ends, half);
  ends.reset();
  const auto stream = admitted();
  send_all(*stream, write_to(128 << 10, bytes));
  expect_done(*stream, URMA_CR_SUCCESS);
  EXPECT_EQ(memory().substr(128 << 10, bytes.size()), bytes);
  command(Command::kUnregister);
}

// The memory of requests in flight ends while the target takes nothing.
void ends_memory(Channel& channel, bool by_queue) {
  constexpr size_t kWrites = 16;
  OwnedEndpoint endpoint;
  const std::string bytes = pattern(kSize);
  char* memory = shared_memory();
  std::memcpy(memory, bytes.data(), kSize);
  urma_target_seg_t* segment = endpoint.add(memory, kSize);
  const auto offer = channel.receive<Offer>();
  urma_target_jetty_t* queue = endpoint.import(offer.queue);
  urma_target_seg_t* theirs = endpoint.import(offer.segment);
  urma_sge_t local = piece(segment, memory, kSize);
  urma_sge_t remote = piece(theirs, offer.segment.va, kSize);
  const auto read_and_write = [&](uint64_t i) {
    endpoint.post(write_request(queue, &local, &remote, i));
    endpoint.post(read_request(queue, &local, &remote, i));
  };
  read_and_write(kWrites);
  wait_for_success(endpoint.send_jfc, kWrites);
  wait_for_success(endpoint.send_jfc, kWrites);
  channel.sync();
  for (size_t i = 0; i < kWrites; ++i) read_and_write(i);
  if (by_queue) {
    endpoint.close_queues();
  } else {
    endpoint.remove(segment);
  }
  ::munmap(memory, kSize);
  channel.sync();
  if (by_queue) return endpoint.open_queues();
  for (size_t i = 0; i < 2 * kWrites; ++i) {
    const urma_cr_t record = wait_for(endpoint.send_jfc);
    EXPECT_TRUE(record.status == URMA_CR_SUCCESS || record.status == URMA_CR_LOC_ACCESS_ERR)
        << record.status;
  }
}

class EndingMemoryTest : public LandingTest, public ::testing::WithParamInterface<bool> {};

TEST_P(EndingMemoryTest, WhatIsInFlightArrivesOrFails) {
  Child writer("writer", [](Channel& channel) { ends_memory(channel, GetParam()); });
  writer.channel().send(offer_);
  writer.channel().sync();
  owner_.stop();
  writer.channel().sync();
  ASSERT_EQ(::kill(owner_.pid(), SIGCONT), 0);
  writer.expect_success();
  // The owner reads on to the end of the stream.
  command(Command::kUnregister);
}
INSTANTIATE_TEST_SUITE_P(By, EndingMemoryTest, ::testing::Bool());

}  // namespace
}  // namespace urma_test
