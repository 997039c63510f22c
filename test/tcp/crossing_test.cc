// SPDX-License-Identifier: MIT
//
// Two processes with two addresses each that connect to each other at once: which of their streams
// stay.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/owned.h"
#include "test/process/sanitized.h"
#include "test/tcp/networks.h"
#include "test/tcp/stranger.h"
#include "urma/base/own_fd.h"
#include "urma/providers/tcp/greeting.h"

namespace urma_test {
namespace {

using namespace urma::tcp;  // NOLINT: what it speaks

// All connect from the first one: the routes of the host choose it.
const urma_eid_t kOne = eid("127.0.0.1"), kOther = eid("127.0.0.2");

class CrossingTest : public ProcessTest {
 protected:
  void SetUp() override {
    SKIP_UNLESS_ALLOWED(network_.allowed());
    ip("addr add 127.0.0.2/8 dev lo");
  }

 private:
  const Network network_;
};

// Asks the owner of a segment, and waits for no answer.
void ask(Channel& channel) {
  OwnedEndpoint endpoint;
  const auto owner = channel.receive<Address>();
  endpoint.import(SegmentId{owner.eid, 4096, 64, uint32_t{owner.port} << 16, kNoToken});
  channel.sync();
}

// A process that has started a stream to a carrier of the test, and asks it.
class Asker {
 public:
  explicit Asker(uint8_t number, const Body& body = ask)
      : carrier(carrier_numbered(number, kOne)), child_("asks", body) {
    child_.channel().send(Address{kOne, carrier->port()});
    stream = next_open(*carrier);
    expect_frame<HelloBody>(*stream);
  }
  void expect_success() {
    child_.channel().sync();
    child_.expect_success();
  }
  uint16_t port() const { return stream->peer().listens_at.port; }
  // One that the carrier starts, and keeps.
  std::unique_ptr<Stream> connect(const urma_eid_t& at) const {
    std::string why;
    auto started = carrier->connect(kOne, {at, port()}, &why);
    EXPECT_EQ(finish_greeting(*started, &why), StreamState::kOpen) << why;
    send_all(*started, frame(HelloBody{}));
    return started;
  }

  const std::unique_ptr<Carrier> carrier;
  std::unique_ptr<Stream> stream;

 private:
  Child child_;
};

// The one to which something has come.
const Stream* first_to_speak(const Stream& a, const Stream& b) {
  std::array<pollfd, 2> both = {{{a.fd(), POLLIN, 0}, {b.fd(), POLLIN, 0}}};
  EXPECT_GE(::poll(both.data(), both.size(), kPatienceMs), 1);
  return both[0].revents != 0 ? &a : &b;
}

// The peer sees another address there, and cannot know that it leads to the same process.
TEST_F(CrossingTest, AStreamToAnotherAddressIsAnswered) {
  Asker asker(kLeast);
  refuse(*asker.stream);
  const auto other = asker.connect(kOther);
  ASSERT_EQ(first_to_speak(*asker.stream, *other), other.get()) << "it expects this one to end";
  expect_frame<HelloBody>(*other);

  const auto crossing = asker.connect(kOne);
  ASSERT_EQ(first_to_speak(*asker.stream, *crossing), asker.stream.get());
  expect_frame<PingBody>(*asker.stream);
  asker.expect_success();
}

// Its peer has kept one to another address, and may already use the one that awaits an answer.
TEST_F(CrossingTest, AStreamThatAwaitsItsAnswerOutlivesThoseToOtherAddresses) {
  Asker asker(kGreatest);
  const auto other = asker.connect(kOther);
  expect_frame<HelloBody>(*other);
  send_all(*asker.stream, frame(HelloBody{}));
  EXPECT_EQ(refuse(*asker.stream) >> 16, asker.carrier->port());
  asker.expect_success();
}

TEST_F(CrossingTest, AStreamThatAwaitsItsAnswerEndsForOneOfTheSameAddresses) {
  Asker asker(kGreatest);
  const auto other = asker.connect(kOther);
  expect_frame<HelloBody>(*other);
  const auto crossing = asker.connect(kOne);
  EXPECT_EQ(refuse(*crossing) >> 16, asker.carrier->port());
  expect_frame<HelloBody>(*crossing);
  wait_for_end(*asker.stream);
  asker.expect_success();
}

// A process that has another address, and claims to be that of `asker`'s carrier.
urma::OwnFd claim(const Asker& asker) {
  urma::OwnFd fd(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const SocketAddress from({kOther, 0}), to({kOne, asker.port()});
  EXPECT_EQ(::bind(fd.get(), from.get(), from.size()), 0);
  EXPECT_EQ(::connect(fd.get(), to.get(), to.size()), 0);
  Hello hello = {};
  hello.magic = kGreetingMagic;
  hello.version = kGreetingVersion;
  hello.port = asker.carrier->port();
  hello.called = asker.port();
  hello.process = asker.carrier->process();
  hello.from = kOther;
  hello.to = kOne;
  const std::string bytes(reinterpret_cast<const char*>(&hello), sizeof(hello));
  const std::string all = bytes + frame(HelloBody{});
  EXPECT_EQ(::send(fd.get(), all.data(), all.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(all.size()));
  return fd;
}

// It is answered as a process of its own.
TEST_F(CrossingTest, AStrangerDoesNotTakeTheStreamOfAProcessThatItClaimsToBe) {
  Asker asker(kGreatest);
  const urma::OwnFd stranger = claim(asker);
  const std::string hello = frame(HelloBody{});
  std::string answer(sizeof(Hello) + hello.size(), '\0');
  ASSERT_EQ(::recv(stranger.get(), answer.data(), answer.size(), MSG_WAITALL),
            static_cast<ssize_t>(answer.size()));
  EXPECT_EQ(answer.substr(sizeof(Hello)), hello);
  send_all(*asker.stream, hello);
  EXPECT_EQ(refuse(*asker.stream) >> 16, asker.carrier->port());
  EXPECT_EQ(::recv(stranger.get(), answer.data(), answer.size(), MSG_DONTWAIT), -1);
  asker.expect_success();
}

// Requests that wait for it do not end with the time that they have.
TEST_F(CrossingTest, AStreamWithoutAnAnswerIsUsed) {
  Asker asker(kGreatest, [](Channel& channel) {
    ::setenv("URMA_TCP_TIMEOUT_MS", "8000", 1);
    ask(channel);
  });
  urma::tcp::wait_for(asker.stream->fd(), POLLIN);
  if (HasFatalFailure()) return;
  EXPECT_EQ(refuse(*asker.stream) >> 16, asker.carrier->port());
  asker.expect_success();
}

// A queue that receives one message, at an address of its own.
class Receiver {
 public:
  explicit Receiver(uint32_t eid_index) : ctx_(urma_create_context(find_device(), eid_index)) {
    urma_sge_t place = piece(segment_, memory_.data(), memory_.size());
    urma_jfr_wr_t receive = {};
    receive.src = {&place, 1};
    urma_jfr_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jfr_wr(jfr_, &receive, &bad), URMA_SUCCESS);
  }
  QueueId id() const { return {ctx_->eid, jfr_->jfr_id.id, kNoToken, false}; }
  void expect_message() { wait_for_success(jfc_, 0); }

 private:
  static urma_target_seg_t* add(urma_context_t* ctx, std::vector<char>& memory) {
    urma_seg_cfg_t cfg = seg_config(memory.data(), memory.size(), kAllAccess);
    return urma_register_seg(ctx, &cfg);
  }
  static urma_jfc_t* make_jfc(urma_context_t* ctx) {
    urma_jfc_cfg_t cfg = jfc_config(8);
    return urma_create_jfc(ctx, &cfg);
  }
  static urma_jfr_t* make_jfr(urma_context_t* ctx, urma_jfc_t* jfc) {
    urma_jfr_cfg_t cfg = jfr_config(jfc, 8);
    return urma_create_jfr(ctx, &cfg);
  }

  std::vector<char> memory_ = std::vector<char>(64);
  const OwnedContext ctx_;
  const OwnedSegment segment_ = add(ctx_, memory_);
  const OwnedJfc jfc_ = make_jfc(ctx_);
  const OwnedJfr jfr_ = make_jfr(ctx_, jfc_);
};

// Each sends to both addresses of the other, from its first one.
void meet(Channel& channel) {
  std::vector<char> memory(64);
  Config config;
  config.jetty = false;
  OwnedEndpoint endpoint(config);
  std::array<Receiver, 2> receivers = {Receiver(0), Receiver(1)};
  const auto theirs = channel.swap(std::array{receivers[0].id(), receivers[1].id()});
  urma_sge_t from = piece(endpoint.add(memory.data(), memory.size()), memory.data(), 8);
  channel.sync();
  for (uint64_t i = 0; i < theirs.size(); ++i) {
    endpoint.post(send_request(endpoint.import(theirs[i]), &from, i));
  }
  for (size_t i = 0; i < theirs.size(); ++i) {
    EXPECT_EQ(wait_for(endpoint.send_jfc).status, URMA_CR_SUCCESS);
  }
  for (Receiver& receiver : receivers) receiver.expect_message();
  channel.sync();
}

TEST_F(CrossingTest, TwoProcessesReachEachOtherAtAllAddresses) {
  constexpr int kRounds = repetitions(10);
  for (int round = 0; round < kRounds; ++round) run_two("one", meet, "other", meet);
}

}  // namespace
}  // namespace urma_test
