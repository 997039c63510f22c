// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/control_ticket.h"

#include <bit>
#include <cstring>

namespace urma::verbs {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void take(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

uint64_t little_endian(const uint8_t* bytes, size_t count) {
  uint64_t word = 0;
  for (size_t i = 0; i < count; ++i) word |= uint64_t{bytes[i]} << 8 * i;
  return word;
}

}  // namespace

uint64_t keyed_hash(const uint64_t (&key)[2], std::span<const uint8_t> bytes) {
  SipState state = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                    key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
  const size_t whole = bytes.size() / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) state.take(little_endian(&bytes[i], 8));
  state.take(little_endian(bytes.data() + whole, bytes.size() - whole) | uint64_t{bytes.size()}
                                                                             << 56);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

Ticket TicketOffice::issue(const NetAddress& to, uint64_t nonce) {
  const uint64_t number = ++last_;
  return {number, seal(number, to, nonce)};
}

bool TicketOffice::valid(const Ticket& ticket, const NetAddress& from, uint64_t nonce) const {
  return ticket.number > expired_ && ticket.number <= last_ &&
         ticket.seal == seal(ticket.number, from, nonce);
}

uint64_t TicketOffice::seal(uint64_t number, const NetAddress& address, uint64_t nonce) const {
  const uint64_t words[3] = {number, nonce, address.port};
  uint8_t bytes[sizeof(words) + sizeof(address.ip)];
  std::memcpy(bytes, words, sizeof(words));
  std::memcpy(bytes + sizeof(words), address.ip, sizeof(address.ip));
  return keyed_hash(key_, bytes);
}

}  // namespace urma::verbs
