// SPDX-License-Identifier: MIT
//
// Secrets and TLS between two carriers, and the settings that ask for them.
#include <linux/tls.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>

#include "test/tcp/certificates.h"
#include "test/tcp/streams.h"
#include "urma/base/error.h"
#include "urma/base/own_fd.h"
#include "urma/providers/tcp/settings.h"

namespace urma::tcp {
namespace {

const urma_eid_t kHere = eid("127.0.0.1");
const auto kSecret = make_secret("a secret of sixteen bytes, or more");
const auto kOther = make_secret("another secret of sixteen bytes");

std::unique_ptr<Carrier> carrier(std::shared_ptr<const Secret> secret,
                                 std::shared_ptr<const Tls> tls) {
  auto config = config_at({kHere});
  config.secret = std::move(secret);
  config.tls = std::move(tls);
  return make_socket_carrier(config);
}

Greeted try_to_greet(Carrier& a, Carrier& b) {
  std::string why;
  const auto begins = a.connect(kHere, {kHere, b.port()}, &why);
  const auto answers = next_stream(b);
  return greet(*begins, *answers);
}

// `told`: the side that begins learns that a peer refuses it, not only that the stream ends.
void expect_refusal(Carrier& a, Carrier& b, const char* part, bool told = true) {
  const Greeted greeted = try_to_greet(a, b);
  EXPECT_EQ(greeted.begins, StreamState::kLost);
  EXPECT_EQ(greeted.answers, StreamState::kLost);
  EXPECT_TRUE(greeted.begins_why.find(part) != std::string::npos ||
              greeted.answers_why.find(part) != std::string::npos)
      << greeted.begins_why << "; " << greeted.answers_why;
  EXPECT_TRUE(greeted.answers_met) << greeted.answers_why;
  EXPECT_EQ(greeted.begins_met, told) << greeted.begins_why;
}

// Much more than one record, in pieces, both ways.
void expect_talk(Carrier& a, Carrier& b) {
  const Ends ends = join(a, kHere, b, kHere);
  std::string much;
  for (int i = 0; much.size() < 1 << 20; ++i) much += std::to_string(i);
  std::string got;
  std::string_view left = much;
  std::array<char, 10'000> first;
  std::array<char, 33'333> second;
  while (got.size() < much.size()) {
    const iovec sent[] = {
        {const_cast<char*>(left.data()), left.size() / 3},
        {const_cast<char*>(left.data()) + left.size() / 3, left.size() - left.size() / 3}};
    left.remove_prefix(ends.begins->send(sent));
    const iovec received[] = {{first.data(), first.size()}, {second.data(), second.size()}};
    std::string why;
    ASSERT_EQ(ends.begins->progress(&why), StreamState::kOpen) << why;
    const size_t bytes = ends.answers->receive(received);
    got.append(first.data(), std::min(bytes, first.size()));
    if (bytes > first.size()) got.append(second.data(), bytes - first.size());
  }
  EXPECT_EQ(got, much);
  send_all(*ends.answers, "and back");
  EXPECT_EQ(receive(*ends.begins, 8), "and back");
}

TEST(Trust, ASecretAdmitsPeersThatKnowIt) {
  const auto a = carrier(kSecret, nullptr), b = carrier(kSecret, nullptr);
  expect_talk(*a, *b);
}

TEST(Trust, ASecretRefusesPeersThatDoNotKnowIt) {
  const auto a = carrier(kSecret, nullptr), other = carrier(kOther, nullptr),
             none = carrier(nullptr, nullptr);
  expect_refusal(*other, *a, "does not know the secret");
  expect_refusal(*none, *a, "has one");
  expect_refusal(*a, *none, "has none");
}

TEST(Trust, TlsByTheSecret) {
  const auto a = carrier(kSecret, tls_by_secret(*kSecret));
  const auto b = carrier(kSecret, tls_by_secret(*kSecret));
  expect_talk(*a, *b);
  const auto other = carrier(kOther, tls_by_secret(*kOther));
  expect_refusal(*other, *b, "TLS");
}

TEST(Trust, TlsByCertificates) {
  Authority authority("one"), stranger("two");
  const auto tls = [](const std::string& setting) { return read_tls(setting, nullptr); };
  const auto a = carrier(nullptr, tls(authority.host("a", authority)));
  const auto b = carrier(nullptr, tls(authority.host("b", authority)));
  expect_talk(*a, *b);
  // The check of the authority cannot be bypassed either, from one side or the other.
  const auto of_stranger = carrier(nullptr, tls(stranger.host("c", authority)));
  expect_refusal(*of_stranger, *b, "TLS");
  expect_refusal(*b, *of_stranger, "TLS");
  const auto trusts_stranger = carrier(nullptr, tls(authority.host("d", stranger)));
  expect_refusal(*trusts_stranger, *b, "TLS");
}

TEST(Trust, CertificatesAndASecretTogether) {
  Authority authority("one");
  const auto tls = read_tls(authority.host("a", authority), nullptr);
  const auto a = carrier(kSecret, tls), b = carrier(kSecret, tls), other = carrier(kOther, tls);
  expect_talk(*a, *b);
  expect_refusal(*other, *b, "does not know the secret");
}

TEST(Trust, CertificatesAndTlsByTheSecretDoNotMix) {
  Authority authority("one");
  const auto by_certificate = carrier(kSecret, read_tls(authority.host("a", authority), nullptr));
  const auto by_key = carrier(kSecret, tls_by_secret(*kSecret));
  expect_refusal(*by_certificate, *by_key, "TLS");
  expect_refusal(*by_key, *by_certificate, "TLS");
}

TEST(Trust, TlsAndPlainDoNotMix) {
  const auto plain = carrier(kSecret, nullptr),
             ciphered = carrier(kSecret, tls_by_secret(*kSecret));
  expect_refusal(*ciphered, *plain, "it speaks TLS", /*told=*/false);
  expect_refusal(*plain, *ciphered, "compare URMA_TCP_TLS", /*told=*/false);
}

// Who searches for a process finds them at its ports.
TEST(Trust, OtherProgramsAreNoPeers) {
  const OwnFd listener(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const SocketAddress any({kHere, 0});
  ASSERT_EQ(::bind(listener.get(), any.get(), any.size()), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const Address there = SocketAddress::local_of(listener.get());
  for (const auto& tls : {std::shared_ptr<const Tls>(), tls_by_secret(*kSecret)}) {
    const auto searching = carrier(kSecret, tls);
    for (const std::string said : {"", "SSH-2.0-OpenSSH_9.2\r\n"}) {
      std::string why;
      const auto stream = searching->connect(kHere, there, &why);
      ASSERT_NE(stream, nullptr) << why;
      {
        wait_for(listener.get(), POLLIN);
        const OwnFd program = OwnFd::accept(listener.get());
        EXPECT_EQ(::send(program.get(), said.data(), said.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(said.size()));
      }
      EXPECT_EQ(finish_greeting(*stream, &why), StreamState::kLost);
      EXPECT_FALSE(stream->met_peer()) << why;
    }
  }
}

// The descriptor is not readable for data that are already decrypted.
TEST(Trust, ReportsUnreadBytesOfARecord) {
  const auto a = carrier(kSecret, tls_by_secret(*kSecret));
  const auto b = carrier(kSecret, tls_by_secret(*kSecret));
  const Ends ends = join(*a, kHere, *b, kHere);
  send_all(*ends.begins, "0123456789");
  EXPECT_EQ(receive(*ends.answers, 4), "0123");
  EXPECT_TRUE(ends.answers->has_read_ahead());
  EXPECT_EQ(receive(*ends.answers, 6), "456789");
  EXPECT_FALSE(ends.answers->has_read_ahead());
}

// It would be waited for with a descriptor that has room all the time.
TEST(Trust, ASilentPeerIsAwaitedWithoutRoom) {
  const auto a = carrier(kSecret, tls_by_secret(*kSecret));
  const auto silent = carrier(kSecret, tls_by_secret(*kSecret));
  std::string why;
  const auto stream = a->connect(kHere, {kHere, silent->port()}, &why);
  ASSERT_NE(stream, nullptr) << why;
  wait_for(stream->fd(), POLLOUT);
  EXPECT_EQ(stream->progress(&why), StreamState::kGreeting) << why;
  EXPECT_FALSE(stream->wants_room());
}

TEST(Trust, TheKernelEncryptsIfItCan) {
  const int unconnected = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_NE(::setsockopt(unconnected, SOL_TCP, TCP_ULP, "tls", sizeof "tls"), 0);
  const bool lacks_tls = errno == ENOENT;
  ::close(unconnected);
  if (lacks_tls) GTEST_SKIP() << "this kernel has no TLS (CONFIG_TLS)";
  const auto a = carrier(kSecret, tls_by_secret(*kSecret));
  const auto b = carrier(kSecret, tls_by_secret(*kSecret));
  const Ends ends = join(*a, kHere, *b, kHere);
  tls_crypto_info sent;
  socklen_t bytes = sizeof sent;
  EXPECT_EQ(::getsockopt(ends.begins->fd(), SOL_TLS, TLS_TX, &sent, &bytes), 0)
      << std::strerror(errno);
  EXPECT_EQ(sent.version, TLS_1_3_VERSION);
}

// A write to a connection that has ended raises no signal.
TEST(Trust, AnEndRaisesNoSignal) {
  const auto a = carrier(kSecret, tls_by_secret(*kSecret));
  const auto b = carrier(kSecret, tls_by_secret(*kSecret));
  Ends ends = join(*a, kHere, *b, kHere);
  ends.answers.reset();
  std::string much(1 << 20, 'x'), why;
  const iovec piece = {much.data(), much.size()};
  while (ends.begins->progress(&why) != StreamState::kLost) ends.begins->send({&piece, 1});
  sigset_t pending;
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_EQ(::sigismember(&pending, SIGPIPE), 0);
}

class FakeSettings final : public Settings {
 public:
  std::string text(const char* name) const override { return texts.at(name); }
  uint64_t number(const char* /*name*/) const override { return 0; }
  bool flag(const char* /*name*/) const override { return false; }

  std::map<std::string, std::string> texts = {{"URMA_TCP_SECRET_FILE", ""},
                                              {"URMA_TCP_TLS", "off"}};
};

class TrustSettings : public testing::Test {
 protected:
  ~TrustSettings() override { ::unlink(file_.c_str()); }
  void write_secret(const std::string& bytes, mode_t mode) {
    std::ofstream(file_) << bytes;
    ::chmod(file_.c_str(), mode);
    settings_.texts["URMA_TCP_SECRET_FILE"] = file_;
  }
  CarrierConfig config() { return carrier_config(settings_, {}, {}); }
  std::string refusal() {
    try {
      config();
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  FakeSettings settings_;
  const std::string file_ = testing::TempDir() + "urma-secret-" + std::to_string(::getpid());
};

TEST_F(TrustSettings, NoTrustIsRequiredByDefault) {
  const auto plain = config();
  EXPECT_EQ(plain.secret, nullptr);
  EXPECT_EQ(plain.tls, nullptr);
}

TEST_F(TrustSettings, AnEndOfLineIsNotPartOfTheSecret) {
  write_secret("sixteen bytes of secret\n", 0600);
  const auto with = config().secret;
  write_secret("sixteen bytes of secret", 0640);
  const auto without = config().secret;
  EXPECT_EQ(with->sign({}, {}), without->sign({}, {}));
}

TEST_F(TrustSettings, AnInvalidSecretIsRefused) {
  write_secret("sixteen bytes of secret", 0644);
  EXPECT_NE(refusal().find("open to all users"), std::string::npos);
  write_secret("short\n", 0600);
  EXPECT_NE(refusal().find("5 bytes"), std::string::npos);
  write_secret(std::string(5000, 'x'), 0600);
  EXPECT_NE(refusal().find("4097 bytes"), std::string::npos);
  ::unlink(file_.c_str());
  EXPECT_NE(refusal().find(file_), std::string::npos);
}

TEST_F(TrustSettings, InvalidTlsSettingsAreRefused) {
  settings_.texts["URMA_TCP_TLS"] = "psk";
  EXPECT_NE(refusal().find("needs URMA_TCP_SECRET_FILE"), std::string::npos);
  for (const char* wrong : {"on", "a,b", "a,b,c,d", ""}) {
    settings_.texts["URMA_TCP_TLS"] = wrong;
    EXPECT_NE(refusal().find("allowed are off, psk"), std::string::npos) << wrong;
  }
  settings_.texts["URMA_TCP_TLS"] = "/nowhere/a,/nowhere/b,/nowhere/c";
  EXPECT_NE(refusal().find("/nowhere/a"), std::string::npos);
}

}  // namespace
}  // namespace urma::tcp
