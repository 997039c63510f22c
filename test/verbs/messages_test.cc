// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/messages.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "test/verbs/control_party.h"
#include "urma/providers/verbs/control_ticket.h"

namespace urma::verbs {
namespace {

std::vector<ControlMessage> all_messages() {
  const urma_eid_t eid = eid_of(1);
  const Header asking = {1, 2, {3, 4}, 9, 8};
  const Header answering = {1, 2, {}, 9, 0};
  ConnectReply connected = {};
  connected.end.mtu = IBV_MTU_4096;
  connected.member_id = 70000;
  connected.mailbox = {~0ULL, 5, 64};
  return {
      {asking, connect_request(~0ULL, eid, eid_of(2))},
      {asking, DisconnectRequest{1, true, DisconnectReason::kFailed, 0}},
      {asking, SegmentRequest{eid, ~0ULL - 5, 5, 1, 2}},
      {asking, FaultRequest{~0ULL}},
      {asking, ProbeRequest{{eid, 1, URMA_JETTY_GROUP, URMA_TM_UM, 5}}},
      {asking, LocateRequest{eid, IdKind::kGroup, kMaxChosenId}},
      {asking, PingRequest{}},
      {asking, DisconnectRequest{1, false, DisconnectReason::kUnbound, ~0ULL}},
      {answering, Reply{Answer::kAccepted, {}}},
      {answering, Reply{Answer::kMisaligned, {}}},
      {answering, Reply{Answer::kOtherDevice, {}}},
      {answering, Reply{Answer::kAccepted, connected}},
      {answering, Reply{Answer::kAccepted, SegmentReply{1, ~1ULL, {1, 2}, 3, 0xf}}},
      {answering, Reply{Answer::kAccepted, LocateReply{65535}}},
      {answering, Reply{Answer::kAccepted, FaultReply{true}}},
      {answering, Reply{Answer::kAccepted, DisconnectReply{~0ULL}}},
      {{1, 2, {3, 4}, 9, 0}, Challenge{}},
  };
}

TEST(Messages, RoundTrip) {
  for (const ControlMessage& message : all_messages()) {
    const DatagramBytes bytes = encode(message);
    ControlMessage decoded;
    ASSERT_EQ(decode(bytes, &decoded), Decoded::kMessage) << message.body.index();
    EXPECT_EQ(decoded.body.index(), message.body.index());
    EXPECT_EQ(encode(decoded), bytes);  // every field is in the bytes
  }
}

TEST(Messages, EachChangedBitAndLengthIsDetected) {
  for (const ControlMessage& message : all_messages()) {
    const DatagramBytes bytes = encode(message);
    ControlMessage decoded;
    for (size_t bit = 0; bit < kDatagramBytes * 8; ++bit) {
      DatagramBytes changed = bytes;
      changed[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      EXPECT_NE(decode(changed, &decoded), Decoded::kMessage) << bit;
    }
    std::vector<uint8_t> other_length(bytes.begin(), bytes.end());
    other_length.push_back(0);
    EXPECT_NE(decode(other_length, &decoded), Decoded::kMessage);
    for (size_t length = 0; length < kDatagramBytes; ++length) {
      EXPECT_NE(decode(std::span(bytes).first(length), &decoded), Decoded::kMessage);
    }
  }
}

// With a valid checksum, which anyone can compute.
TEST(Messages, ValuesOutOfRangeAreRefused) {
  const auto refused = [](const ControlMessage& message) {
    ControlMessage decoded;
    return decode(encode(message), &decoded) == Decoded::kMalformed;
  };
  const auto all = all_messages();
  const auto changed = [&](size_t index, const auto& change) {
    ControlMessage message = all[index];
    change(message);
    return message;
  };
  const auto connect = [&](const auto& change) {
    return changed(0, [&](ControlMessage& message) {
      change(std::get<ConnectRequest>(std::get<Request>(message.body)));
    });
  };
  EXPECT_TRUE(refused(connect([](ConnectRequest& c) { c.connection = 0; })));
  EXPECT_TRUE(refused(connect([](ConnectRequest& c) { c.source.uasid = 1 << 24; })));
  EXPECT_TRUE(refused(connect([](ConnectRequest& c) { c.source.id = 0; })));
  EXPECT_TRUE(refused(connect([](ConnectRequest& c) { c.end.qpn = 1 << 24; })));
  EXPECT_TRUE(refused(connect([](ConnectRequest& c) { c.end.psn = 1 << 24; })));
  EXPECT_TRUE(refused(connect([](ConnectRequest& c) { c.end.mtu = 6; })));
  EXPECT_TRUE(refused(connect([](ConnectRequest& c) { c.end.qpn = 1, c.end.mtu = 0; })));
  EXPECT_TRUE(refused(connect([](ConnectRequest& c) { c.end.qpn = 1, c.end.rd_atomic = 0; })));
  EXPECT_FALSE(refused(connect([](ConnectRequest& c) { c.end.qpn = c.end.rd_atomic = 1; })));
  EXPECT_TRUE(refused(connect([](ConnectRequest& c) { c.end.link_layer = LinkLayer{3}; })));
  EXPECT_TRUE(refused(connect([](ConnectRequest& c) { c.target.type = 3; })));
  EXPECT_TRUE(refused(connect([](ConnectRequest& c) { c.target.trans_mode = 3; })));
  const Header& header = all[0].header;
  EXPECT_TRUE(refused({header, DisconnectRequest{1, true, DisconnectReason{4}, 0}}));
  EXPECT_TRUE(refused({header, DisconnectRequest{1, true, DisconnectReason::kClosed, 1}}));
  EXPECT_TRUE(refused({header, SegmentRequest{{}, ~0ULL, 1, 1, 2}}));
  EXPECT_TRUE(refused({header, FaultRequest{0}}));
  EXPECT_TRUE(refused({header, LocateRequest{{}, IdKind::kToken, 1}}));
  EXPECT_TRUE(refused({header, LocateRequest{{}, IdKind::kJfr, kMaxChosenId + 1}}));
  EXPECT_TRUE(refused({{0, 2, {}, 9, 8}, PingRequest()}));
  EXPECT_TRUE(refused({{1, 2, {}, 0, 0}, PingRequest()}));
  EXPECT_TRUE(refused({{1, 2, {}, 9, 10}, PingRequest()}));
  EXPECT_TRUE(refused({{1, 2, {}, 9, 0}, PingRequest()}));
  EXPECT_TRUE(refused({{1, 0, {}, 9, 0}, Reply{Answer::kAccepted, {}}}));
  EXPECT_TRUE(refused({{1, 2, {1, 1}, 9, 0}, Reply{Answer::kAccepted, {}}}));
  EXPECT_TRUE(refused({{1, 2, {}, 9, 1}, Reply{Answer::kAccepted, {}}}));
  EXPECT_TRUE(refused({{1, 2, {}, 9, 0}, Reply{Answer::kUnreachable, {}}}));
  EXPECT_TRUE(refused({{1, 2, {}, 9, 0}, Reply{Answer::kNoAccess, FaultReply{true}}}));
  EXPECT_TRUE(refused({{1, 2, {}, 9, 0}, Reply{Answer::kAccepted, LocateReply{0}}}));
  ConnectReply many = {};
  many.member_id = 1;
  many.members = URMA_MAX_JETTY_IN_JETTY_GRP;
  EXPECT_FALSE(refused({{1, 2, {}, 9, 0}, Reply{Answer::kAccepted, many}}));
  ++many.members;
  EXPECT_TRUE(refused({{1, 2, {}, 9, 0}, Reply{Answer::kAccepted, many}}));
  EXPECT_TRUE(refused({{1, 2, {0, 1}, 9, 0}, Challenge()}));
}

TEST(Messages, ReturnedRequestsAreKnown) {
  for (const ControlMessage& message : all_messages()) {
    const DatagramBytes bytes = encode(message);
    const auto returned = decode_returned(std::span(bytes).first(64));
    ASSERT_EQ(returned.has_value(), std::holds_alternative<Request>(message.body));
    if (returned.has_value()) {
      EXPECT_EQ(returned->sender, message.header.sender);
      EXPECT_EQ(returned->transaction, message.header.transaction);
    }
    EXPECT_FALSE(decode_returned(std::span(bytes).first(63)).has_value());
  }
}

TEST(Messages, GarbageIsDecodedWithoutHarm) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    DatagramBytes bytes = encode(all_messages()[random() % all_messages().size()]);
    for (uint64_t changes = random() % 4; changes > 0; --changes) {
      bytes[random() % 20] = static_cast<uint8_t>(random());
    }
    ControlMessage message;
    decode(bytes, &message);
    decode_returned(bytes);
  }
}

TEST(CmData, TicketsRoundTrip) {
  const CmTicket ticket = {~uint64_t{0} - 1, 2, 3, 4, ~uint32_t{0} - 5};
  const auto bytes = encode_ticket(ticket);
  EXPECT_EQ(decode_ticket(bytes), ticket);
  std::vector<uint8_t> more(bytes.begin(), bytes.end());
  more.resize(196);
  EXPECT_EQ(decode_ticket(more), ticket);
  more.back() = 1;
  EXPECT_FALSE(decode_ticket(more).has_value());
  EXPECT_FALSE(decode_ticket(std::span(bytes).first(bytes.size() - 1)).has_value());
  for (size_t i = 0; i < 8; ++i) {
    auto other = bytes;
    other[i] ^= 1;
    EXPECT_FALSE(decode_ticket(other).has_value()) << i;
  }
}

TEST(CmData, RefusalsRoundTrip) {
  const auto bytes = encode_refusal(Answer::kNoResources);
  EXPECT_EQ(decode_refusal(bytes), Answer::kNoResources);
  EXPECT_FALSE(decode_refusal(std::span(bytes).first(7)).has_value());
  EXPECT_FALSE(decode_refusal({}).has_value());
  for (const Answer none : {Answer::kAccepted, Answer::kUnreachable, static_cast<Answer>(99)}) {
    EXPECT_FALSE(decode_refusal(encode_refusal(none)).has_value());
  }
}

TEST(Tickets, KeyedHashIsSipHash) {
  // The first and the last vector of the authors' reference.
  const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  uint8_t bytes[15];
  for (uint8_t i = 0; i < sizeof(bytes); ++i) bytes[i] = i;
  EXPECT_EQ(keyed_hash(key, {}), 0x726fdb47dd0e0e31U);
  EXPECT_EQ(keyed_hash(key, bytes), 0xa129ca6149be45e5U);
}

TEST(Tickets, HoldForOneAddressAndNonce) {
  TicketOffice office({1, 2}), other({1, 3});
  const NetAddress address = address_of(eid_of(1), LinkLayer::kRoce, 7);
  const Ticket ticket = office.issue(address, 9);
  other.issue(address, 9);
  EXPECT_TRUE(office.valid(ticket, address, 9));
  EXPECT_FALSE(office.valid(ticket, address, 8));
  EXPECT_FALSE(office.valid(ticket, address_of(eid_of(1), LinkLayer::kRoce, 8), 9));
  EXPECT_FALSE(office.valid(ticket, address_of(eid_of(2), LinkLayer::kRoce, 7), 9));
  EXPECT_FALSE(office.valid({ticket.number + 1, ticket.seal}, address, 9));
  EXPECT_FALSE(office.valid(Ticket(), address, 9));
  EXPECT_FALSE(other.valid(ticket, address, 9));
  office.expire(ticket.number);
  EXPECT_FALSE(office.valid(ticket, address, 9));
}

TEST(Addresses, OnlyUnicastAddressesNameAHost) {
  const auto unicast = [](std::initializer_list<uint8_t> end, bool mapped) {
    NetAddress address = {};
    if (mapped) address.ip[10] = address.ip[11] = 0xff;
    std::copy(end.begin(), end.end(), address.ip + (mapped ? 12 : 0));
    return address.is_unicast();
  };
  EXPECT_TRUE(unicast({10, 0, 0, 1}, true));
  EXPECT_FALSE(unicast({0, 0, 0, 0}, true));
  EXPECT_FALSE(unicast({224, 0, 0, 1}, true));
  EXPECT_FALSE(unicast({255, 255, 255, 255}, true));
  EXPECT_TRUE(unicast({0xfe, 0x80, 1}, false));
  EXPECT_FALSE(unicast({0xff, 0x02, 1}, false));
  EXPECT_FALSE(unicast({}, false));
}

TEST(Addresses, InfinibandGidsMapToIpoibAddresses) {
  urma_eid_t gid = {};
  gid.raw[0] = 0xfe;
  gid.raw[1] = 0xc0;  // another subnet prefix than the link-local one
  gid.raw[9] = 0x02;
  gid.raw[15] = 0x07;
  EXPECT_EQ(address_of(gid, LinkLayer::kInfiniband, 5).text(), "[fe80::202:0:0:7]:5");
  EXPECT_EQ(address_of(eid_of(1), LinkLayer::kIwarp, 5).text(), "10.0.0.1:5");
}

}  // namespace
}  // namespace urma::verbs
