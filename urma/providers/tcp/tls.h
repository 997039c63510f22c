// SPDX-License-Identifier: MIT
//
// TLS 1.3 by OpenSSL, in the kernel where that has it. Both sides prove who they are.
#ifndef URMA_PROVIDERS_TCP_TLS_H_
#define URMA_PROVIDERS_TCP_TLS_H_

#include <memory>
#include <string>

#include "urma/providers/tcp/greeting.h"
#include "urma/providers/tcp/line.h"

namespace urma::tcp {

// What all lines of a process have in common. Any thread.
class Tls {
 public:
  virtual ~Tls() = default;
  // Throws Error where there is no memory for it.
  virtual std::unique_ptr<Line> make_line(int fd, bool begins) const = 0;
};

// Both throw Error where it cannot be: by a key that follows from the secret, or by certificates
// of one of the authorities.
std::shared_ptr<const Tls> tls_by_secret(const Secret& secret);
std::shared_ptr<const Tls> tls_by_certificates(const std::string& certificate,
                                               const std::string& key,
                                               const std::string& authorities);

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_TLS_H_
