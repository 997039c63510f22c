// SPDX-License-Identifier: MIT
//
// How the two sides connect.

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "tools/perftest/exchange.h"
#include "tools/perftest/run.h"

namespace perftest {
namespace {

constexpr int kTries = 5;
constexpr int kPauseMs = 100;     // times the number of the attempt
constexpr int kConnectMs = 2000;  // of one attempt
constexpr int kSliceMs = 100;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve_host(const Config& config, const char* host, uint16_t port, int flags) {
  addrinfo hints = {};
  hints.ai_family = config.ipv6 ? AF_INET6 : AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (error == 0) return {found, freeaddrinfo};
  throw RunError(std::string("no address of ") + (host == nullptr ? "this machine" : host) +
                 (config.ipv6 ? " (IPv6)" : " (IPv4)") + ": " + gai_strerror(error));
}

const char* bind_host(const Config& config) {
  return config.bind_ip.empty() ? nullptr : config.bind_ip.c_str();
}

void pause_for(int milliseconds) {
  for (; milliseconds > 0; milliseconds -= kSliceMs) {
    if (interrupted) throw Interrupted();
    poll(nullptr, 0, std::min(milliseconds, kSliceMs));
  }
}

// Waits until a connection is made, and returns 0 or an errno number.
int finish_connect(int socket) {
  for (int waited = 0; waited < kConnectMs; waited += kSliceMs) {
    if (interrupted) return EINTR;
    pollfd wait = {socket, POLLOUT, 0};
    if (poll(&wait, 1, kSliceMs) <= 0) continue;
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
  }
  return ETIMEDOUT;
}

int bind_source(const Config& config, int socket) {
  if (config.bind_ip.empty()) return 0;
  const Addresses source = resolve_host(config, bind_host(config), 0, AI_PASSIVE);
  return bind(socket, source->ai_addr, source->ai_addrlen) == 0 ? 0 : errno;
}

// Returns a socket, or a negative errno number.
int try_address(const Config& config, const addrinfo& address) {
  const int type = address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK;
  const int socket = ::socket(address.ai_family, type, address.ai_protocol);
  if (socket < 0) return -errno;
  int error = bind_source(config, socket);
  if (error == 0 && ::connect(socket, address.ai_addr, address.ai_addrlen) != 0) {
    error = errno == EINPROGRESS ? finish_connect(socket) : errno;
  }
  if (error == 0) return socket;
  close(socket);
  return -error;
}

int try_host(const Config& config, uint16_t port) {
  const Addresses addresses = resolve_host(config, config.server->c_str(), port, 0);
  int result = -ECONNREFUSED;
  for (const addrinfo* each = addresses.get(); each != nullptr && result < 0;
       each = each->ai_next) {
    result = try_address(config, *each);
  }
  return result;
}

// The connection of one pair. UMDK's server accepts it on the port of the pair; a server that
// listens only on the first port accepts it there.
int connect_pair(const Config& config, uint32_t pair) {
  int result = -ECONNREFUSED;
  for (int attempt = 1; attempt <= kTries; attempt++) {
    result = try_host(config, static_cast<uint16_t>(config.port + pair));
    if (result < 0 && pair > 0) result = try_host(config, config.port);
    if (result >= 0) return result;
    pause_for(kPauseMs * attempt);
  }
  throw RunError("cannot connect to " + *config.server + " port " +
                 std::to_string(config.port + pair) + " in " + std::to_string(kTries) +
                 " tries: " + strerror(-result) + "; start the server first");
}

// Returns a socket, or -1 with errno.
int listen_on(const Config& config, uint16_t port) {
  const Addresses addresses = resolve_host(config, bind_host(config), port, AI_PASSIVE);
  const int type = addresses->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK;
  const int socket = ::socket(addresses->ai_family, type, addresses->ai_protocol);
  if (socket < 0) return -1;
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(socket, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
  if (bind(socket, addresses->ai_addr, addresses->ai_addrlen) == 0 &&
      listen(socket, SOMAXCONN) == 0) {
    return socket;
  }
  const int error = errno;
  close(socket);
  errno = error;
  return -1;
}

uint16_t port_of(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  // Both families have the port at the same offset.
  return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace

Exchange Exchange::connect(const Config& config) {
  Exchange exchange({});
  for (uint32_t pair = 0; pair < config.pair_num; pair++) {
    exchange.sockets_.push_back(connect_pair(config, pair));
  }
  return Exchange(std::exchange(exchange.sockets_, {}));
}

Listener::Listener(const Config& config) : pairs_(config.pair_num) {
  const int first = listen_on(config, config.port);
  if (first < 0) {
    throw RunError("cannot listen on " + (config.bind_ip.empty() ? "any address" : config.bind_ip) +
                   " port " + std::to_string(config.port) + ": " + strerror(errno));
  }
  listeners_.push_back(first);
  port_ = port_of(first);
  for (uint32_t pair = 1; pair < pairs_ && config.port != 0; pair++) {
    // A port in use is no error: the client falls back to the first.
    const int next = listen_on(config, static_cast<uint16_t>(config.port + pair));
    listeners_.push_back(next);
  }
}

Listener::~Listener() {
  for (const int listener : listeners_) {
    if (listener >= 0) close(listener);
  }
}

// Gives a connection from the listener of one pair to that pair, or to the first without one.
void Listener::accept_one(size_t listener, std::vector<int>& sockets) {
  const int socket = accept4(listeners_[listener], nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) return;  // already gone again
  const auto wished = sockets.begin() + static_cast<std::ptrdiff_t>(listener);
  const auto place = *wished < 0 ? wished : std::find(sockets.begin(), sockets.end(), -1);
  if (place == sockets.end()) {
    close(socket);
  } else {
    *place = socket;
  }
}

Exchange Listener::accept_clients() {
  std::vector<int> sockets(pairs_, -1);
  std::vector<pollfd> waits;
  for (const int listener : listeners_) waits.push_back({listener, POLLIN, 0});
  while (std::find(sockets.begin(), sockets.end(), -1) != sockets.end()) {
    if (interrupted) {
      for (const int socket : sockets) {
        if (socket >= 0) close(socket);
      }
      throw Interrupted();
    }
    if (poll(waits.data(), waits.size(), kSliceMs) <= 0) continue;
    for (size_t i = 0; i < waits.size(); i++) {
      if ((waits[i].revents & POLLIN) != 0) accept_one(i, sockets);
    }
  }
  return Exchange(std::move(sockets));
}

}  // namespace perftest
