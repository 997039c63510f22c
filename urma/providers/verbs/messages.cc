// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/messages.h"

#include <cstring>

namespace urma::verbs {
namespace {

constexpr uint32_t kMagic = 0x56524d55;  // "UMRV"
constexpr uint16_t kVersion = 4;
constexpr size_t kChecksumAt = 8;
constexpr size_t kHeaderBytes = 64;

constexpr uint8_t kReplyTypes = 0x80;  // and the index of the body
constexpr uint8_t kChallengeType = 0xff;

constexpr uint32_t k24Bits = 0xffffff;
constexpr uint32_t kAllAccess =
    URMA_ACCESS_LOCAL_ONLY | URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78 : 0);
    table[i] = value;
  }
  return table;
}

// CRC-32C of the datagram, with the checksum itself taken as 0.
uint32_t checksum(std::span<const uint8_t> bytes) {
  static constexpr auto kTable = make_crc_table();
  uint32_t crc = ~0U;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool own = i >= kChecksumAt && i < kChecksumAt + sizeof(crc);
    crc = crc >> 8 ^ kTable[(crc ^ (own ? 0 : bytes[i])) & 0xff];
  }
  return ~crc;
}

// Writer and Reader use the same description of the fields.
class Writer {
 public:
  explicit Writer(std::span<uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  void number(T& value, uint64_t /*min*/ = 0, uint64_t /*max*/ = ~0ULL) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_[at_++] = static_cast<uint8_t>(static_cast<uint64_t>(value) >> 8 * i);
    }
  }
  void eid(urma_eid_t& eid) {
    std::memcpy(&bytes_[at_], eid.raw, sizeof(eid.raw));
    at_ += sizeof(eid.raw);
  }
  void require(bool /*right*/) {}

 private:
  std::span<uint8_t> bytes_;
  size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  void number(T& value, uint64_t min = 0, uint64_t max = ~0ULL) {
    uint64_t read = 0;
    for (size_t i = 0; i < sizeof(T); ++i) read |= static_cast<uint64_t>(bytes_[at_++]) << 8 * i;
    require(read >= min && read <= max);
    if (right_) value = static_cast<T>(read);
  }
  void eid(urma_eid_t& eid) {
    std::memcpy(eid.raw, &bytes_[at_], sizeof(eid.raw));
    at_ += sizeof(eid.raw);
  }
  void require(bool right) { right_ = right_ && right; }

  // Whether every check passed, and only zeroes follow.
  bool finished() const {
    for (const uint8_t byte : bytes_.subspan(at_)) {
      if (byte != 0) return false;
    }
    return right_;
  }
  bool right() const { return right_; }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  bool right_ = true;
};

template <typename Archive, typename Enum>
void choice(Archive& archive, Enum& value, Enum first, Enum last) {
  uint8_t number = static_cast<uint8_t>(value);
  archive.number(number, static_cast<uint8_t>(first), static_cast<uint8_t>(last));
  value = static_cast<Enum>(number);
}

void flag(auto& archive, bool& value) {
  uint8_t number = value ? 1 : 0;
  archive.number(number, 0, 1);
  value = number != 0;
}

void fields(auto& archive, QueueName& name) {
  archive.eid(name.eid);
  archive.number(name.uasid, 0, k24Bits);
  archive.number(name.id, 1);
  flag(archive, name.is_jetty);
}

void fields(auto& archive, LinkEnd& end) {
  archive.eid(end.gid);
  archive.number(end.qpn, 0, k24Bits);
  archive.number(end.psn, 0, k24Bits);
  archive.number(end.lid);
  choice(archive, end.link_layer, LinkLayer::kRoce, LinkLayer::kIwarp);
  archive.number(end.mtu, 0, IBV_MTU_4096);
  // Datagrams need no end at the sender, and a queue that is not bound yet has none.
  archive.require(end.mtu != 0 || end.qpn == 0);
  archive.number(end.rd_atomic);
  // With 0, a READ would wait in the device indefinitely.
  archive.require(end.rd_atomic != 0 || end.qpn == 0);
}

void fields(auto& archive, ProbeTarget& target) {
  archive.eid(target.eid);
  archive.number(target.id, 1);
  archive.number(target.type, URMA_JFR, URMA_JETTY_GROUP);
  archive.number(target.trans_mode);
  archive.require(target.trans_mode == URMA_TM_RM || target.trans_mode == URMA_TM_RC ||
                  target.trans_mode == URMA_TM_UM);
  archive.number(target.token);
}

void fields(auto& archive, ConnectRequest& request) {
  archive.number(request.connection, 1);
  fields(archive, request.source);
  fields(archive, request.end);
  fields(archive, request.target);
  archive.number(request.hint);
  flag(archive, request.one_sided);
}

void fields(auto& archive, ConnectReply& reply) {
  fields(archive, reply.end);
  archive.number(reply.mailbox.address);
  archive.number(reply.mailbox.rkey);
  archive.number(reply.mailbox.slots);
  archive.number(reply.member_id, 1);
  archive.number(reply.members, 0, URMA_MAX_JETTY_IN_JETTY_GRP);
  archive.number(reply.qkey);
  archive.number(reply.cm_port);
}

void fields(auto& archive, DisconnectRequest& request) {
  archive.number(request.connection, 1);
  flag(archive, request.by_initiator);
  choice(archive, request.reason, DisconnectReason::kClosed, DisconnectReason::kUnbound);
  archive.number(request.received);
  archive.require(request.received == 0 || !request.by_initiator);
}

void fields(auto& archive, DisconnectReply& reply) { archive.number(reply.received); }

void fields(auto& archive, SegmentRequest& request) {
  archive.eid(request.eid);
  archive.number(request.va);
  archive.number(request.len);
  archive.require(request.len <= ~request.va);
  archive.number(request.token_id, 1);
  archive.number(request.token);
}

void fields(auto& archive, SegmentReply& reply) {
  archive.number(reply.base);
  archive.number(reply.len);
  archive.require(reply.len <= ~reply.base);
  archive.number(reply.ref.index);
  archive.number(reply.ref.generation);
  archive.number(reply.rkey);
  archive.number(reply.access, 0, kAllAccess);
}

void fields(auto& archive, FaultRequest& request) { archive.number(request.connection, 1); }

void fields(auto& archive, FaultReply& reply) { flag(archive, reply.too_long); }

void fields(auto& archive, ProbeRequest& request) { fields(archive, request.target); }

void fields(auto& archive, LocateRequest& request) {
  archive.eid(request.eid);
  choice(archive, request.kind, IdKind::kJfr, IdKind::kGroup);
  archive.number(request.id, 1, kMaxChosenId);
}

void fields(auto& archive, LocateReply& reply) { archive.number(reply.port, 1); }

void fields(auto& /*archive*/, PingRequest& /*request*/) {}
void fields(auto& /*archive*/, std::monostate& /*nothing*/) {}
void fields(auto& /*archive*/, Challenge& /*challenge*/) {}

void fields(auto& archive, Header& header) {
  archive.number(header.sender, 1);
  archive.number(header.receiver);
  archive.number(header.ticket.number);
  archive.number(header.ticket.seal);
  archive.number(header.transaction, 1);
  archive.number(header.oldest);
}

// What precedes the header proper.
struct Prefix {
  uint32_t magic = kMagic;
  uint16_t version = kVersion;
  uint8_t type = 0;
  Answer answer = Answer::kAccepted;
  uint32_t checksum = 0;
  uint32_t reserved = 0;
};

void fields(auto& archive, Prefix& prefix) {
  archive.number(prefix.magic);
  archive.number(prefix.version);
  archive.number(prefix.type, 1);
  choice(archive, prefix.answer, Answer::kAccepted, Answer::kOtherDevice);
  archive.number(prefix.checksum);
  archive.number(prefix.reserved, 0, 0);
}

static_assert(kHeaderBytes == 16 + sizeof(Header));

// The version is the last byte.
constexpr uint64_t kTicketMagic = 0x01'4d'43'41'4d'52'55;  // "URMACM", 1
constexpr uint32_t kRefusalMagic = 0x01'4d'43'55;          // "UCM", 1

void fields(auto& archive, CmTicket& ticket) {
  uint64_t magic = kTicketMagic;
  archive.number(magic, kTicketMagic, kTicketMagic);
  archive.number(ticket.caller);
  archive.number(ticket.owner);
  archive.number(ticket.connection);
  archive.number(ticket.caller_mark);
  archive.number(ticket.owner_mark);
}

// A refusal.
void fields(auto& archive, Answer& answer) {
  uint32_t magic = kRefusalMagic;
  archive.number(magic, kRefusalMagic, kRefusalMagic);
  archive.number(answer, static_cast<uint64_t>(Answer::kAccepted) + 1,
                 static_cast<uint64_t>(Answer::kUnreachable) - 1);
}

template <size_t kBytes, typename Body>
std::array<uint8_t, kBytes> encode_data(Body body) {
  std::array<uint8_t, kBytes> bytes = {};
  Writer writer(bytes);
  fields(writer, body);
  return bytes;
}

template <size_t kBytes, typename Body>
std::optional<Body> decode_data(std::span<const uint8_t> bytes) {
  if (bytes.size() < kBytes) return std::nullopt;
  Reader reader(bytes);
  Body body = {};
  fields(reader, body);
  return reader.finished() ? std::optional(body) : std::nullopt;
}

// The variant with its alternative number `index`, default constructed; false if there is none.
template <typename Variant, size_t I = 0>
bool choose(size_t index, Variant* variant) {
  if constexpr (I == std::variant_size_v<Variant>) {
    return false;
  } else {
    if (index != I) return choose<Variant, I + 1>(index, variant);
    variant->template emplace<I>();
    return true;
  }
}

bool right_header(const Header& header, bool is_request, bool is_challenge) {
  if (is_request) return header.oldest != 0 && header.oldest <= header.transaction;
  const bool has_ticket = header.ticket.number != 0;
  const bool has_seal = header.ticket.seal != 0;
  return header.receiver != 0 && header.oldest == 0 && has_ticket == is_challenge &&
         (is_challenge || !has_seal);
}

// The empty body that the type stands for.
bool body_of_type(const Prefix& prefix, ControlMessage* message) {
  if (prefix.type == kChallengeType) {
    message->body = Challenge();
    return prefix.answer == Answer::kAccepted;
  }
  if (prefix.type < kReplyTypes) {
    Request request;
    if (!choose(size_t{prefix.type} - 1, &request)) return false;
    message->body = request;
    return prefix.answer == Answer::kAccepted;
  }
  Reply reply;
  reply.answer = prefix.answer;
  if (!choose(size_t{prefix.type} - kReplyTypes, &reply.body)) return false;
  message->body = reply;
  return prefix.answer == Answer::kAccepted || reply.body.index() == 0;
}

uint8_t type_of(const ControlMessage& message) {
  if (const auto* request = std::get_if<Request>(&message.body)) {
    return static_cast<uint8_t>(request->index() + 1);
  }
  if (const auto* reply = std::get_if<Reply>(&message.body)) {
    return static_cast<uint8_t>(kReplyTypes + reply->body.index());
  }
  return kChallengeType;
}

void body_fields(auto& archive, ControlMessage& message) {
  const auto visit = [&](auto& alternative) { fields(archive, alternative); };
  if (auto* request = std::get_if<Request>(&message.body)) {
    std::visit(visit, *request);
  } else if (auto* reply = std::get_if<Reply>(&message.body)) {
    std::visit(visit, reply->body);
  }
}

}  // namespace

DatagramBytes encode(const ControlMessage& message) {
  DatagramBytes bytes = {};
  Writer writer(bytes);
  ControlMessage copy = message;
  Prefix prefix;
  prefix.type = type_of(message);
  if (const auto* reply = std::get_if<Reply>(&message.body)) prefix.answer = reply->answer;
  fields(writer, prefix);
  fields(writer, copy.header);
  body_fields(writer, copy);
  uint32_t sum = checksum(bytes);
  Writer(std::span(bytes).subspan(kChecksumAt)).number(sum);
  return bytes;
}

Decoded decode(std::span<const uint8_t> bytes, ControlMessage* message) {
  if (bytes.size() < kHeaderBytes) return Decoded::kMalformed;
  Reader reader(bytes);
  Prefix prefix;
  fields(reader, prefix);
  if (prefix.magic != kMagic) return Decoded::kMalformed;
  if (prefix.version != kVersion) return Decoded::kOtherVersion;
  if (bytes.size() != kDatagramBytes || prefix.checksum != checksum(bytes)) {
    return Decoded::kMalformed;
  }
  fields(reader, message->header);
  if (!reader.right() || !body_of_type(prefix, message)) return Decoded::kMalformed;
  body_fields(reader, *message);
  const bool is_request = std::holds_alternative<Request>(message->body);
  const bool is_challenge = std::holds_alternative<Challenge>(message->body);
  if (!reader.finished() || !right_header(message->header, is_request, is_challenge)) {
    return Decoded::kMalformed;
  }
  return Decoded::kMessage;
}

std::optional<Returned> decode_returned(std::span<const uint8_t> beginning) {
  if (beginning.size() < kHeaderBytes) return std::nullopt;
  Reader reader(beginning.first(kHeaderBytes));
  Prefix prefix;
  Header header = {};
  fields(reader, prefix);
  fields(reader, header);
  if (!reader.finished() || prefix.magic != kMagic || prefix.version != kVersion ||
      prefix.type >= kReplyTypes) {
    return std::nullopt;
  }
  return Returned{header.sender, header.transaction};
}

std::array<uint8_t, kCmTicketBytes> encode_ticket(const CmTicket& ticket) {
  return encode_data<kCmTicketBytes>(ticket);
}

std::optional<CmTicket> decode_ticket(std::span<const uint8_t> bytes) {
  return decode_data<kCmTicketBytes, CmTicket>(bytes);
}

std::array<uint8_t, kCmRefusalBytes> encode_refusal(Answer answer) {
  return encode_data<kCmRefusalBytes>(answer);
}

std::optional<Answer> decode_refusal(std::span<const uint8_t> bytes) {
  return decode_data<kCmRefusalBytes, Answer>(bytes);
}

}  // namespace urma::verbs
