// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/carrier.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/providers/tcp/line.h"
#include "urma_ext.h"

namespace urma::tcp {
namespace {

constexpr int kBacklog = 4096;
// Ports to try that the kernel offers for the first address, until one is free at all of them.
constexpr int kMostOffers = 100;
// Pause after a failed accept, before the next try.
constexpr uint64_t kPauseNs = 10'000'000;

constexpr int kKeepIdleSeconds = 10;

void set_option(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof(value));
}

OwnFd make_socket(const urma_eid_t& at) {
  const int family = is_ipv4(at) ? AF_INET : AF_INET6;
  return OwnFd(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

bool bind_to(int fd, const Address& at) {
  const SocketAddress address(at);
  return ::bind(fd, address.get(), address.size()) == 0;
}

// Not valid, with *error, if the address or the port cannot be had.
OwnFd make_listener(const Address& at, int* error) {
  OwnFd fd = make_socket(at.eid);
  if (fd.valid()) {
    // Keeps listening at an address that goes and comes back.
    set_option(fd.get(), SOL_IP, IP_FREEBIND, 1);
    // A restarted process can take the port that its old connections still use.
    set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind_to(fd.get(), at) && ::listen(fd.get(), kBacklog) == 0) return fd;
  }
  *error = errno;
  return OwnFd();
}

// The program needs some, too: whether three quarters are taken. The kernel gives the lowest free
// number.
bool descriptors_are_scarce() {
  rlimit files = {};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const Fd next(::eventfd(0, EFD_CLOEXEC));
  return !next.valid() || static_cast<rlim_t>(next.get()) >= files.rlim_cur / 4 * 3;
}

// After accept4(2): the connection has ended already, or another thread has taken it.
bool is_of_one_connection(int error) {
  constexpr int kThose[] = {EAGAIN,   EINTR,       ECONNABORTED, EPROTO,
                            ENETDOWN, ENETUNREACH, EHOSTDOWN,    EHOSTUNREACH,
                            ENONET,   ENOPROTOOPT, EOPNOTSUPP,   ETIMEDOUT};
  return std::ranges::find(kThose, error) != std::end(kThose);
}

}  // namespace

Carrier::Carrier(const CarrierConfig& config)
    : config_(config),
      newcomers_(std::make_shared<Newcomers>(config.timeout_ms * 1'000'000)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_.valid()) fail_errno(URMA_FAIL, "making an epoll descriptor");
  listen();
  control(EPOLL_CTL_ADD, newcomers_->fd(), EPOLLIN);
}

void Carrier::listen() {
  const MutexLock lock(mutex_);
  const bool any = config_.first_port == 0;
  const int tries = any ? kMostOffers : config_.last_port - config_.first_port + 1;
  int error = 0;
  for (int i = 0; i < tries; ++i) {
    error = listen_on(static_cast<uint16_t>(any ? 0 : config_.first_port + i));
    if (error == 0) return;
    if (error != EADDRINUSE && error != EACCES) break;
  }
  fail(URMA_FAIL, "cannot listen on any port of {}-{}: {}; see URMA_TCP_PORT and URMA_TCP_DEVICES",
       config_.first_port, config_.last_port, std::strerror(error));
}

int Carrier::listen_on(uint16_t port) {
  std::vector<OwnFd> listeners;
  for (const urma_eid_t& eid : addresses_) {
    int error = 0;
    OwnFd fd = make_listener({eid, port}, &error);
    if (!fd.valid()) return error;
    if (port == 0) port = SocketAddress::local_of(fd.get()).port;
    listeners.push_back(std::move(fd));
  }
  for (const OwnFd& fd : listeners) control(EPOLL_CTL_ADD, fd.get(), EPOLLIN);
  listeners_[port] = std::move(listeners);
  if (port_ == 0) port_ = port;
  return 0;
}

uint32_t Carrier::protection() const {
  uint32_t protection = 0;
  if (config_.secret != nullptr) protection |= URMA_EXT_PROTECTION_SECRET;
  if (config_.tls != nullptr) protection |= URMA_EXT_PROTECTION_TLS;
  return protection;
}

bool Carrier::listen_also(uint16_t port) {
  const MutexLock lock(mutex_);
  return listeners_.contains(port) || listen_on(port) == 0;
}

void Carrier::stop_listening(uint16_t port) {
  const MutexLock lock(mutex_);
  if (port != port_) listeners_.erase(port);
}

bool Carrier::listen_at(const urma_eid_t& eid) {
  const MutexLock lock(mutex_);
  std::map<uint16_t, OwnFd> more;
  addresses_.reserve(addresses_.size() + 1);
  for (auto& [port, listeners] : listeners_) {
    int error = EMFILE;
    OwnFd fd = descriptors_are_scarce() ? OwnFd() : make_listener({eid, port}, &error);
    if (!fd.valid()) {
      URMA_LOG_LIMITED(WARNING, "a new address is no EID: listening at {}: {}",
                       text_of(Address{eid, port}), std::strerror(error));
      return false;
    }
    control(EPOLL_CTL_ADD, fd.get(), EPOLLIN);
    listeners.reserve(listeners.size() + 1);
    more.emplace(port, std::move(fd));
  }
  // From here on nothing fails.
  addresses_.push_back(eid);
  for (auto& [port, fd] : more) listeners_[port].push_back(std::move(fd));
  return true;
}

void Carrier::control(int how, int fd, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), how, fd, &event) != 0) fail_errno(URMA_FAIL, "watching a port");
}

void Carrier::look_at_listeners(bool look) {
  for (const auto& [port, listeners] : listeners_) {
    for (const OwnFd& fd : listeners)
      control(EPOLL_CTL_MOD, fd.get(), look ? uint32_t{EPOLLIN} : 0);
  }
}

std::unique_ptr<Stream> Carrier::accept() {
  for (;;) {
    OwnFd fd = next_socket();
    if (!fd.valid()) return nullptr;
    prepare(fd.get());
    const Address here = SocketAddress::local_of(fd.get());
    const Address there = SocketAddress::peer_of(fd.get());
    // It was reset before it was accepted.
    if (there.port == 0) continue;
    std::string why;
    auto stream = make_stream(std::move(fd), Greeting::Role::kAnswers, here, there, &why);
    if (stream != nullptr) return stream;
    URMA_LOG_LIMITED(WARNING, "a connection from {} failed: {}", text_of(there), why);
  }
}

OwnFd Carrier::next_socket() {
  // Keeps the listeners alive meanwhile.
  const MutexLock lock(mutex_);
  for (;;) {
    epoll_event event;
    if (::epoll_wait(epoll_.get(), &event, 1, 0) != 1) return OwnFd();
    if (event.data.fd == newcomers_->fd()) {
      newcomers_->expire();
      look_at_listeners(true);
      continue;
    }
    const bool scarce = descriptors_are_scarce();
    const bool room = newcomers_->has_room(scarce);
    if (room) {
      OwnFd fd = OwnFd::accept(event.data.fd);
      if (fd.valid()) return fd;
      if (is_of_one_connection(errno)) continue;
    }
    if (room || scarce) {
      URMA_LOG_LIMITED(WARNING,
                       "a connection cannot be accepted now: {}; raise the limit of "
                       "descriptors (ulimit -n)",
                       room ? std::strerror(errno) : "three quarters are taken");
    }
    newcomers_->wake_in(kPauseNs);
    look_at_listeners(false);
  }
}

std::unique_ptr<Stream> Carrier::connect(const urma_eid_t& from, const Address& to,
                                         std::string* why) {
  OwnFd fd = make_socket(to.eid);
  if (fd.valid()) {
    prepare(fd.get());
    // Otherwise the port would be taken from all connections, not only from those to this peer.
    set_option(fd.get(), SOL_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    const SocketAddress address(to);
    if (bind_to(fd.get(), {from, 0}) &&
        (::connect(fd.get(), address.get(), address.size()) == 0 || errno == EINPROGRESS)) {
      return make_stream(std::move(fd), Greeting::Role::kBegins, {from, 0}, to, why);
    }
  }
  *why = urma::format("connecting to it from {}: {}", text_of(from), std::strerror(errno));
  return nullptr;
}

// A peer that vanishes is detected by its missing acknowledgements: before the time of requests is
// over, whose own clock runs beside it.
void Carrier::prepare(int fd) const {
  set_option(fd, SOL_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_TCP, TCP_USER_TIMEOUT, static_cast<int>(config_.timeout_ms * 3 / 4));
  // The kernel detects an idle peer that has lost its power.
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, SOL_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set_option(fd, SOL_TCP, TCP_KEEPINTVL, kKeepIdleSeconds);
}

std::unique_ptr<Stream> Carrier::make_stream(OwnFd fd, Greeting::Role role, const Address& here,
                                             const Address& there, std::string* why) {
  try {
    const bool begins = role == Greeting::Role::kBegins;
    Hello ours = {};
    ours.magic = kGreetingMagic;
    ours.version = kGreetingVersion;
    ours.port = port_;
    ours.called = begins ? there.port : here.port;
    ours.process = process_;
    ours.nonce = random_value<decltype(ours.nonce)>();
    ours.from = here.eid;
    ours.to = there.eid;
    auto line = config_.tls == nullptr ? std::make_unique<Line>(fd.get())
                                       : config_.tls->make_line(fd.get(), begins);
    return std::make_unique<Stream>(std::move(fd), std::move(line),
                                    Greeting(role, ours, config_.secret), there, newcomers_,
                                    !begins);
  } catch (const Error& error) {
    *why = error.what();
    return nullptr;
  }
}

}  // namespace urma::tcp
