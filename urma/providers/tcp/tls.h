// SPDX-License-Identifier: MIT
//
// TLS 1.3 by OpenSSL, in the kernel if that supports it. Both sides authenticate.
#ifndef URMA_PROVIDERS_TCP_TLS_H_
#define URMA_PROVIDERS_TCP_TLS_H_

#include <memory>
#include <string>

#include "urma/providers/tcp/greeting.h"
#include "urma/providers/tcp/line.h"

namespace urma::tcp {

// Common to all lines of a process. Any thread.
class Tls {
 public:
  virtual ~Tls() = default;
  // Throws Error if out of memory.
  virtual std::unique_ptr<Line> make_line(int fd, bool begins) const = 0;
};

// Both throw Error on failure: with a key derived from the secret, or with certificates of one of
// the authorities.
std::shared_ptr<const Tls> tls_by_secret(const Secret& secret);
std::shared_ptr<const Tls> tls_by_certificates(const std::string& certificate,
                                               const std::string& key,
                                               const std::string& authorities);

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_TLS_H_
