// SPDX-License-Identifier: MIT
//
// How two processes start a stream: each says who it is, and proves that it knows the secret, if
// there is one. The starting side proves first, so that a stranger who reaches the port learns
// nothing. Bytes only: no sockets, no clock.
#ifndef URMA_PROVIDERS_TCP_GREETING_H_
#define URMA_PROVIDERS_TCP_GREETING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "urma_types.h"

namespace urma::tcp {

inline constexpr uint16_t kGreetingVersion = 3;
inline constexpr std::array<char, 8> kGreetingMagic = {'U', 'R', 'M', 'A', '-', 'T', 'C', 'P'};

enum HelloFlag : uint16_t { kHasSecret = 1 };

// In the machine's byte order. Magic, version and size have the same place in every version.
struct Hello {
  std::array<char, 8> magic;
  uint16_t version;
  uint16_t flags;
  uint16_t port;    // where its sender listens
  uint16_t called;  // where the answering side was found
  std::array<uint8_t, 16> process;
  std::array<uint8_t, 32> nonce;
  urma_eid_t from;  // both ends, as its sender sees them
  urma_eid_t to;
};
static_assert(sizeof(Hello) == 96);

// Whether the first bytes of a stream may be those of a peer: a greeting of any version, or TLS,
// which its settings may demand. Other programs say something else, or nothing.
bool may_be_peer(std::span<const uint8_t> first);

using Digest = std::array<uint8_t, 32>;

// A secret that both sides know and nobody else. Any thread.
class Secret {
 public:
  virtual ~Secret() = default;
  // HMAC-SHA256 of the two parts, concatenated.
  virtual Digest sign(std::span<const uint8_t> first, std::span<const uint8_t> second) const = 0;
  // In constant time.
  virtual bool equal(const Digest& a, const Digest& b) const = 0;
};

class Greeting {
 public:
  enum class Role : uint8_t { kBegins = 1, kAnswers = 2 };

  // `ours` is complete except for the flag of the secret; NULL: there is none.
  Greeting(Role role, const Hello& ours, std::shared_ptr<const Secret> secret);

  // Binds the proofs to the encrypted stream that carries them; call before the first byte arrives.
  void bind(const Digest& stream) { stream_ = stream; }

  // The bytes to send now; sent() says how many were.
  std::span<const uint8_t> to_send() const { return out_; }
  void sent(size_t bytes);
  // The place of the next bytes; empty if none are expected.
  std::span<uint8_t> to_receive() { return std::span(in_).subspan(have_, wanted_ - have_); }
  // False if the other side is rejected; send only what is left in to_send().
  bool received(size_t bytes, std::string* why);

  bool done() const { return wanted_ == 0 && out_.empty(); }
  // Whether the other side may be a peer, by what it has said.
  bool met_peer() const { return met_peer_; }
  // Once done.
  const Hello& theirs() const { return theirs_; }

 private:
  bool take_hello(std::string* why);
  bool agrees(std::string* why) const;
  bool take_proof(std::string* why);
  // The proof of the side with that role.
  Digest proof_of(Role role) const;
  void expect(size_t bytes);
  template <typename Plain>
  void say(const Plain& plain);

  const Role role_;
  Hello ours_;
  Hello theirs_ = {};
  const std::shared_ptr<const Secret> secret_;
  Digest stream_ = {};
  std::vector<uint8_t> out_;
  std::array<uint8_t, sizeof(Hello)> in_;
  size_t have_ = 0;
  size_t wanted_ = sizeof(Hello);
  bool has_hello_ = false;
  bool met_peer_ = false;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_GREETING_H_
