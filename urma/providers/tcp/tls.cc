// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/tls.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include "urma/base/error.h"
#include "urma/providers/tcp/openssl.h"

namespace urma::tcp {
namespace {

constexpr size_t kRecord = 16 << 10;
constexpr size_t kMostAtOnce = 64 << 10;
// The one cipher suite for a key of our own: what OpenSSL takes for the keys of its callbacks.
constexpr char kSuite[] = "TLS_AES_128_GCM_SHA256";
constexpr std::string_view kIdentity = "urma-tcp";
constexpr std::string_view kKeyPurpose = "urma tcp tls key";
constexpr std::string_view kBindingPurpose = "EXPORTER-urma-tcp";

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// OpenSSL writes to the socket itself; keep its SIGPIPE from the program.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    sigset_t pending;
    // The program's own pending signal, which it keeps.
    had_one_ = ::sigismember(&before_, SIGPIPE) == 1 && ::sigpending(&pending) == 0 &&
               ::sigismember(&pending, SIGPIPE) == 1;
    errno = 0;
  }
  ~WithoutSigpipe() {
    const int error = errno;
    const timespec at_once = {};
    if (error == EPIPE && !had_one_) ::sigtimedwait(&pipe_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool had_one_;
};

class TlsLine final : public Line {
 public:
  TlsLine(std::shared_ptr<const Tls> tls, SSL* ssl, int fd, bool begins, bool has_secret)
      : Line(fd), tls_(std::move(tls)), ssl_(ssl), begins_(begins), has_secret_(has_secret) {}
  ~TlsLine() override { openssl_.SSL_free(ssl_); }

  bool ready() const override { return ready_; }
  bool met_peer() const override { return met_peer_; }
  bool progress(std::string* why) override;
  // Nothing waits in the kernel.
  std::optional<size_t> send(std::span<const iovec> pieces, bool ahead, std::string* why) override;
  void push() override {}
  std::optional<size_t> receive(std::span<const iovec> pieces, std::string* why) override;
  Digest binding() const override;
  bool tells_faults() const override { return false; }
  bool has_read_ahead() const override { return openssl_.SSL_pending(ssl_) > 0; }

 private:
  enum class Outcome { kDone, kLater, kLost };

  // The meaning of this result of an OpenSSL call.
  Outcome judge(int result, std::string* why);
  // Sends the pending record, if there is one.
  Outcome flush(std::string* why);
  bool shake_hands(std::string* why);
  bool has_arrived() const;
  bool hear();

  const OpenSsl& openssl_ = openssl();
  const std::shared_ptr<const Tls> tls_;  // OpenSSL asks it for the key
  SSL* const ssl_;
  const bool begins_;
  const bool has_secret_;
  bool ready_ = false;
  bool heard_ = false;
  bool met_peer_ = false;
  // A record passed to OpenSSL once must stay unchanged until it has left.
  std::array<char, kRecord> record_;
  size_t record_bytes_ = 0;
};

TlsLine::Outcome TlsLine::judge(int result, std::string* why) {
  full_ = false;
  if (result == 1) return Outcome::kDone;
  const int error = errno;
  switch (openssl_.SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_WRITE:
      full_ = true;
      return Outcome::kLater;
    case SSL_ERROR_WANT_READ:
      return Outcome::kLater;
    case SSL_ERROR_SYSCALL:
      if (error == 0) break;
      *why = urma::format("TLS: {}", std::strerror(error));
      return Outcome::kLost;
    case SSL_ERROR_SSL:
      *why = urma::format("TLS: {}; compare URMA_TCP_TLS on both sides", openssl_.error());
      return Outcome::kLost;
    default:
      break;
  }
  *why = "it has closed the connection";
  return Outcome::kLost;
}

bool TlsLine::progress(std::string* why) {
  if (!ready_) return shake_hands(why);
  return record_bytes_ == 0 || flush(why) != Outcome::kLost;
}

bool TlsLine::shake_hands(std::string* why) {
  // The side that begins speaks first.
  if (!heard_ && !hear() && !begins_) return true;
  Outcome outcome;
  {
    const WithoutSigpipe without;
    openssl_.ERR_clear_error();
    outcome = judge(openssl_.SSL_do_handshake(ssl_), why);
  }
  if (outcome != Outcome::kDone) return outcome == Outcome::kLater;
  // The secret does not vouch for a certificate.
  if (has_secret_ && openssl_.SSL_session_reused(ssl_) != 1) {
    *why = "TLS: it did not use the key of the secret; compare URMA_TCP_TLS on both sides";
    return false;
  }
  ready_ = true;
  return true;
}

TlsLine::Outcome TlsLine::flush(std::string* why) {
  const WithoutSigpipe without;
  openssl_.ERR_clear_error();
  size_t written = 0;
  const Outcome outcome =
      judge(openssl_.SSL_write_ex(ssl_, record_.data(), record_bytes_, &written), why);
  if (outcome == Outcome::kDone) record_bytes_ = 0;
  return outcome;
}

std::optional<size_t> TlsLine::send(std::span<const iovec> pieces, bool /*ahead*/,
                                    std::string* why) {
  size_t taken = 0;
  size_t offset = 0;
  if (record_bytes_ != 0 && flush(why) == Outcome::kLost) return std::nullopt;
  while (record_bytes_ == 0 && taken < kMostAtOnce) {
    while (!pieces.empty() && record_bytes_ < kRecord) {
      const iovec& piece = pieces.front();
      const size_t bytes = std::min(piece.iov_len - offset, kRecord - record_bytes_);
      if (bytes != 0) {
        std::memcpy(record_.data() + record_bytes_, static_cast<char*>(piece.iov_base) + offset,
                    bytes);
      }
      record_bytes_ += bytes;
      offset += bytes;
      if (offset == piece.iov_len) {
        pieces = pieces.subspan(1);
        offset = 0;
      }
    }
    if (record_bytes_ == 0) break;
    taken += record_bytes_;
    if (flush(why) == Outcome::kLost) return std::nullopt;
  }
  return taken;
}

std::optional<size_t> TlsLine::receive(std::span<const iovec> pieces, std::string* why) {
  if (!has_arrived()) return 0;
  const WithoutSigpipe without;
  const bool was_full = full_;
  size_t taken = 0;
  for (const iovec& piece : pieces) {
    size_t filled = 0;
    while (filled < piece.iov_len) {
      size_t got = 0;
      openssl_.ERR_clear_error();
      errno = 0;
      const auto outcome =
          judge(openssl_.SSL_read_ex(ssl_, static_cast<char*>(piece.iov_base) + filled,
                                     piece.iov_len - filled, &got),
                why);
      full_ = full_ || was_full;
      // Bytes before the end count; the next call finds the end again.
      if (outcome == Outcome::kLost && taken == 0) return std::nullopt;
      if (outcome != Outcome::kDone) return taken;
      filled += got;
      taken += got;
    }
  }
  return taken;
}

// If nothing has arrived, this is one system call instead of three.
bool TlsLine::has_arrived() const {
  if (has_read_ahead()) return true;
  char byte;
  return ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
         (errno != EAGAIN && errno != EWOULDBLOCK);
}

// Looks at the first bytes, which OpenSSL has not read yet. False if none have come.
bool TlsLine::hear() {
  int waiting = 0;
  // The error of a failed connect is for OpenSSL, which reports it.
  if (begins_ && (::ioctl(fd_, FIONREAD, &waiting) != 0 || waiting <= 0)) return false;
  std::array<uint8_t, kGreetingMagic.size()> first;
  const ssize_t got = ::recv(fd_, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  heard_ = got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  met_peer_ = got > 0 && may_be_peer(std::span(first).first(static_cast<size_t>(got)));
  return heard_;
}

Digest TlsLine::binding() const {
  Digest binding = {};
  if (openssl_.SSL_export_keying_material(ssl_, binding.data(), binding.size(),
                                          kBindingPurpose.data(), kBindingPurpose.size(), nullptr,
                                          0, 0) != 1) {
    fail(URMA_FAIL, "TLS: {}", openssl_.error());
  }
  return binding;
}

class TlsContext final : public Tls, public std::enable_shared_from_this<TlsContext> {
 public:
  explicit TlsContext(const Secret& secret);
  TlsContext(const std::string& certificate, const std::string& key,
             const std::string& authorities);
  ~TlsContext() override { openssl_.SSL_CTX_free(context_); }

  std::unique_ptr<Line> make_line(int fd, bool begins) const override;

 private:
  TlsContext();
  // As OpenSSL calls them. They return the size of the key; 0: there is none.
  static unsigned offer_key(SSL* ssl, const char* hint, char* identity, unsigned identity_room,
                            unsigned char* key, unsigned room);
  static unsigned find_key(SSL* ssl, const char* identity, unsigned char* key, unsigned room);
  static unsigned copy_key(SSL* ssl, unsigned char* key, unsigned room);
  void check(bool done, std::string_view doing) const;

  const OpenSsl& openssl_ = openssl();
  SSL_CTX* const context_ = openssl_.SSL_CTX_new(openssl_.TLS_method());
  bool has_secret_ = false;
  Digest key_ = {};
};

TlsContext::TlsContext() {
  check(context_ != nullptr, "beginning");
  openssl_.SSL_CTX_ctrl(context_, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr);
  openssl_.SSL_CTX_set_options(context_, SSL_OP_ENABLE_KTLS | SSL_OP_NO_RENEGOTIATION);
  // No session is kept for a later connection.
  openssl_.SSL_CTX_set_num_tickets(context_, 0);
  openssl_.SSL_CTX_ctrl(context_, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  openssl_.SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

TlsContext::TlsContext(const Secret& secret) : TlsContext() {
  has_secret_ = true;
  key_ = secret.sign(bytes_of(kKeyPurpose), {});
  check(openssl_.SSL_CTX_set_ciphersuites(context_, kSuite) == 1, "choosing a cipher");
  openssl_.SSL_CTX_set_ex_data(context_, 0, this);
  openssl_.SSL_CTX_set_psk_client_callback(context_, offer_key);
  openssl_.SSL_CTX_set_psk_server_callback(context_, find_key);
}

TlsContext::TlsContext(const std::string& certificate, const std::string& key,
                       const std::string& authorities)
    : TlsContext() {
  check(openssl_.SSL_CTX_use_certificate_chain_file(context_, certificate.c_str()) == 1,
        certificate);
  check(openssl_.SSL_CTX_use_PrivateKey_file(context_, key.c_str(), SSL_FILETYPE_PEM) == 1, key);
  check(openssl_.SSL_CTX_check_private_key(context_) == 1, key);
  check(openssl_.SSL_CTX_load_verify_file(context_, authorities.c_str()) == 1, authorities);
}

std::unique_ptr<Line> TlsContext::make_line(int fd, bool begins) const {
  SSL* const ssl = openssl_.SSL_new(context_);
  check(ssl != nullptr, "beginning a stream");
  auto line = std::make_unique<TlsLine>(shared_from_this(), ssl, fd, begins, has_secret_);
  check(openssl_.SSL_set_fd(ssl, fd) == 1, "beginning a stream");
  if (begins) {
    openssl_.SSL_set_connect_state(ssl);
  } else {
    openssl_.SSL_set_accept_state(ssl);
    // If peers authenticate, this side refuses the session of a key without an id context.
    check(
        openssl_.SSL_set_session_id_context(ssl, bytes_of(kIdentity).data(), kIdentity.size()) == 1,
        "naming sessions");
  }
  return line;
}

unsigned TlsContext::offer_key(SSL* ssl, const char* /*hint*/, char* identity,
                               unsigned identity_room, unsigned char* key, unsigned room) {
  if (kIdentity.size() >= identity_room) return 0;
  identity[kIdentity.copy(identity, kIdentity.size())] = '\0';
  return copy_key(ssl, key, room);
}

unsigned TlsContext::find_key(SSL* ssl, const char* identity, unsigned char* key, unsigned room) {
  return identity == kIdentity ? copy_key(ssl, key, room) : 0;
}

unsigned TlsContext::copy_key(SSL* ssl, unsigned char* key, unsigned room) {
  const OpenSsl& api = openssl();
  const Digest& own =
      static_cast<const TlsContext*>(api.SSL_CTX_get_ex_data(api.SSL_get_SSL_CTX(ssl), 0))->key_;
  if (own.size() > room) return 0;
  std::ranges::copy(own, key);
  return static_cast<unsigned>(own.size());
}

void TlsContext::check(bool done, std::string_view doing) const {
  if (!done) fail(URMA_FAIL, "URMA_TCP_TLS: {:.256}: {}", doing, openssl_.error());
}

}  // namespace

std::shared_ptr<const Tls> tls_by_secret(const Secret& secret) {
  return std::make_shared<TlsContext>(secret);
}

std::shared_ptr<const Tls> tls_by_certificates(const std::string& certificate,
                                               const std::string& key,
                                               const std::string& authorities) {
  return std::make_shared<TlsContext>(certificate, key, authorities);
}

}  // namespace urma::tcp
