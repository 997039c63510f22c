// SPDX-License-Identifier: MIT
//
// Where a process listens for streams, and from where it starts them: the kernel's TCP. Sockets
// never block, end with the process even if its children live on, and report a peer that owes an
// acknowledgement for too long.
#ifndef URMA_PROVIDERS_TCP_CARRIER_H_
#define URMA_PROVIDERS_TCP_CARRIER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "urma/base/fd.h"
#include "urma/base/mutex.h"
#include "urma/base/own_fd.h"
#include "urma/base/random.h"
#include "urma/providers/tcp/address.h"
#include "urma/providers/tcp/greeting.h"
#include "urma/providers/tcp/newcomers.h"
#include "urma/providers/tcp/stream.h"
#include "urma/providers/tcp/tls.h"

namespace urma::tcp {

struct CarrierConfig {
  std::vector<urma_eid_t> addresses;  // where it listens at first
  uint16_t first_port = 0;            // 0: any
  uint16_t last_port = 0;
  uint64_t timeout_ms = 1000;            // of a greeting, and of a missing acknowledgement
  std::shared_ptr<const Secret> secret;  // NULL: none
  std::shared_ptr<const Tls> tls;        // NULL: no encryption
};

// One for each process and device: it listens on a port, at its addresses.
class Carrier {
 public:
  // Throws Error if no port can be had.
  explicit Carrier(const CarrierConfig& config);

  uint16_t port() const { return port_; }
  // As Peer's.
  const std::array<uint8_t, 16>& process() const { return process_; }
  // On one more port, at most. False if it cannot be had. Any thread.
  bool listen_also(uint16_t port);
  void stop_listening(uint16_t port);
  // At one more address, on all its ports. If it cannot: false, and logged, or Error. Any thread.
  bool listen_at(const urma_eid_t& eid);
  // Starts a stream from the address `from` to a process that listens at `to`. NULL and `why` if it
  // cannot even start. Any thread.
  std::unique_ptr<Stream> connect(const urma_eid_t& from, const Address& to, std::string* why);
  // The next stream that another process started, still greeting; NULL if there is none. One
  // thread.
  std::unique_ptr<Stream> accept();
  // Of all its streams, as urma_ext_protection_t.
  uint32_t protection() const;
  // Readable when accept() has one.
  int fd() const { return epoll_.get(); }

 private:
  void listen();
  // 0, or the error.
  int listen_on(uint16_t port) URMA_REQUIRES(mutex_);
  void control(int how, int fd, uint32_t events);
  // Whether fd() reports the listeners, or ignores them for a moment.
  void look_at_listeners(bool look) URMA_REQUIRES(mutex_);
  OwnFd next_socket();
  void prepare(int fd) const;
  std::unique_ptr<Stream> make_stream(OwnFd fd, Greeting::Role role, const Address& here,
                                      const Address& there, std::string* why);

  const CarrierConfig config_;
  const std::array<uint8_t, 16> process_ = random_value<std::array<uint8_t, 16>>();
  const std::shared_ptr<Newcomers> newcomers_;
  const Fd epoll_;
  Mutex mutex_;
  std::vector<urma_eid_t> addresses_ URMA_GUARDED_BY(mutex_) = config_.addresses;
  std::map<uint16_t, std::vector<OwnFd>> listeners_ URMA_GUARDED_BY(mutex_);  // by port
  uint16_t port_ = 0;
};

inline std::unique_ptr<Carrier> make_socket_carrier(const CarrierConfig& config) {
  return std::make_unique<Carrier>(config);
}

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_CARRIER_H_
