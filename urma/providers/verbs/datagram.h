// SPDX-License-Identifier: MIT
//
// Datagrams between the control sockets of contexts, and where they come from.
#ifndef URMA_PROVIDERS_VERBS_DATAGRAM_H_
#define URMA_PROVIDERS_VERBS_DATAGRAM_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "urma/base/ip.h"
#include "urma/providers/verbs/device.h"
#include "urma_types.h"

namespace urma::verbs {

// An address of UDP over IPv4 or IPv6. The scope of a link-local one is that of the socket.
struct NetAddress {
  uint8_t ip[16];  // network order; an IPv4 address is mapped: ::ffff:a.b.c.d
  uint16_t port;   // host order

  // The default compares with 0, not this code. NOLINTNEXTLINE(modernize-use-nullptr)
  auto operator<=>(const NetAddress&) const = default;
  bool is_ipv4() const { return urma::is_ipv4(ip); }
  // The address of one host: not unspecified, multicast or broadcast.
  bool is_unicast() const;
  // All its ports together.
  NetAddress host() const;
  std::string text() const { return text_of(ip, port); }
};

inline bool same_host(const NetAddress& a, const NetAddress& b) { return a.host() == b.host(); }

// The address of the control sockets of an EID. On InfiniBand that is the port's IPoIB interface:
// its link-local address follows from the GID (RFC 4391, section 8). Never run on InfiniBand.
NetAddress address_of(const urma_eid_t& eid, LinkLayer link_layer, uint16_t port);

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};
// `netdev` is the scope if the address is link-local. Returns the length.
socklen_t to_socket_address(const NetAddress& from, uint32_t netdev, SocketAddress* to);
NetAddress from_socket_address(const SocketAddress& from);

// What receive() found.
enum class Arrival {
  kNothing,
  kDatagram,
  kRefused,  // the bytes are the start of our datagram to a closed port
};

// Never blocks. On the service thread.
class DatagramSocket {
 public:
  virtual ~DatagramSocket() = default;
  virtual int fd() const = 0;
  virtual NetAddress local() const = 0;
  // A datagram that cannot be sent is lost, like one that the network loses.
  virtual void send(const NetAddress& to, std::span<const uint8_t> bytes) = 0;
  // A datagram longer than the buffer fills it, and *length is its whole length. For a refused one,
  // *other is its destination.
  virtual Arrival receive(std::span<uint8_t> buffer, size_t* length, NetAddress* other) = 0;
};

class DatagramNetwork {
 public:
  virtual ~DatagramNetwork() = default;
  // Port 0: any free one. NULL if another socket has the port; throws Error on other failures.
  virtual std::unique_ptr<DatagramSocket> open(const NetAddress& local) = 0;
  // Holds a name, which only one process on this network and machine can hold, while the pointer
  // lives. NULL if another holds it; throws Error on other failures.
  virtual std::shared_ptr<void> claim(const std::string& name) = 0;
  // Whether anybody holds it. Any thread; throws Error if that cannot be determined.
  virtual bool is_claimed(const std::string& name) = 0;
};

// The machine's own network.
class UdpNetwork final : public DatagramNetwork {
 public:
  // `netdev` is the scope of link-local addresses: the index of the device's network interface.
  UdpNetwork(const Api* api, uint32_t netdev) : api_(api), netdev_(netdev) {}
  std::unique_ptr<DatagramSocket> open(const NetAddress& local) override;
  // See hold_name().
  std::shared_ptr<void> claim(const std::string& name) override;
  bool is_claimed(const std::string& name) override;

 private:
  std::string full_name(const std::string& name) const;

  const Api* const api_;
  const uint32_t netdev_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_DATAGRAM_H_
