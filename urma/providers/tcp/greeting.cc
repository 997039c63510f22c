// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/greeting.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "third_party/fmt/format.h"
#include "urma/providers/tcp/address.h"

namespace urma::tcp {
namespace {

// The first byte of TLS is the type of a record.
constexpr uint8_t kTlsAlert = 0x15;
constexpr uint8_t kTlsHandshake = 0x16;

bool speaks_tls(uint8_t first) { return first == kTlsAlert || first == kTlsHandshake; }

template <typename Plain>
std::span<const uint8_t> bytes_of(const Plain& plain) {
  return {reinterpret_cast<const uint8_t*>(&plain), sizeof(plain)};
}

}  // namespace

bool may_be_peer(std::span<const uint8_t> first) {
  if (first.empty()) return false;
  const size_t known = std::min(first.size(), kGreetingMagic.size());
  return speaks_tls(first[0]) || std::memcmp(first.data(), kGreetingMagic.data(), known) == 0;
}

Greeting::Greeting(Role role, const Hello& ours, std::shared_ptr<const Secret> secret)
    : role_(role), ours_(ours), secret_(std::move(secret)) {
  if (secret_ != nullptr) ours_.flags |= kHasSecret;
  if (role_ == Role::kBegins) say(ours_);
}

void Greeting::sent(size_t bytes) {
  out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(bytes));
}

bool Greeting::received(size_t bytes, std::string* why) {
  have_ += bytes;
  if (!has_hello_) met_peer_ = may_be_peer(std::span(in_).first(have_));
  const size_t known = std::min(have_, kGreetingMagic.size());
  if (!has_hello_ && std::memcmp(in_.data(), kGreetingMagic.data(), known) != 0) {
    *why = speaks_tls(in_[0]) ? "it speaks TLS, and URMA_TCP_TLS is off here; set both alike"
                              : "it does not speak this protocol";
    return false;
  }
  if (have_ < wanted_) return true;
  return has_hello_ ? take_proof(why) : take_hello(why);
}

bool Greeting::take_hello(std::string* why) {
  std::memcpy(&theirs_, in_.data(), sizeof(theirs_));
  has_hello_ = true;
  // Even if the other side is turned away: it then knows why.
  if (role_ == Role::kAnswers) say(ours_);
  if (!agrees(why)) return false;
  expect(secret_ != nullptr ? sizeof(Digest) : 0);
  if (secret_ != nullptr && role_ == Role::kBegins) say(proof_of(role_));
  return true;
}

bool Greeting::agrees(std::string* why) const {
  if (theirs_.version != ours_.version) {
    *why = urma::format("it speaks protocol version {}, this library version {}", theirs_.version,
                        ours_.version);
  } else if ((theirs_.flags & ~kHasSecret) != 0 || theirs_.port == 0) {
    *why = urma::format("its greeting is malformed: flags {:#x}, port {}", theirs_.flags,
                        theirs_.port);
  } else if (theirs_.nonce == ours_.nonce) {
    *why = "it echoes the greeting";
  } else if (theirs_.flags != ours_.flags) {
    *why = secret_ != nullptr ? "it has no URMA_TCP_SECRET_FILE, and this process has one"
                              : "it has a URMA_TCP_SECRET_FILE, and this process has none";
  } else if (bytes_of(theirs_.from) != bytes_of(ours_.to) ||
             bytes_of(theirs_.to) != bytes_of(ours_.from) || theirs_.called != ours_.called) {
    *why = urma::format(
        "it reports its end as {} and this one as {}, seen here as {} and {}, port {} or {}; "
        "address translation (NAT) is not supported",
        text_of(theirs_.from), text_of(theirs_.to), text_of(ours_.to), text_of(ours_.from),
        theirs_.called, ours_.called);
  } else {
    return true;
  }
  return false;
}

bool Greeting::take_proof(std::string* why) {
  const Role their_role = role_ == Role::kBegins ? Role::kAnswers : Role::kBegins;
  Digest proof;
  std::copy_n(in_.begin(), proof.size(), proof.begin());
  if (!secret_->equal(proof_of(their_role), proof)) {
    *why = "it does not know the secret of URMA_TCP_SECRET_FILE";
    return false;
  }
  expect(0);
  if (role_ == Role::kAnswers) say(proof_of(role_));
  return true;
}

// Covers both greetings with their nonces, and the role: no proof is valid twice, or for the other
// side.
Digest Greeting::proof_of(Role role) const {
  struct {
    std::array<char, 15> purpose = {"urma tcp proof"};
    Role role;
    Hello begins;
    Hello answers;
  } const signed_bytes = {.role = role,
                          .begins = role_ == Role::kBegins ? ours_ : theirs_,
                          .answers = role_ == Role::kBegins ? theirs_ : ours_};
  static_assert(sizeof(signed_bytes) == 16 + 2 * sizeof(Hello));
  return secret_->sign(bytes_of(signed_bytes), stream_);
}

void Greeting::expect(size_t bytes) {
  have_ = 0;
  wanted_ = bytes;
}

template <typename Plain>
void Greeting::say(const Plain& plain) {
  const auto bytes = bytes_of(plain);
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

}  // namespace urma::tcp
