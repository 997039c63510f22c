// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/cm_wire.h"

#include <algorithm>

namespace urma::verbs {
namespace {

// The version is the last byte.
constexpr uint64_t kTicketMagic = 0x01'4d'43'41'4d'52'55;  // "URMACM", 1
constexpr uint32_t kRefusalMagic = 0x01'4d'43'55;          // "UCM", 1

template <typename T>
void put(T value, uint8_t** to) {
  for (size_t i = 0; i < sizeof(T); ++i) *(*to)++ = static_cast<uint8_t>(value >> 8 * i);
}

template <typename T>
T take(const uint8_t** from) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(T{*(*from)++} << 8 * i);
  return value;
}

bool only_zeros(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

}  // namespace

std::array<uint8_t, kCmTicketBytes> encode_ticket(const CmTicket& ticket) {
  std::array<uint8_t, kCmTicketBytes> bytes = {};
  uint8_t* to = bytes.data();
  put(kTicketMagic, &to);
  put(ticket.caller, &to);
  put(ticket.owner, &to);
  put(ticket.connection, &to);
  put(ticket.caller_mark, &to);
  put(ticket.owner_mark, &to);
  return bytes;
}

std::optional<CmTicket> decode_ticket(std::span<const uint8_t> bytes) {
  if (bytes.size() < kCmTicketBytes || !only_zeros(bytes.subspan(kCmTicketBytes))) {
    return std::nullopt;
  }
  const uint8_t* from = bytes.data();
  if (take<uint64_t>(&from) != kTicketMagic) return std::nullopt;
  CmTicket ticket = {};
  ticket.caller = take<uint64_t>(&from);
  ticket.owner = take<uint64_t>(&from);
  ticket.connection = take<uint64_t>(&from);
  ticket.caller_mark = take<uint32_t>(&from);
  ticket.owner_mark = take<uint32_t>(&from);
  return ticket;
}

std::array<uint8_t, kCmRefusalBytes> encode_refusal(Answer answer) {
  std::array<uint8_t, kCmRefusalBytes> bytes = {};
  uint8_t* to = bytes.data();
  put(kRefusalMagic, &to);
  put(static_cast<uint32_t>(answer), &to);
  return bytes;
}

std::optional<Answer> decode_refusal(std::span<const uint8_t> bytes) {
  if (bytes.size() < kCmRefusalBytes || !only_zeros(bytes.subspan(kCmRefusalBytes))) {
    return std::nullopt;
  }
  const uint8_t* from = bytes.data();
  if (take<uint32_t>(&from) != kRefusalMagic) return std::nullopt;
  const auto answer = take<uint32_t>(&from);
  const bool refuses = answer != static_cast<uint32_t>(Answer::kAccepted) &&
                       answer < static_cast<uint32_t>(Answer::kUnreachable);
  if (!refuses) return std::nullopt;
  return static_cast<Answer>(answer);
}

}  // namespace urma::verbs
