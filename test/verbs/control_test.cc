// SPDX-License-Identifier: MIT
//
// Two contexts that talk over a network that loses, repeats and reorders.
#include "urma/providers/verbs/control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "test/process/sanitized.h"
#include "test/verbs/control_party.h"
#include "urma/base/id_blocks.h"
#include "urma/providers/verbs/asking.h"
#include "urma/providers/verbs/peer_watches.h"

namespace urma::verbs {
namespace {

struct Outcome {
  std::optional<Reply> reply;
  PeerRef owner = {};
  OnReply taker() {
    return [this](const Reply& given, const PeerRef& by) {
      EXPECT_FALSE(reply.has_value()) << "answered twice";
      reply = given;
      owner = by;
    };
  }
  bool is(Answer answer) const { return reply.has_value() && reply->answer == answer; }
};

class ControlTest : public testing::Test {
 protected:
  std::unique_ptr<Party> party(uint8_t host, uint64_t nonce) {
    return std::make_unique<Party>(&service_, &network_, host, nonce);
  }
  Outcome probe(Party& from, const Party& to, uint32_t id, uint64_t timeout_ns = kSecond) {
    Outcome outcome;
    const ProbeRequest request = {{to.eid, id, URMA_JFR, URMA_TM_RM, 0}};
    from.control->request(to.eid, IdKind::kJfr, id, request, timeout_ns, outcome.taker());
    service_.run_until([&] { return outcome.reply.has_value(); }, 2 * timeout_ns);
    return outcome;
  }

  FakeService service_;
  LossyNetwork network_{&service_, 1};
};

TEST_F(ControlTest, OneMessageIsEnoughWithoutLoss) {
  auto a = party(1, 11), b = party(2, 22);
  int sent = 0;
  network_.tap = [&](const auto&...) { ++sent; };
  const Outcome first = probe(*a, *b, b->id());
  EXPECT_TRUE(first.is(Answer::kAccepted));
  EXPECT_EQ(first.owner, b->ref());
  EXPECT_EQ(b->server.last_probed, b->id());
  EXPECT_EQ(sent, 4);  // with a challenge
  EXPECT_TRUE(probe(*a, *b, b->id()).is(Answer::kAccepted));
  EXPECT_EQ(sent, 6);
  EXPECT_EQ(service_.timers(), 0U);
}

TEST_F(ControlTest, APeerIsWatchedOnceATimerCouldBeSet) {
  auto a = party(1, 11), b = party(2, 22);
  const PeerRef peer = b->ref();
  service_.out_of_memory = true;
  EXPECT_THROW(a->control->watch(peer), std::bad_alloc);
  service_.out_of_memory = false;
  a->control->watch(peer);
  b->control.reset();
  service_.run_for(2 * kSecond);
  ASSERT_EQ(a->server.lost.size(), 1U);
  EXPECT_EQ(a->server.lost[0].first, peer);
}

struct Gone : PeerWatcher {
  void peer_gone(uint64_t target) override { targets.push_back(target); }
  std::vector<uint64_t> targets;
};

TEST_F(ControlTest, ALossBeforeTheOwnerIsFoundIsReported) {
  auto a = party(1, 11), b = party(2, 22), c = party(3, 33);
  Asking asking(kSecond);
  asking.start(a->control.get(), nullptr);
  PeerWatches watches(&service_, &asking);
  watches.start(a->control.get());
  Gone lost, other;
  watches.watch(&lost, IdKind::kJfr, b->eid, b->id(), 7);
  watches.watch(&other, IdKind::kJfr, c->eid, c->id(), 8);
  watches.take_for_lost(b->ref());
  EXPECT_TRUE(lost.targets.empty());
  service_.run_for(kSecond);
  EXPECT_EQ(lost.targets, std::vector<uint64_t>{7});
  EXPECT_TRUE(other.targets.empty());
  watches.stop();
  asking.stop();
}

TEST_F(ControlTest, RefusalsReachTheAsker) {
  auto a = party(1, 11), b = party(2, 22);
  Outcome wrong_token, failed, right;
  const uint32_t id = b->id();
  a->control->request(b->eid, IdKind::kToken, id, SegmentRequest{b->eid, 1, 2, id, 7}, kSecond,
                      wrong_token.taker());
  a->control->request(b->eid, IdKind::kToken, id, FaultRequest{7}, kSecond, failed.taker());
  a->control->request(b->eid, IdKind::kToken, id, SegmentRequest{b->eid, 1, 2, id, 1}, kSecond,
                      right.taker());
  service_.run_for(kSecond);
  EXPECT_TRUE(wrong_token.is(Answer::kWrongToken));
  EXPECT_TRUE(failed.is(Answer::kNoResources));
  ASSERT_TRUE(right.is(Answer::kAccepted));
  EXPECT_EQ(std::get<SegmentReply>(right.reply->body).rkey, 5U);
}

TEST_F(ControlTest, RequestInTheNameOfAnotherIsRefused) {
  auto a = party(1, 11), b = party(2, 22);
  Outcome outcome;
  a->control->request(b->eid, IdKind::kJfr, b->id(), connect_request(1, eid_of(3), b->eid), kSecond,
                      outcome.taker());
  service_.run_for(kSecond);
  EXPECT_TRUE(outcome.is(Answer::kMalformed));
  EXPECT_TRUE(b->server.connects.empty());
}

TEST_F(ControlTest, RequestForThirdAddressesIsRefused) {
  auto a = party(1, 11), b = party(2, 22);
  const auto refused = [&](const ConnectRequest& request) {
    Outcome outcome;
    a->control->request(b->eid, IdKind::kJfr, b->id(), request, kSecond, outcome.taker());
    service_.run_for(kSecond);
    return outcome.is(Answer::kMalformed);
  };
  ConnectRequest request = connect_request(1, a->eid, b->eid);
  request.end.gid = eid_of(3);
  EXPECT_TRUE(refused(request));
  // No queue has such an id.
  request.end.gid = a->eid;
  request.source.id = kMaxChosenId + 1;
  EXPECT_TRUE(refused(request));
  EXPECT_TRUE(b->server.connects.empty());
  request.source.id = kMaxChosenId;
  EXPECT_FALSE(refused(request));
  // Datagrams need no end at the sender.
  request.end = {};
  request.target.trans_mode = URMA_TM_UM;
  EXPECT_FALSE(refused(request));
}

TEST_F(ControlTest, TransactionNumbersRevealNothingOfOtherPeers) {
  auto a = party(1, 11), b = party(2, 22), c = party(3, 33);
  std::map<NetAddress, std::vector<uint64_t>> asked;
  network_.tap = [&](const NetAddress&, const NetAddress& to, std::span<const uint8_t> bytes) {
    ControlMessage message;
    if (decode(bytes, &message) == Decoded::kMessage) {
      asked[to].push_back(message.header.transaction);
    }
  };
  a->control->watch(b->ref());
  service_.run_for(kSecond);
  ASSERT_TRUE(probe(*a, *c, c->id()).is(Answer::kAccepted));
  ASSERT_TRUE(probe(*a, *b, b->id()).is(Answer::kAccepted));
  const auto& of_b = asked.at(b->address());
  EXPECT_TRUE(std::is_sorted(of_b.begin(), of_b.end()));
  const uint64_t of_c = asked.at(c->address()).front();
  const uint64_t apart = std::max(of_b.back(), of_c) - std::min(of_b.back(), of_c);
  EXPECT_GT(apart, uint64_t{1} << 32);
  a->control->unwatch(b->ref());
}

TEST_F(ControlTest, MissingPeerIsUnreachable) {
  auto a = party(1, 11), b = party(2, 22);
  const uint32_t id = b->id();
  b->control.reset();
  uint64_t before = service_.now_ns();
  EXPECT_TRUE(probe(*a, *b, id).is(Answer::kUnreachable));
  EXPECT_LT(service_.now_ns() - before, 5 * kMs);  // its host said so
  network_.chances.refusals = false;
  before = service_.now_ns();
  EXPECT_TRUE(probe(*a, *b, id).is(Answer::kUnreachable));
  EXPECT_EQ(service_.now_ns() - before, kSecond);
  EXPECT_TRUE(probe(*a, *b, 0).is(Answer::kNoSuchObject));
  EXPECT_EQ(service_.timers(), 0U);
}

TEST_F(ControlTest, CancelledRequestsAreNotAnswered) {
  auto a = party(1, 11), b = party(2, 22);
  Outcome by_id, by_name;
  const ProbeRequest request = {{b->eid, 5, URMA_JFR, URMA_TM_RM, 0}};
  const auto first =
      a->control->request(b->eid, IdKind::kJfr, b->id(), request, kSecond, by_id.taker());
  const auto second =
      a->control->request(b->eid, IdKind::kJfr, 5, request, kSecond, by_name.taker());
  a->control->cancel(first);
  a->control->cancel(second);
  a->control->cancel(second);
  service_.run_for(2 * kSecond);
  EXPECT_FALSE(by_id.reply.has_value() || by_name.reply.has_value());
}

// A request that was given up must not be executed by a late datagram.
TEST_F(ControlTest, GivenUpRequestIsNotExecutedAfterALaterOne) {
  auto a = party(1, 11), b = party(2, 22);
  ASSERT_TRUE(probe(*a, *b, b->id()).is(Answer::kAccepted));
  std::vector<uint8_t> late;
  network_.tap = [&](const auto&, const auto&, std::span<const uint8_t> bytes) {
    if (late.empty()) late.assign(bytes.begin(), bytes.end());
  };
  network_.chances.loss = 1;
  Outcome outcome;
  const auto call = a->control->request(
      b->eid, IdKind::kJfr, b->id(), connect_request(1, a->eid, b->eid), kSecond, outcome.taker());
  network_.chances.loss = 0;
  a->control->cancel(call);
  ASSERT_TRUE(probe(*a, *b, b->id()).is(Answer::kAccepted));
  network_.inject(a->address(), b->address(), late);
  service_.run_for(kSecond);
  EXPECT_TRUE(b->server.connects.empty());
}

void exchange(uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  FakeService service;
  LossyNetwork network(&service, seed);
  network.chances = {.loss = 0.3, .repeat = 0.3, .damage = 0.05, .jitter_ns = 60 * kMs};
  Party a(&service, &network, 1, 11), b(&service, &network, 2, 22);
  constexpr uint64_t kRequests = 100;  // more than the window holds
  std::map<uint64_t, Outcome> there, back;
  for (uint64_t i = 1; i <= kRequests; ++i) {
    a.control->request(b.eid, IdKind::kJfr, b.id(), connect_request(i, a.eid, b.eid), 60 * kSecond,
                       there[i].taker());
    b.control->request(a.eid, IdKind::kJfr, a.id(), connect_request(i, b.eid, a.eid), 60 * kSecond,
                       back[i].taker());
  }
  service.run_for(61 * kSecond);
  for (uint64_t i = 1; i <= kRequests; ++i) {
    ASSERT_TRUE(there[i].is(Answer::kAccepted)) << i;
    ASSERT_TRUE(back[i].is(Answer::kAccepted)) << i;
    EXPECT_EQ(std::get<ConnectReply>(there[i].reply->body).end.qpn, i * 3);
    EXPECT_EQ(b.server.connects.at({11, i}), 1);
    EXPECT_EQ(a.server.connects.at({22, i}), 1);
  }
  EXPECT_TRUE(a.server.lost.empty() && b.server.lost.empty());
}

constexpr uint64_t kSeeds = urma_test::repetitions(1000);

TEST(ControlSeeds, EachRequestIsExecutedOnceWhateverTheNetworkDoes) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    exchange(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// The asking side restarts on the same port while datagrams of its old life are in flight.
void restart(uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  FakeService service;
  LossyNetwork network(&service, seed);
  network.chances = {.loss = 0.3, .repeat = 0.5, .jitter_ns = 100 * kMs};
  auto a = std::make_unique<Party>(&service, &network, 1, 11);
  Party b(&service, &network, 2, 22);
  const uint16_t port = a->control->port();
  std::map<uint64_t, Outcome> first, second;
  for (uint64_t i = 1; i <= 20; ++i) {
    a->control->request(b.eid, IdKind::kJfr, b.id(), connect_request(i, a->eid, b.eid),
                        30 * kSecond, first[i].taker());
  }
  service.run_for(seed % 200 * kMs);
  const bool was_served = !b.server.connects.empty();
  a.reset();
  network.choose_port(port);
  a = std::make_unique<Party>(&service, &network, 1, 12);
  for (uint64_t i = 1; i <= 20; ++i) {
    a->control->request(b.eid, IdKind::kJfr, b.id(), connect_request(i, a->eid, b.eid),
                        30 * kSecond, second[i].taker());
  }
  service.run_for(31 * kSecond);
  for (uint64_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(second[i].is(Answer::kAccepted)) << i;
    EXPECT_EQ(b.server.connects.at({12, i}), 1);
  }
  for (const auto& [key, count] : b.server.connects) EXPECT_EQ(count, 1);
  // At most one end of the old one, none of the new one.
  EXPECT_LE(b.server.lost.size(), 1U);
  EXPECT_TRUE(!was_served || b.server.lost.size() == 1);
  for (const auto& [peer, loss] : b.server.lost) {
    EXPECT_EQ(peer.nonce, 11U);
    EXPECT_EQ(loss, PeerLoss::kRestarted);
  }
}

TEST(ControlSeeds, RestartedAskerEndsItsEarlierRequests) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    restart(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Datagrams have no end there that could break or learn about theirs.
TEST_F(ControlTest, OwnerOfADatagramTargetIsWatchedWhileInUse) {
  auto a = party(1, 11), b = party(2, 22);
  Asking asking(kSecond);
  asking.start(a->control.get(), /*server=*/nullptr);
  ConnectRequest request = connect_request(5, a->eid, b->eid);
  request.target.id = b->id();
  request.target.trans_mode = URMA_TM_UM;
  const auto connect = [&] {
    std::optional<ConnectAnswer> answer;
    asking.connect(nullptr, request, [&](const ConnectAnswer& given) { answer = given; });
    service_.run_until([&] { return answer.has_value(); }, kSecond);
    return answer.has_value() && answer->answer == Answer::kAccepted;
  };
  ASSERT_TRUE(connect());
  const PeerRef old = b->ref();
  EXPECT_EQ(asking.connections_to(old), (std::vector<uint64_t>{5}));
  b->control.reset();
  network_.choose_port(old.address.port);
  b = party(2, 23);
  service_.run_for(kSecond);
  ASSERT_EQ(a->server.lost.size(), 1U);
  EXPECT_EQ(a->server.lost[0], std::pair(old, PeerLoss::kRestarted));
  asking.disconnect(request, DisconnectReason::kClosed);
  ASSERT_TRUE(connect());
  EXPECT_EQ(asking.connections_to(old), std::vector<uint64_t>());
  EXPECT_EQ(asking.connections_to(b->ref()), (std::vector<uint64_t>{5}));
  asking.disconnect(request, DisconnectReason::kClosed);
  EXPECT_EQ(asking.connections_to(b->ref()), std::vector<uint64_t>());
  b->control.reset();
  service_.run_for(3 * kSecond);
  EXPECT_EQ(a->server.lost.size(), 1U);
  EXPECT_TRUE(b->server.disconnects.empty());
  asking.stop();
}

TEST_F(ControlTest, RestartedOwnerIsAskedAgain) {
  auto a = party(1, 11), b = party(2, 22);
  const uint32_t id = b->id();
  const PeerRef old = probe(*a, *b, id).owner;
  a->control->watch(old);
  b->control.reset();
  network_.choose_port(static_cast<uint16_t>(id >> 16));
  b = party(2, 23);
  const Outcome outcome = probe(*a, *b, id);
  EXPECT_TRUE(outcome.is(Answer::kAccepted));
  EXPECT_EQ(outcome.owner.nonce, 23U);
  Outcome to_the_old;
  a->control->request(old, DisconnectRequest{1, true, DisconnectReason::kClosed, 0}, kSecond,
                      to_the_old.taker());
  service_.run_for(kSecond);
  EXPECT_TRUE(to_the_old.is(Answer::kUnreachable));
  EXPECT_TRUE(b->server.disconnects.empty());
  ASSERT_EQ(a->server.lost.size(), 1U);
  EXPECT_EQ(a->server.lost[0], std::pair(old, PeerLoss::kRestarted));
}

TEST_F(ControlTest, LossOfAWatchedPeerIsReported) {
  auto a = party(1, 11), b = party(2, 22), c = party(3, 33);
  a->control->watch(b->ref());
  a->control->watch(c->ref());
  a->control->watch(c->ref());
  a->control->unwatch(c->ref());
  service_.run_for(60 * kSecond);
  EXPECT_TRUE(a->server.lost.empty());

  const PeerRef b_was = b->ref();
  b->control.reset();
  service_.run_for(201 * kMs);
  ASSERT_EQ(a->server.lost.size(), 1U);
  EXPECT_EQ(a->server.lost[0], std::pair(b_was, PeerLoss::kRefused));

  network_.silence(c->address());
  service_.run_for(900 * kMs);
  EXPECT_EQ(a->server.lost.size(), 1U);
  service_.run_for(500 * kMs);
  ASSERT_EQ(a->server.lost.size(), 2U);
  EXPECT_EQ(a->server.lost[1], std::pair(c->ref(), PeerLoss::kSilent));
  service_.run_for(kSecond);
  EXPECT_EQ(service_.timers(), 0U);
}

TEST_F(ControlTest, WatchEndsWithUnwatch) {
  auto a = party(1, 11), b = party(2, 22);
  a->control->watch(b->ref());
  a->control->unwatch(b->ref());
  b->control.reset();
  service_.run_for(5 * kSecond);
  EXPECT_TRUE(a->server.lost.empty());
}

TEST_F(ControlTest, SomeLossEndsNoPeer) {
  auto a = party(1, 11), b = party(2, 22);
  network_.chances.loss = 0.1;
  a->control->watch(b->ref());
  service_.run_for(20 * kSecond);
  EXPECT_TRUE(a->server.lost.empty());
}

TEST_F(ControlTest, ChosenIdsLeadToTheirOwner) {
  auto a = party(1, 11), b = party(2, 22), c = party(2, 23);
  // The same well-known ports, and the same id for another kind of queue.
  b->control->names().reserve(IdKind::kJfr, 0, 5);
  c->control->names().reserve(IdKind::kJfr, 0, 5 + 8192);
  c->control->names().reserve(IdKind::kJetty, 0, 5);
  EXPECT_EQ(probe(*a, *b, 5).owner, b->ref());
  EXPECT_EQ(probe(*a, *b, 5 + 8192).owner, c->ref());
  EXPECT_TRUE(probe(*a, *b, 6).is(Answer::kUnreachable));
  b->control->names().unreserve(IdKind::kJfr, 0, 5);
  EXPECT_TRUE(probe(*a, *b, 5).is(Answer::kUnreachable));
  EXPECT_EQ(probe(*a, *b, 5 + 8192).owner, c->ref());
}

TEST_F(ControlTest, ChosenIdIsTakenOnce) {
  auto b = party(2, 22), c = party(2, 23), other_eid = party(3, 33);
  b->control->names().reserve(IdKind::kJetty, 0, 5);
  const auto status_of_reserving = [](Party& party, uint32_t id) {
    try {
      party.control->names().reserve(IdKind::kJetty, 0, id);
      return 0;
    } catch (const Error& error) {
      return error.status();
    }
  };
  EXPECT_EQ(status_of_reserving(*c, 5), URMA_EEXIST);
  EXPECT_EQ(status_of_reserving(*b, 5), URMA_EEXIST);
  EXPECT_EQ(status_of_reserving(*other_eid, 5), 0);
  EXPECT_EQ(status_of_reserving(*c, 0), URMA_EINVAL);
  EXPECT_EQ(status_of_reserving(*c, 65536), URMA_EINVAL);
  b->control->names().unreserve(IdKind::kJetty, 0, 5);
  EXPECT_EQ(status_of_reserving(*c, 5), 0);
}

TEST_F(ControlTest, IdsOfABlockLeadToItsOwner) {
  auto a = party(1, 11), other_eid = party(3, 33);
  // As many as there can be of blocks that share their ports.
  std::vector<std::unique_ptr<Party>> owners;
  constexpr uint32_t kApart = 512;
  for (uint32_t i = 0; i < kPortsOfId; ++i) {
    owners.push_back(party(2, 100 + i));
    EXPECT_TRUE(owners.back()->control->names().claim(100 + kApart * i));
    EXPECT_FALSE(owners.front()->control->names().claim(100 + kApart * i));
  }
  EXPECT_TRUE(other_eid->control->names().claim(100));
  int sent = 0;
  network_.tap = [&](const auto&...) { ++sent; };
  for (uint32_t i = 0; i < kPortsOfId; ++i) {
    const uint32_t id = (100 + kApart * i) * kBlockIds + 3;
    EXPECT_EQ(probe(*a, *owners[i], id).owner, owners[i]->ref()) << i;
    EXPECT_TRUE(owners.front()->control->names().is_claimed(block_of(id)));
    if (i == 0) {
      EXPECT_LE(sent,
                3 + 4);  // two ports, one of which answers; then the request, with a challenge
    }
  }
  EXPECT_TRUE(probe(*a, *owners[0], 101 * kBlockIds).is(Answer::kUnreachable));
  owners[0]->control->names().release(100);
  EXPECT_FALSE(owners[1]->control->names().is_claimed(100));
  EXPECT_TRUE(probe(*a, *owners[0], 100 * kBlockIds).is(Answer::kUnreachable));
  EXPECT_TRUE(owners[1]->control->names().claim(100));
  EXPECT_EQ(probe(*a, *owners[1], 100 * kBlockIds).owner, owners[1]->ref());
}

TEST_F(ControlTest, ForeignSocketsAtWellKnownPorts) {
  auto a = party(1, 11), b = party(2, 22);
  std::vector<std::unique_ptr<DatagramSocket>> foreign;
  for (uint32_t i = 0; i < kPortsOfId - 1; ++i) {
    NetAddress address = b->address();
    address.port = port_of(kWellKnownPorts, 77, i);
    foreign.push_back(network_.open(address));
  }
  b->control->names().reserve(IdKind::kJfr, 0, 77);
  EXPECT_EQ(probe(*a, *b, 77).owner, b->ref());  // though seven stay silent
  auto c = party(2, 23);
  try {
    c->control->names().reserve(IdKind::kJfr, 0, 77 + 8192);
    FAIL() << "there is no port left";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), URMA_ENOMEM);
  }
  // The refusal used nothing.
  foreign.pop_back();
  c->control->names().reserve(IdKind::kJfr, 0, 77 + 8192);
  EXPECT_EQ(probe(*a, *b, 77 + 8192).owner, c->ref());
}

TEST_F(ControlTest, UnknownSendersGetNoMoreBytesThanTheySend) {
  auto a = party(1, 11), b = party(2, 22);
  std::vector<DatagramBytes> recorded;
  network_.tap = [&](const auto&, const auto&, std::span<const uint8_t> bytes) {
    DatagramBytes copy;
    ASSERT_EQ(bytes.size(), copy.size());
    std::copy(bytes.begin(), bytes.end(), copy.begin());
    recorded.push_back(copy);
  };
  ASSERT_TRUE(probe(*a, *b, b->id()).is(Answer::kAccepted));
  // What a sent, including the ticket, is useless at another address.
  const int probes = b->server.probes;
  const auto as_sent = recorded;
  size_t answers = 0;
  network_.tap = [&](const auto&...) { ++answers; };
  for (uint16_t port = 1; port <= 1000; ++port) {
    for (const auto& bytes : as_sent) {
      NetAddress stranger = address_of(eid_of(9), LinkLayer::kRoce, port);
      network_.inject(stranger, b->address(), bytes);
      std::fill(std::begin(stranger.ip), std::end(stranger.ip), 0xff);
      network_.inject(stranger, b->address(), bytes);
    }
  }
  service_.run_for(kSecond);
  EXPECT_EQ(b->server.probes, probes);
  EXPECT_EQ(answers, 2000U);  // a challenge to each of the two requests, no broadcast
  EXPECT_TRUE(b->server.lost.empty());
}

TEST_F(ControlTest, GarbageChangesNothing) {
  auto a = party(1, 11), b = party(2, 22);
  b->control->names().reserve(IdKind::kJfr, 0, 5);
  std::vector<std::vector<uint8_t>> corpus;
  network_.tap = [&](const auto&, const auto&, std::span<const uint8_t> bytes) {
    if (corpus.size() < 64) corpus.emplace_back(bytes.begin(), bytes.end());
  };
  ASSERT_TRUE(probe(*a, *b, 5).is(Answer::kAccepted));
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    auto bytes = corpus[random() % corpus.size()];
    for (uint64_t changes = random() % 8; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % 400);
    const bool to_b = random() % 2 == 0;
    NetAddress to = to_b ? b->address() : a->address();
    if (to_b && random() % 2 == 0) to.port = port_of(kWellKnownPorts, 5, 0);
    network_.inject(to_b ? a->address() : b->address(), to, bytes);
    if (i % 100 == 0) service_.run_for(kMs);
  }
  service_.run_for(kSecond);
  EXPECT_TRUE(a->server.lost.empty() && b->server.lost.empty());
  EXPECT_EQ(b->server.probes, 1);
  EXPECT_TRUE(probe(*a, *b, 5).is(Answer::kAccepted));
}

}  // namespace
}  // namespace urma::verbs
