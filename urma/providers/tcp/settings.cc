// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/settings.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <charconv>
#include <string>
#include <vector>

#include "urma/base/error.h"
#include "urma/base/fd.h"
#include "urma/base/text.h"
#include "urma/providers/tcp/openssl.h"

namespace urma::tcp {
namespace {

constexpr PortRange kPorts = {20000, 28191};
constexpr size_t kLeastSecret = 16;
constexpr size_t kMostSecret = 4096;

class HmacSecret final : public Secret {
 public:
  explicit HmacSecret(const std::string& bytes) : bytes_(bytes) {}

  Digest sign(std::span<const uint8_t> first, std::span<const uint8_t> second) const override {
    std::vector<uint8_t> both(first.begin(), first.end());
    both.insert(both.end(), second.begin(), second.end());
    Digest digest;
    if (ssl_.HMAC(ssl_.EVP_sha256(), bytes_.data(), static_cast<int>(bytes_.size()), both.data(),
                  both.size(), digest.data(), nullptr) == nullptr) {
      fail(URMA_FAIL, "OpenSSL cannot make an HMAC: {}", ssl_.error());
    }
    return digest;
  }
  bool equal(const Digest& a, const Digest& b) const override {
    return ssl_.CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
  }

 private:
  const OpenSsl& ssl_ = openssl();
  const std::string bytes_;
};

std::string read_file(const Fd& file, size_t most) {
  std::string text(most + 1, '\0');
  size_t have = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), text.data() + have, text.size() - have);
    if (got <= 0) break;
    have += static_cast<size_t>(got);
  }
  text.resize(have);
  return text;
}

// Without the final newline that an editor adds. NULL if no file is set.
std::shared_ptr<const Secret> read_secret(const std::string& path) {
  if (path.empty()) return nullptr;
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    fail_errno(URMA_FAIL, urma::format("URMA_TCP_SECRET_FILE: opening {:.256}", path));
  }
  if ((status.st_mode & S_IRWXO) != 0) {
    fail(URMA_ENOPERM, "URMA_TCP_SECRET_FILE: {:.256} is open to all users, mode {:o}; chmod o= it",
         path, status.st_mode & 07777);
  }
  std::string secret = read_file(file, kMostSecret);
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() < kLeastSecret || secret.size() > kMostSecret) {
    fail(URMA_EINVAL,
         "URMA_TCP_SECRET_FILE: {:.256} has {} bytes, allowed are {} to {}; make one with openssl "
         "rand -hex 32",
         path, secret.size(), kLeastSecret, kMostSecret);
  }
  return make_secret(secret);
}

}  // namespace

std::shared_ptr<const Secret> make_secret(const std::string& bytes) {
  return std::make_shared<HmacSecret>(bytes);
}

std::shared_ptr<const Tls> read_tls(const std::string& setting, const Secret* secret) {
  if (setting == "off") return nullptr;
  if (setting == "psk") {
    if (secret == nullptr) fail(URMA_EINVAL, "URMA_TCP_TLS=psk needs URMA_TCP_SECRET_FILE");
    return tls_by_secret(*secret);
  }
  const auto files = split_at_commas(setting);
  if (files.size() != 3) {
    fail(URMA_EINVAL,
         "URMA_TCP_TLS={:.256}: allowed are off, psk, or three files: certificate,key,authorities",
         setting);
  }
  return tls_by_certificates(std::string(files[0]), std::string(files[1]), std::string(files[2]));
}

PortRange port_range(const Settings& settings) {
  const std::string text = settings.text("URMA_TCP_PORT");
  if (text.empty()) return kPorts;
  unsigned first = 0;
  unsigned last = 0;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, first);
  last = first;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
    read = std::from_chars(read.ptr + 1, end, last);
  }
  if (read.ec != std::errc() || read.ptr != end || first == 0 || last < first || last > 65535) {
    fail(URMA_EINVAL, "URMA_TCP_PORT={}: give one port, or low-high, of 1 to 65535", text);
  }
  return {static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
}

uint64_t timeout_ms(const Settings& settings) { return settings.number("URMA_TCP_TIMEOUT_MS"); }

CarrierConfig carrier_config(const Settings& settings, std::span<const urma_eid_t> addresses,
                             const PortRange& ports) {
  CarrierConfig config;
  config.addresses.assign(addresses.begin(), addresses.end());
  config.first_port = ports.first;
  config.last_port = ports.last;
  config.timeout_ms = timeout_ms(settings);
  config.secret = read_secret(settings.text("URMA_TCP_SECRET_FILE"));
  config.tls = read_tls(settings.text("URMA_TCP_TLS"), config.secret.get());
  return config;
}

}  // namespace urma::tcp
