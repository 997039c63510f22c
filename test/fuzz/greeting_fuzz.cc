// SPDX-License-Identifier: MIT
//
// What a stranger sends when the tcp provider expects a greeting: whatever it is, in portions of
// any size, no one without the secret is let in.
#include <memory>
#include <string>
#include <vector>

#include "test/fuzz/bytes.h"
#include "urma/providers/tcp/greeting.h"

namespace urma::tcp {
namespace {

using urma_fuzz::Bytes;
using urma_fuzz::require;
using Role = Greeting::Role;

// Impossible to guess for inputs, and fast.
class Sum final : public Secret {
 public:
  Digest sign(std::span<const uint8_t> first, std::span<const uint8_t> second) const override {
    uint64_t sum = 0x9e3779b97f4a7c15;
    for (const auto part : {first, second}) {
      for (const uint8_t byte : part) sum = (sum ^ byte) * 0x2545f4914f6cdd1d;
    }
    Digest digest = {};
    std::memcpy(digest.data(), &sum, sizeof(sum));
    return digest;
  }
  // Without a comparison that the fuzzer could learn from.
  bool equal(const Digest& a, const Digest& b) const override {
    uint8_t difference = 0;
    for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
    return difference == 0;
  }
};

Hello hello(Role role) {
  Hello made = {};
  made.magic = kGreetingMagic;
  made.version = kGreetingVersion;
  made.port = made.called = 20000;
  made.nonce.fill(static_cast<uint8_t>(role));
  return made;
}

std::vector<uint8_t> take(Greeting* from) {
  std::vector<uint8_t> bytes(from->to_send().begin(), from->to_send().end());
  from->sent(bytes.size());
  return bytes;
}

// False if it is refused.
bool give(Bytes* in, std::span<const uint8_t> bytes, Greeting* to) {
  while (!bytes.empty()) {
    const auto room = to->to_receive();
    if (room.empty()) return true;
    const size_t most = std::min(room.size(), bytes.size());
    const size_t portion = 1 + in->below(static_cast<uint32_t>(most));
    std::copy_n(bytes.begin(), portion, room.begin());
    bytes = bytes.subspan(portion);
    std::string why;
    if (to->received(portion, &why)) continue;
    require(!why.empty(), "a refused peer gets the reason");
    return false;
  }
  return true;
}

// One side alone, and a stranger.
void strange(Bytes* in, Role role, const std::shared_ptr<const Secret>& secret) {
  Greeting greeting(role, hello(role), secret);
  std::vector<uint8_t> said;
  while (!in->empty()) {
    for (const uint8_t byte : take(&greeting)) said.push_back(byte);
    std::vector<uint8_t> bytes;
    if (in->chance(128)) {
      const Hello right = hello(role == Role::kBegins ? Role::kAnswers : Role::kBegins);
      const auto* first = reinterpret_cast<const uint8_t*>(&right);
      bytes.assign(first, first + sizeof(right));
      if (secret != nullptr) bytes[offsetof(Hello, flags)] = kHasSecret;
    } else if (in->chance(64)) {
      bytes = said;
    }
    const auto more = in->some(200);
    bytes.insert(bytes.end(), more.begin(), more.end());
    for (int i = in->below(4); i > 0 && !bytes.empty(); --i) {
      bytes[in->below(static_cast<uint32_t>(bytes.size()))] ^= in->take<uint8_t>();
    }
    if (!give(in, bytes, &greeting)) break;
  }
  require(secret == nullptr || !greeting.done(), "a peer without the secret is not admitted");
}

// Two sides that know the secret, and an attacker that changes what they exchange.
void tampered(Bytes* in, const std::shared_ptr<const Secret>& secret) {
  Greeting begins(Role::kBegins, hello(Role::kBegins), secret);
  Greeting answers(Role::kAnswers, hello(Role::kAnswers), secret);
  bool changed = false;
  Greeting* from = &begins;
  Greeting* to = &answers;
  for (int turn = 0; turn < 4; ++turn, std::swap(from, to)) {
    auto bytes = take(from);
    if (in->chance(64) && !bytes.empty()) {
      const uint8_t change = in->take<uint8_t>();
      bytes[in->below(static_cast<uint32_t>(bytes.size()))] ^= change;
      changed = changed || change != 0;
    }
    if (!give(in, bytes, to)) return require(changed, "a peer that knows the secret is admitted");
  }
  require(changed != (begins.done() && answers.done()),
          "both are let in, or something was changed");
}

}  // namespace
}  // namespace urma::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using urma::tcp::Greeting;
  urma_fuzz::Bytes in(data, size);
  static const auto secret = std::make_shared<const urma::tcp::Sum>();
  switch (in.below(4)) {
    case 0:
      urma::tcp::tampered(&in, secret);
      break;
    case 1:
      urma::tcp::strange(&in, Greeting::Role::kBegins, in.chance(128) ? secret : nullptr);
      break;
    default:
      urma::tcp::strange(&in, Greeting::Role::kAnswers, in.chance(128) ? secret : nullptr);
  }
  return 0;
}
