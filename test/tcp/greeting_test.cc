// SPDX-License-Identifier: MIT
//
// The greeting that two sides exchange before anything else, in isolation.
#include "urma/providers/tcp/greeting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "test/tcp/streams.h"
#include "urma/providers/tcp/settings.h"

namespace urma::tcp {
namespace {

using Role = Greeting::Role;
using Bytes = std::vector<uint8_t>;

const urma_eid_t kBegins = eid("10.0.0.1");
const urma_eid_t kAnswers = eid("10.0.0.2");

Hello hello(Role role, uint8_t draw = 0) {
  Hello made = {};
  made.magic = kGreetingMagic;
  made.version = kGreetingVersion;
  made.port = 20000;
  made.process.fill(static_cast<uint8_t>(role));
  made.nonce.fill(static_cast<uint8_t>(draw + 2 * static_cast<int>(role)));
  made.from = role == Role::kBegins ? kBegins : kAnswers;
  made.to = role == Role::kBegins ? kAnswers : kBegins;
  return made;
}

Bytes take(Greeting& from) {
  Bytes bytes(from.to_send().begin(), from.to_send().end());
  from.sent(bytes.size());
  return bytes;
}

// False if it is refused; what it no longer wants stays unread.
bool give(Greeting& to, const Bytes& bytes, std::string* why, size_t portion = 1000) {
  size_t given = 0;
  while (given < bytes.size()) {
    const auto room = to.to_receive();
    if (room.empty()) return true;
    const size_t count = std::min({room.size(), bytes.size() - given, portion});
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(given), count, room.begin());
    given += count;
    if (!to.received(count, why)) return false;
  }
  return true;
}

struct Outcome {
  bool begins = true, answers = true;  // not refused
  std::string begins_why, answers_why;
};

Outcome run(Greeting& begins, Greeting& answers, size_t portion = 1000) {
  Outcome outcome;
  for (int i = 0; i < 3; ++i) {
    if (outcome.answers) {
      outcome.answers = give(answers, take(begins), &outcome.answers_why, portion);
    }
    if (outcome.begins) {
      outcome.begins = give(begins, take(answers), &outcome.begins_why, portion);
    }
  }
  return outcome;
}

const auto kSecret = make_secret("a secret of sixteen bytes, or more");
const auto kOther = make_secret("another secret of sixteen bytes");

TEST(Greeting, IdentifiesThePeer) {
  Greeting begins(Role::kBegins, hello(Role::kBegins), nullptr);
  Greeting answers(Role::kAnswers, hello(Role::kAnswers), nullptr);
  const Outcome outcome = run(begins, answers);
  EXPECT_TRUE(outcome.begins && outcome.answers && begins.done() && answers.done());
  EXPECT_EQ(begins.theirs().process, hello(Role::kAnswers).process);
  EXPECT_EQ(answers.theirs().process, hello(Role::kBegins).process);
}

TEST(Greeting, WorksByteByByteWithASecret) {
  for (const size_t portion : {1U, 7U, 1000U}) {
    Greeting begins(Role::kBegins, hello(Role::kBegins), kSecret);
    Greeting answers(Role::kAnswers, hello(Role::kAnswers), kSecret);
    const Outcome outcome = run(begins, answers, portion);
    EXPECT_TRUE(outcome.begins) << outcome.begins_why;
    EXPECT_TRUE(outcome.answers) << outcome.answers_why;
    EXPECT_TRUE(begins.done() && answers.done());
  }
}

TEST(Greeting, AnotherSecretIsRefusedWithoutProof) {
  Greeting begins(Role::kBegins, hello(Role::kBegins), kOther);
  Greeting answers(Role::kAnswers, hello(Role::kAnswers), kSecret);
  const Outcome outcome = run(begins, answers);
  EXPECT_FALSE(outcome.answers);
  EXPECT_NE(outcome.answers_why.find("does not know the secret"), std::string::npos);
  EXPECT_TRUE(answers.to_send().empty());
  EXPECT_FALSE(begins.done());
}

// An impostor that listens at the address of another host.
TEST(Greeting, TheAnsweringSideProvesTheSecretToo) {
  Greeting begins(Role::kBegins, hello(Role::kBegins), kSecret);
  Greeting answers(Role::kAnswers, hello(Role::kAnswers), kOther);
  std::string why;
  give(answers, take(begins), &why);
  ASSERT_TRUE(give(begins, take(answers), &why));
  take(begins);
  EXPECT_FALSE(give(begins, Bytes(sizeof(Digest), 7), &why));
}

TEST(Greeting, BothSidesReportAMissingSecret) {
  for (const bool begins_has : {false, true}) {
    Greeting begins(Role::kBegins, hello(Role::kBegins), begins_has ? kSecret : nullptr);
    Greeting answers(Role::kAnswers, hello(Role::kAnswers), begins_has ? nullptr : kSecret);
    const Outcome outcome = run(begins, answers);
    EXPECT_FALSE(outcome.begins || outcome.answers);
    EXPECT_NE(outcome.begins_why.find("URMA_TCP_SECRET_FILE"), std::string::npos);
    EXPECT_NE(outcome.answers_why.find("URMA_TCP_SECRET_FILE"), std::string::npos);
  }
}

TEST(Greeting, BothSidesReportAnotherVersion) {
  Hello later = hello(Role::kBegins);
  later.version = kGreetingVersion + 1;
  Greeting begins(Role::kBegins, later, nullptr);
  Greeting answers(Role::kAnswers, hello(Role::kAnswers), nullptr);
  const Outcome outcome = run(begins, answers);
  EXPECT_FALSE(outcome.begins || outcome.answers);
  const auto version = [](int of) { return "version " + std::to_string(of); };
  EXPECT_NE(outcome.begins_why.find(version(kGreetingVersion)), std::string::npos);
  EXPECT_NE(outcome.answers_why.find(version(kGreetingVersion + 1)), std::string::npos);
}

TEST(Greeting, TranslatedAddressesAreRefused) {
  Hello inside = hello(Role::kBegins);
  inside.from = eid("192.168.1.1");
  Greeting begins(Role::kBegins, inside, kSecret);
  Greeting answers(Role::kAnswers, hello(Role::kAnswers), kSecret);
  const Outcome outcome = run(begins, answers);
  EXPECT_FALSE(outcome.begins || outcome.answers);
  EXPECT_NE(outcome.answers_why.find("192.168.1.1"), std::string::npos);
}

// A process that listens at another port of the same host, and relays what is said.
TEST(Greeting, AnotherPortIsRefused) {
  Hello elsewhere = hello(Role::kBegins);
  elsewhere.called = 20001;
  Greeting begins(Role::kBegins, elsewhere, kSecret);
  Greeting answers(Role::kAnswers, hello(Role::kAnswers), kSecret);
  EXPECT_FALSE(run(begins, answers).answers);
}

TEST(Greeting, AReplayIsRefused) {
  Greeting begins(Role::kBegins, hello(Role::kBegins), kSecret);
  Greeting first(Role::kAnswers, hello(Role::kAnswers, 1), kSecret);
  std::string why;
  Bytes said = take(begins);
  ASSERT_TRUE(give(first, said, &why));
  ASSERT_TRUE(give(begins, take(first), &why));
  const Bytes proof = take(begins);
  ASSERT_TRUE(give(first, proof, &why));
  said.insert(said.end(), proof.begin(), proof.end());

  Greeting second(Role::kAnswers, hello(Role::kAnswers, 2), kSecret);
  EXPECT_FALSE(give(second, said, &why));
}

// A side that gets back its own greeting has met no one; so has a socket connected to itself.
TEST(Greeting, AReflectionIsRefused) {
  Hello alone = hello(Role::kBegins);
  alone.to = alone.from;
  for (const auto& secret : {kSecret, std::shared_ptr<const Secret>()}) {
    Greeting begins(Role::kBegins, alone, secret);
    std::string why;
    EXPECT_FALSE(give(begins, take(begins), &why));
    EXPECT_EQ(why, "it echoes the greeting");
    EXPECT_FALSE(begins.done());
  }
}

// Nor does its proof serve the other side.
TEST(Greeting, AProofOfTheSameSideIsRefused) {
  Greeting begins(Role::kBegins, hello(Role::kBegins), kSecret);
  Greeting answers(Role::kAnswers, hello(Role::kAnswers), kSecret);
  std::string why;
  ASSERT_TRUE(give(answers, take(begins), &why));
  ASSERT_TRUE(give(begins, take(answers), &why));
  EXPECT_FALSE(give(begins, take(begins), &why));
}

// A third host has one end of each of two streams: what travels in one proves nothing in the other.
TEST(Greeting, AProofIsValidOnlyForItsTlsStream) {
  Greeting begins(Role::kBegins, hello(Role::kBegins), kSecret);
  Greeting answers(Role::kAnswers, hello(Role::kAnswers), kSecret);
  begins.bind(Digest{1});
  answers.bind(Digest{2});
  EXPECT_FALSE(run(begins, answers).answers);
}

// Relays what one side sends to the other, with one bit of it changed.
class Tamperer {
 public:
  explicit Tamperer(size_t bit) : bit_(bit) {}
  bool pass(Greeting& from, Greeting& to) {
    Bytes bytes = take(from);
    const size_t at = bit_ - passed_;
    if (bit_ >= passed_ && at / 8 < bytes.size()) {
      bytes[at / 8] ^= static_cast<uint8_t>(1 << at % 8);
    }
    passed_ += bytes.size() * 8;
    std::string why;
    return give(to, bytes, &why);
  }

 private:
  const size_t bit_;
  size_t passed_ = 0;
};

// Every bit matters.
TEST(Greeting, AnyChangedBitIsDetected) {
  constexpr size_t kNone = SIZE_MAX;
  for (size_t bit = 0; bit < (sizeof(Hello) + sizeof(Digest)) * 8; ++bit) {
    for (const bool of_begins : {true, false}) {
      Greeting begins(Role::kBegins, hello(Role::kBegins), kSecret);
      Greeting answers(Role::kAnswers, hello(Role::kAnswers), kSecret);
      Tamperer there(of_begins ? bit : kNone), back(of_begins ? kNone : bit);
      const bool passed = there.pass(begins, answers) && back.pass(answers, begins) &&
                          there.pass(begins, answers) && back.pass(answers, begins);
      EXPECT_FALSE(passed) << "bit " << bit << (of_begins ? " of who begins" : " of who answers");
    }
  }
}

}  // namespace
}  // namespace urma::tcp
