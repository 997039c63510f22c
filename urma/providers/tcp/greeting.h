// SPDX-License-Identifier: MIT
//
// How two processes begin a stream: each says who it is, and proves that it knows the secret where
// there is one. Who began proves first, so that a stranger who reaches the port learns nothing.
// Bytes only: neither sockets nor time.
#ifndef URMA_PROVIDERS_TCP_GREETING_H_
#define URMA_PROVIDERS_TCP_GREETING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "urma/providers/tcp/carrier.h"

namespace urma::tcp {

inline constexpr uint16_t kGreetingVersion = 1;
inline constexpr std::array<char, 8> kGreetingMagic = {'U', 'R', 'M', 'A', '-', 'T', 'C', 'P'};

enum HelloFlag : uint16_t { kHasSecret = 1 };

// In the order of bytes of the machine. Magic, version and size stay, whatever the version.
struct Hello {
  std::array<char, 8> magic;
  uint16_t version;
  uint16_t flags;
  uint16_t port;    // where its sender listens
  uint16_t called;  // where the one that answers was found
  std::array<uint8_t, 16> process;
  std::array<uint8_t, 32> nonce;
  urma_eid_t from;  // both ends, as its sender sees them
  urma_eid_t to;
};
static_assert(sizeof(Hello) == 96);

using Digest = std::array<uint8_t, 32>;

// What both sides know and nobody else. Any thread.
class Secret {
 public:
  virtual ~Secret() = default;
  // HMAC-SHA256 of both parts, one after the other.
  virtual Digest sign(std::span<const uint8_t> first, std::span<const uint8_t> second) const = 0;
  // Takes as long for any two.
  virtual bool equal(const Digest& a, const Digest& b) const = 0;
};

class Greeting {
 public:
  enum class Role : uint8_t { kBegins = 1, kAnswers = 2 };

  // `ours` is complete but for the flag of the secret; NULL: there is none.
  Greeting(Role role, const Hello& ours, std::shared_ptr<const Secret> secret);

  // What binds the proofs to the ciphered stream that they travel in; before the first byte comes.
  void bind(const Digest& stream) { stream_ = stream; }

  // What is to be sent now; how much of it was.
  std::span<const uint8_t> to_send() const { return out_; }
  void sent(size_t bytes);
  // Where the next bytes go, and how many at most; empty where none are expected.
  std::span<uint8_t> to_receive() { return std::span(in_).subspan(have_, wanted_ - have_); }
  // False where the other side is not to be spoken to, but for what is left in to_send().
  bool received(size_t bytes, std::string* why);

  bool done() const { return wanted_ == 0 && out_.empty(); }
  // Once done.
  const Hello& theirs() const { return theirs_; }

 private:
  bool take_hello(std::string* why);
  bool agrees(std::string* why) const;
  bool take_proof(std::string* why);
  // What the side of that role proves itself by.
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
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_GREETING_H_
