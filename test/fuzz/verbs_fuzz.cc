// SPDX-License-Identifier: MIT
//
// The network input of the control of a verbs context: datagrams of peers and strangers, valid,
// changed, or replayed from others; and the data exchanged when iWARP connections are made.
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "test/fuzz/bytes.h"
#include "test/verbs/control_party.h"

namespace urma::verbs {
namespace {

using urma_fuzz::Bytes;
using urma_fuzz::require;

// Computed as by the sender of a datagram: no one needs to guess a checksum.
void seal(DatagramBytes* bytes) {
  constexpr size_t kAt = 8;
  uint32_t crc = ~0U;
  for (size_t i = 0; i < bytes->size(); ++i) {
    uint32_t value = (crc ^ (i >= kAt && i < kAt + sizeof(crc) ? 0 : (*bytes)[i])) & 0xff;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0x82f63b78 : 0);
    crc = crc >> 8 ^ value;
  }
  crc = ~crc;
  std::memcpy(bytes->data() + kAt, &crc, sizeof(crc));
}

void decode_all(std::span<const uint8_t> given) {
  ControlMessage message;
  DatagramBytes bytes = {};
  std::copy_n(given.begin(), std::min(given.size(), bytes.size()), bytes.begin());
  seal(&bytes);
  if (decode(bytes, &message) == Decoded::kMessage) {
    require(encode(message) == bytes, "encoding a decoded message gives the same bytes");
  }
  static_cast<void>(decode(given, &message));
  static_cast<void>(decode_returned(given));
  if (const auto ticket = decode_ticket(given); ticket.has_value()) {
    const auto again = decode_ticket(encode_ticket(*ticket));
    require(again.has_value() && *again == *ticket, "a ticket round-trips");
  }
  static_cast<void>(decode_refusal(given));
}

// One of each kind, with values from the input.
ControlMessage message_of(Bytes* in, const std::vector<urma_eid_t>& eids) {
  const auto eid = [&] { return eids[in->below(static_cast<uint32_t>(eids.size()))]; };
  const auto number = [&] { return in->take<uint32_t>(); };
  ControlMessage message;
  switch (in->below(11)) {
    case 0: {
      ConnectRequest connect = connect_request(number(), eid(), eid());
      connect.target.id = number();
      message.body = Request(connect);
      break;
    }
    case 1:
      message.body = Request(DisconnectRequest{
          number(), in->chance(128), static_cast<DisconnectReason>(in->below(6)), in->below(3)});
      break;
    case 2:
      message.body = Request(SegmentRequest{eid(), number(), number(), number(), in->below(3)});
      break;
    case 3:
      message.body = Request(FaultRequest{number()});
      break;
    case 4:
      message.body = Request(ProbeRequest{{eid(), number(), in->below(3), in->below(5), number()}});
      break;
    case 5:
      message.body = Request(LocateRequest{eid(), static_cast<IdKind>(in->below(4)), number()});
      break;
    case 6:
      message.body = Request(PingRequest{});
      break;
    case 7:
      message.body = Challenge{};
      break;
    case 8:
      message.body = Reply{Answer::kAccepted, DisconnectReply{number()}};
      break;
    case 9:
      message.body = Reply{Answer::kAccepted, LocateReply{in->take<uint16_t>()}};
      break;
    default:
      message.body = Reply{static_cast<Answer>(in->below(16)), {}};
  }
  return message;
}

// Two honest contexts, and an attacker that hears everything and sends anything as anyone.
class Wire {
 public:
  Wire() {
    network_.tap = [this](const auto& from, const auto& to, std::span<const uint8_t> bytes) {
      if (heard_.size() == kMostHeard) heard_.erase(heard_.begin());
      heard_.push_back({from, to, {bytes.begin(), bytes.end()}});
    };
  }

  void step(Bytes* in) {
    switch (in->below(5)) {
      case 0:
        return ask(in);
      case 1:
        return service_.run_for(in->take<uint16_t>() * (kMs / 4));
      case 2:
        return replay(in);
      case 3:
        return forge(in);
      default:
        in->chance(128) ? parties_[0].control->watch(parties_[1].ref())
                        : parties_[0].control->unwatch(parties_[1].ref());
    }
  }
  // Each request has ended by then, once.
  void finish() {
    service_.run_for(10 * kSecond);
    for (const int answers : answers_) require(answers == 1, "a request is answered once");
  }

 private:
  static constexpr size_t kMostHeard = 64;
  struct Heard {
    NetAddress from, to;
    std::vector<uint8_t> bytes;
  };

  Party& party(Bytes* in) { return parties_[in->below(2)]; }
  NetAddress somebody(Bytes* in) {
    const uint32_t who = in->below(4);
    if (who < 2) return parties_[who].address();
    const Party& near = parties_[who - 2];
    return address_of(who == 2 ? near.eid : eid_of(3), LinkLayer::kRoce, in->take<uint16_t>());
  }
  void ask(Bytes* in) {
    if (answers_.size() == kMostHeard) return;
    Party& from = party(in);
    const Party& to = party(in);
    const size_t number = answers_.size();
    answers_.push_back(0);
    const ProbeRequest probe = {{to.eid, to.id(), URMA_JFR, URMA_TM_RM, 0}};
    const auto count = [this, number](const Reply&, const PeerRef&) { ++answers_[number]; };
    if (in->chance(128)) {
      from.control->request(to.eid, IdKind::kJfr, in->chance(128) ? to.id() : 5, probe, kSecond,
                            count);
    } else {
      from.control->request(to.eid, IdKind::kJfr, to.id(),
                            connect_request(number + 1, from.eid, to.eid), kSecond, count);
    }
  }
  // A recorded datagram, to anyone, with some bytes changed.
  void replay(Bytes* in) {
    if (heard_.empty()) return;
    Heard again = heard_[in->below(static_cast<uint32_t>(heard_.size()))];
    for (uint32_t changes = in->below(4); changes > 0; --changes) {
      again.bytes[in->below(static_cast<uint32_t>(again.bytes.size()))] = in->take<uint8_t>();
    }
    if (in->chance(192) && again.bytes.size() == kDatagramBytes) {
      DatagramBytes bytes;
      std::copy_n(again.bytes.begin(), bytes.size(), bytes.begin());
      seal(&bytes);
      again.bytes.assign(bytes.begin(), bytes.end());
    }
    if (in->chance(32)) again.bytes.resize(in->below(kDatagramBytes + 2));
    const NetAddress from = in->chance(128) ? again.from : somebody(in);
    network_.inject(from, in->chance(128) ? again.to : somebody(in), again.bytes);
  }
  // A whole message, with the names and tickets that were heard last.
  void forge(Bytes* in) {
    ControlMessage message = message_of(in, {parties_[0].eid, parties_[1].eid, eid_of(3)});
    ControlMessage last;
    if (!heard_.empty() && decode(heard_.back().bytes, &last) == Decoded::kMessage) {
      message.header = last.header;
    }
    if (in->chance(128)) message.header.sender = party(in).nonce;
    if (in->chance(64)) message.header.receiver = party(in).nonce;
    if (in->chance(64)) message.header.transaction = in->take<uint8_t>();
    if (in->chance(64)) message.header.oldest = in->take<uint8_t>();
    if (in->chance(64)) message.header.ticket = {in->take<uint8_t>(), in->take<uint64_t>()};
    network_.inject(somebody(in), party(in).address(), encode(message));
  }

  FakeService service_;
  LossyNetwork network_{&service_, 1};
  std::array<Party, 2> parties_ = {Party(&service_, &network_, 1, 11),
                                   Party(&service_, &network_, 2, 22)};
  std::vector<Heard> heard_;
  std::vector<int> answers_;
};

}  // namespace
}  // namespace urma::verbs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  urma_fuzz::Bytes in(data, size);
  if (in.chance(64)) {
    urma::verbs::decode_all(in.rest());
    return 0;
  }
  urma::verbs::Wire wire;
  while (!in.empty()) wire.step(&in);
  wire.finish();
  return 0;
}
