// SPDX-License-Identifier: MIT
//
// Requests that wait for a peer which nobody answers for, or whose stream ends: they end together.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/log_lines.h"
#include "test/tcp/stranger.h"
#include "urma/base/own_fd.h"
#include "urma/providers/tcp/address.h"

namespace urma_test {
namespace {

using namespace urma::tcp;  // NOLINT: what it speaks
using urma::OwnFd;

using LostPeerTest = ProcessTest;

constexpr uint32_t kPortsOfBlock = 8;
constexpr uint32_t kMessages = kWayMessages + 100;  // more than may be in flight
constexpr size_t kSize = 64;
constexpr uint64_t kRounds = 10;
constexpr int kOn = 1;

uint16_t port_of(uint32_t id, uint32_t index) {
  return static_cast<uint16_t>(kFirstPort + (id + 977 * index) % kPorts);
}

// A carrier that listens wherever the owner of an id may; *id: the first one whose ports are free.
std::unique_ptr<Carrier> carrier_for(uint32_t* id, const urma_eid_t& eid) {
  auto carrier = make_socket_carrier(config_at({eid}));
  uint32_t listening = 0;
  for (*id = 100 * kBlock; listening < kPortsOfBlock; *id += listening == 0 ? kBlock : 0) {
    listening = carrier->listen_also(port_of(*id, listening)) ? listening + 1 : 0;
  }
  return carrier;
}

// All streams that were started to it, also those that have ended.
uint32_t count_streams(Carrier& carrier) {
  std::vector<std::unique_ptr<Stream>> streams;
  while (auto stream = carrier.accept()) streams.push_back(std::move(stream));
  return static_cast<uint32_t>(streams.size());
}

// A process that sends to a queue of the carrier's.
struct Party {
  explicit Party(Channel& channel) : endpoint(config()), memory(kSize) {
    segment = endpoint.add(memory.data(), kSize);
    QueueId theirs = endpoint.queue_id();
    channel.send(theirs.eid);
    theirs.id = channel.receive<uint32_t>();
    lost = endpoint.import(theirs);
  }
  static Config config() {
    Config config;
    config.send_depth = kMessages;
    return config;
  }
  void send(urma_target_jetty_t* queue, uint64_t user_ctx) {
    urma_sge_t local = piece(segment, memory.data(), kSize);
    endpoint.post(send_request(queue, &local, user_ctx));
  }
  void expect(uint64_t user_ctx, urma_cr_status_t status) {
    const urma_cr_t ended = wait_for(endpoint.send_jfc);
    EXPECT_EQ(ended.user_ctx, user_ctx);
    EXPECT_EQ(ended.status, status);
  }

  Endpoint endpoint;
  std::vector<char> memory;
  urma_target_seg_t* segment = nullptr;
  urma_target_jetty_t* lost = nullptr;
  const Closing closing{endpoint};
};

// The kernel takes their streams, and nobody greets them. Each request that asked anew would start
// one more; one search may ask at two ports before its time is over. Those to a peer that answers
// are on the same queue.
TEST_F(LostPeerTest, RequestsEndWithTheSearchThatTheyWaitFor) {
  Child child("sends", [](Channel& channel) {
    // Long enough to reach itself on a busy machine.
    ::setenv("URMA_TCP_TIMEOUT_MS", "3000", 1);
    Party party(channel);
    urma_target_jetty_t* self = party.endpoint.import(party.endpoint.queue_id());
    urma_target_seg_t* own = party.endpoint.import(party.endpoint.segment_id(party.segment));
    for (uint64_t i = 0; i < kRounds; ++i) {
      party.endpoint.post_receive(party.segment, party.memory.data(), kSize, i);
      party.send(party.lost, 3 * i);
      urma_sge_t local = piece(party.segment, party.memory.data(), kSize);
      urma_sge_t remote = piece(own, own->seg.ubva.va, kSize);
      party.endpoint.post(write_imm_request(party.lost, &local, &remote, 7, 3 * i + 1));
      party.send(self, 3 * i + 2);
    }
    for (uint64_t i = 0; i < kRounds; ++i) {
      party.expect(3 * i, URMA_CR_ACK_TIMEOUT_ERR);
      party.expect(3 * i + 1, URMA_CR_ACK_TIMEOUT_ERR);
      party.expect(3 * i + 2, URMA_CR_SUCCESS);
    }
    channel.sync();
  });
  uint32_t id = 0;
  const auto carrier = carrier_for(&id, child.channel().receive<urma_eid_t>());
  child.channel().send(id);
  child.channel().sync();
  EXPECT_LE(count_streams(*carrier), 2U);
  child.expect_success();
}

// Agrees to keep the stream.
void agree(Stream& stream) {
  expect_frame<HelloBody>(stream);
  send_all(stream, frame(HelloBody{}));
}

// Opens a way to the queue that is asked for. Returns its number.
uint32_t open_way(Stream& stream) {
  const auto asked = receive_body<FindBody>(stream);
  AnswerBody found = {};
  found.ticket = asked.ticket;
  send_all(stream, frame(found));
  const auto opening = receive_body<OpenWayBody>(stream);
  send_all(stream, frame(WayOpenedBody{opening.way, 0, 0}));
  return opening.way;
}

// By a way of its own.
void receive_one(Stream& stream) {
  const uint32_t way = open_way(stream);
  receive_body<MessageBody>(stream);
  send_all(stream, frame(ReceivedBody{way, 1, 0}));
}

// Those in flight, and those that wait for their turn. The next one finds the peer again.
TEST_F(LostPeerTest, RequestsEndWithTheStreamThatTheyWaitFor) {
  Child child("sends", [](Channel& channel) {
    Party party(channel);
    for (uint64_t i = 0; i < kMessages; ++i) party.send(party.lost, i);
    channel.sync();  // and the stream ends
    for (uint64_t i = 0; i < kMessages; ++i) party.expect(i, URMA_CR_ACK_TIMEOUT_ERR);
    channel.sync();  // and no stream was started meanwhile
    channel.sync();
    party.send(party.lost, kMessages);
    party.expect(kMessages, URMA_CR_SUCCESS);
    channel.sync();
  });
  uint32_t id = 0;
  const auto carrier = carrier_for(&id, child.channel().receive<urma_eid_t>());
  child.channel().send(id);
  auto stream = next_open(*carrier);
  agree(*stream);
  open_way(*stream);
  // If none was in flight, the others would look for the peer anew.
  receive_body<MessageBody>(*stream);
  child.channel().sync();
  stream.reset();
  child.channel().sync();
  EXPECT_EQ(count_streams(*carrier), 0U);
  child.channel().sync();

  stream = next_open(*carrier);
  agree(*stream);
  receive_one(*stream);
  child.channel().sync();
  child.expect_success();
}

// That one does not wait for the answer; the one behind it finds the process.
TEST_F(LostPeerTest, ARequestLooksForTheNextProcessInThePlaceOfASilentOne) {
  Child child("sends", [](Channel& channel) {
    ::setenv("URMA_TCP_TIMEOUT_MS", "4000", 1);
    Party party(channel);
    party.send(party.lost, 0);
    party.expect(0, URMA_CR_ACK_TIMEOUT_ERR);
    channel.sync();
    party.send(party.lost, 1);
    // On a busy machine the peer may count as silent no longer.
    const bool found = wait_for(party.endpoint.send_jfc).status == URMA_CR_SUCCESS;
    channel.receive<char>();
    if (!found) party.send(party.lost, 2);
    if (!found) party.expect(2, URMA_CR_SUCCESS);
    channel.sync();
  });
  const auto eid = child.channel().receive<urma_eid_t>();
  uint32_t id = 0;
  auto carrier = carrier_for(&id, eid);
  child.channel().send(id);
  auto stream = next_open(*carrier);
  agree(*stream);
  open_way(*stream);
  receive_body<MessageBody>(*stream);
  wait_for_end(*stream);
  carrier.reset();
  carrier = make_socket_carrier(config_at({eid}));
  ASSERT_TRUE(carrier->listen_also(port_of(id, 0)));
  child.channel().sync();
  urma::tcp::wait_for(carrier->fd(), POLLIN);
  if (HasFatalFailure()) return;
  stream = next_open(*carrier);
  agree(*stream);
  child.channel().send('o');
  receive_one(*stream);
  child.channel().sync();
  child.expect_success();
}

// The cause is here, and the peer's log cannot tell it.
TEST_F(LostPeerTest, AProcessWithoutDescriptorsSaysSo) {
  Child child("sends", [](Channel& channel) {
    Party party(channel);
    const LogLines lines;
    rlimit files = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
    const rlimit none = {0, files.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    party.send(party.lost, 1);
    party.expect(1, URMA_CR_ACK_TIMEOUT_ERR);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
    EXPECT_GE(lines.count({"cannot be reached: ", "Too many open files"}), 1U) << lines.all();
    channel.sync();
  });
  uint32_t id = 0;
  const auto carrier = carrier_for(&id, child.channel().receive<urma_eid_t>());
  child.channel().send(id);
  child.channel().sync();
  child.expect_success();
}

// Listens there, and takes the only stream that it has room for.
void fill(uint16_t port, const urma_eid_t& eid, std::vector<OwnFd>* sockets) {
  const SocketAddress at({eid, port});
  for (const bool listens : {true, false}) {
    OwnFd fd(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof(kOn));
    const auto call = listens ? ::bind : ::connect;
    ASSERT_EQ(call(fd.get(), at.get(), at.size()), 0);
    ASSERT_EQ(listens ? ::listen(fd.get(), 0) : 0, 0);
    sockets->push_back(std::move(fd));
  }
}

// As of a host that has vanished: the queue of each port is full, and the kernel takes no stream.
TEST_F(LostPeerTest, RequestsToASilentHostEndAtOnceForAMoment) {
  static constexpr milliseconds kTimeout{1000};
  Child child("sends", [](Channel& channel) {
    ::setenv("URMA_TCP_TIMEOUT_MS", "1000", 1);
    Party party(channel);
    // On a busy machine the moment may be over before the next request is posted.
    bool at_once = false;
    for (uint64_t i = 0; i < kRounds && !at_once; ++i) {
      const auto posted = Clock::now();
      party.send(party.lost, i);
      party.expect(i, URMA_CR_ACK_TIMEOUT_ERR);
      at_once = Clock::now() - posted < kTimeout / 4;
    }
    EXPECT_TRUE(at_once);
    channel.sync();
  });
  const auto eid = child.channel().receive<urma_eid_t>();
  uint32_t id = 0;
  ASSERT_NE(carrier_for(&id, eid), nullptr);
  std::vector<OwnFd> sockets;
  for (uint32_t i = 0; i < kPortsOfBlock; ++i) fill(port_of(id, i), eid, &sockets);
  child.channel().send(id);
  child.channel().sync();
  child.expect_success();
}

}  // namespace
}  // namespace urma_test
