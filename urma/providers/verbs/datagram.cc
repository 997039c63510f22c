// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/datagram.h"

#include <arpa/inet.h>
#include <linux/errqueue.h>

#include <cerrno>
#include <cstring>

#include "urma/base/error.h"
#include "urma/base/held_name.h"
#include "urma/base/log.h"
#include "urma/base/own_fd.h"

namespace urma::verbs {
namespace {

constexpr size_t kIpv4At = 12;  // in an address that is IPv6
constexpr uint8_t kLinkLocalPrefix[8] = {0xfe, 0x80};
// Room for datagrams that arrive while the service thread is busy; the kernel may grant less.
constexpr int kReceiveBytes = 1 << 20;

// Whether the control data reports a closed port.
bool tells_refusal(msghdr* message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    const bool is_error = (part->cmsg_level == SOL_IP && part->cmsg_type == IP_RECVERR) ||
                          (part->cmsg_level == SOL_IPV6 && part->cmsg_type == IPV6_RECVERR);
    if (!is_error) continue;
    sock_extended_err error;
    std::memcpy(&error, CMSG_DATA(part), sizeof(error));
    const bool is_icmp =
        error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6;
    if (is_icmp && error.ee_errno == ECONNREFUSED) return true;
  }
  return false;
}

class UdpSocket final : public DatagramSocket {
 public:
  UdpSocket(const Api* api, OwnFd fd, const NetAddress& local, uint32_t netdev)
      : api_(api), fd_(std::move(fd)), local_(local), netdev_(netdev) {}

  int fd() const override { return fd_.get(); }
  NetAddress local() const override { return local_; }

  void send(const NetAddress& to, std::span<const uint8_t> bytes) override {
    SocketAddress address;
    const socklen_t length = to_socket_address(to, netdev_, &address);
    // The other address family cannot be reached from this socket.
    if (to.is_ipv4() != local_.is_ipv4()) return;
    // Twice: the first call may only return the error of an earlier datagram.
    for (int i = 0; i < 2; ++i) {
      if (api_->send_datagram(fd_.get(), bytes.data(), bytes.size(), &address.any, length) >= 0) {
        return;
      }
    }
    if (errno != EAGAIN && errno != ENOBUFS && errno != ECONNREFUSED) {
      URMA_LOG_LIMITED(WARNING, "a control message from {} to {} cannot be sent: {}", local_.text(),
                       to.text(), std::strerror(errno));
    }
  }

  Arrival receive(std::span<uint8_t> buffer, size_t* length, NetAddress* other) override {
    for (;;) {
      bool refused;
      if (!take(MSG_ERRQUEUE, buffer, length, other, &refused)) break;
      if (refused) return Arrival::kRefused;
    }
    for (;;) {
      bool refused;
      if (take(0, buffer, length, other, &refused)) return Arrival::kDatagram;
      // The error of an earlier datagram; the error queue has it too.
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Arrival::kNothing;
      if (errno == EBADF || errno == ENOTSOCK || errno == EFAULT || errno == ENOMEM) {
        return Arrival::kNothing;
      }
    }
  }

 private:
  bool take(int flags, std::span<uint8_t> buffer, size_t* length, NetAddress* other,
            bool* refused) {
    SocketAddress address = {};
    iovec part = {buffer.data(), buffer.size()};
    alignas(cmsghdr) uint8_t control[512];
    msghdr message = {};
    message.msg_name = &address;
    message.msg_namelen = sizeof(address);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = ::recvmsg(fd_.get(), &message, flags | MSG_TRUNC | MSG_DONTWAIT);
    if (got < 0) return false;
    *length = static_cast<size_t>(got);
    *other = from_socket_address(address);
    *refused = tells_refusal(&message);
    return true;
  }

  const Api* const api_;
  const OwnFd fd_;
  const NetAddress local_;
  const uint32_t netdev_;
};

void set_option(int fd, int level, int name, int value) {
  if (::setsockopt(fd, level, name, &value, sizeof(value)) != 0) {
    fail_errno(URMA_FAIL, "setting up a control socket");
  }
}

}  // namespace

socklen_t to_socket_address(const NetAddress& from, uint32_t netdev, SocketAddress* to) {
  *to = {};
  if (from.is_ipv4()) {
    to->v4.sin_family = AF_INET;
    to->v4.sin_port = htons(from.port);
    std::memcpy(&to->v4.sin_addr, from.ip + kIpv4At, sizeof(to->v4.sin_addr));
    return sizeof(to->v4);
  }
  to->v6.sin6_family = AF_INET6;
  to->v6.sin6_port = htons(from.port);
  std::memcpy(&to->v6.sin6_addr, from.ip, sizeof(from.ip));
  if (is_link_local(from.ip)) to->v6.sin6_scope_id = netdev;
  return sizeof(to->v6);
}

NetAddress from_socket_address(const SocketAddress& from) {
  NetAddress to = {};
  if (from.any.sa_family == AF_INET) {
    std::memcpy(to.ip, mapped(from.v4.sin_addr).raw, sizeof(to.ip));
    to.port = ntohs(from.v4.sin_port);
  } else if (from.any.sa_family == AF_INET6) {
    std::memcpy(to.ip, &from.v6.sin6_addr, sizeof(to.ip));
    to.port = ntohs(from.v6.sin6_port);
  }
  return to;
}

NetAddress NetAddress::host() const {
  NetAddress all = *this;
  all.port = 0;
  return all;
}

bool NetAddress::is_unicast() const {
  // 0.0.0.0/8 is no host; from 224.0.0.0 on lie multicast and broadcast.
  if (is_ipv4()) return ip[12] != 0 && ip[12] < 224;
  return ip[0] != 0xff && !is_zero(ip);
}

NetAddress address_of(const urma_eid_t& eid, LinkLayer link_layer, uint16_t port) {
  NetAddress address;
  std::memcpy(address.ip, eid.raw, sizeof(address.ip));
  address.port = port;
  if (link_layer == LinkLayer::kInfiniband) {
    std::memcpy(address.ip, kLinkLocalPrefix, sizeof(kLinkLocalPrefix));
    address.ip[8] |= 0x02;
  }
  return address;
}

std::unique_ptr<DatagramSocket> UdpNetwork::open(const NetAddress& local) {
  if (!local.is_unicast()) {
    fail(URMA_EINVAL, "no control socket at {}: not the address of one host", local.text());
  }
  SocketAddress address;
  socklen_t length = to_socket_address(local, netdev_, &address);
  const bool v4 = local.is_ipv4();
  OwnFd fd(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
  if (!fd.valid()) fail_errno(URMA_FAIL, "making a control socket");
  if (!v4) set_option(fd.get(), SOL_IPV6, IPV6_V6ONLY, 1);
  set_option(fd.get(), v4 ? SOL_IP : SOL_IPV6, v4 ? IP_RECVERR : IPV6_RECVERR, 1);
  set_option(fd.get(), SOL_SOCKET, SO_RCVBUF, kReceiveBytes);
  if (::bind(fd.get(), &address.any, length) != 0) {
    if (errno == EADDRINUSE && local.port != 0) return nullptr;
    fail_errno(URMA_FAIL,
               urma::format("binding a control socket to {} (interface {}), the address of the EID",
                            local.text(), netdev_));
  }
  length = sizeof(address);
  if (::getsockname(fd.get(), &address.any, &length) != 0) {
    fail_errno(URMA_FAIL, "asking a control socket for its address");
  }
  return std::make_unique<UdpSocket>(api_, std::move(fd), from_socket_address(address), netdev_);
}

std::string UdpNetwork::full_name(const std::string& name) const {
  return urma::format("urma-verbs-{}-{}", netdev_, name);
}

std::shared_ptr<void> UdpNetwork::claim(const std::string& name) {
  return hold_name(full_name(name));
}

bool UdpNetwork::is_claimed(const std::string& name) { return is_name_held(full_name(name)); }

}  // namespace urma::verbs
