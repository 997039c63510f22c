// SPDX-License-Identifier: MIT

#include "tools/perftest/exchange.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/perftest/run.h"

namespace perftest {
namespace {

constexpr int kSliceMs = 100;          // how often a wait checks for an interrupt
constexpr int64_t kLookEveryMs = 100;  // how often measuring loops ask the kernel about the peer
constexpr int64_t kGraceMs = 2000;     // what a wait may still take after an interrupt

int64_t now_ms() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

[[noreturn]] void vanished() { throw RunError("the peer vanished: it closed its connection"); }

// A vanished machine answers no keep-alive; 2 s are enough. Fails for the sockets of --loopback,
// which do not need it.
void tune(int socket) {
  const int on = 1;
  const int second = 1;
  const int limit_ms = 2000;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof(second));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof(second));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof(limit_ms));
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

bool is_transient() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// The limit of one wait; Ctrl-C shortens it.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout)
      : timeout_(timeout), end_(timeout.count() < 0 ? INT64_MAX : now_ms() + timeout.count()) {}

  void check() {
    const int64_t now = now_ms();
    if (interrupted && !shortened_) {
      shortened_ = true;
      end_ = std::min(end_, now + kGraceMs);
    }
    if (now < end_) return;
    if (shortened_) throw Interrupted();
    throw RunError("the peer did not answer within " + std::to_string(timeout_.count()) + " ms");
  }

 private:
  std::chrono::milliseconds timeout_;
  int64_t end_;
  bool shortened_ = false;
};

// Sends what fits of `out`, and returns the rest.
std::span<const uint8_t> send_some(int socket, std::span<const uint8_t> out) {
  const ssize_t sent = send(socket, out.data(), out.size(), MSG_NOSIGNAL);
  if (sent >= 0) return out.subspan(static_cast<size_t>(sent));
  // The peer may have sent the reason before it went: the receiving half finds its end.
  if (errno == EPIPE || errno == ECONNRESET) return {};
  if (!is_transient()) throw RunError(std::string("cannot send to the peer: ") + strerror(errno));
  return out;
}

std::span<uint8_t> receive_some(int socket, std::span<uint8_t> in) {
  const ssize_t received = recv(socket, in.data(), in.size(), 0);
  if (received > 0) return in.subspan(static_cast<size_t>(received));
  if (received == 0 || errno == ECONNRESET) vanished();
  if (errno == ETIMEDOUT) throw RunError("the peer vanished: its machine does not answer");
  if (!is_transient())
    throw RunError(std::string("cannot receive from the peer: ") + strerror(errno));
  return in;
}

}  // namespace

Exchange::Exchange(std::vector<int> sockets) : sockets_(std::move(sockets)) {
  for (const int socket : sockets_) tune(socket);
}

Exchange& Exchange::operator=(Exchange&& other) noexcept {
  std::swap(sockets_, other.sockets_);
  timeout_ = other.timeout_;
  next_look_ms_ = other.next_look_ms_;
  alive_ = other.alive_;
  quit_seen_ = other.quit_seen_;
  data_waiting_ = other.data_waiting_;
  extended_ = other.extended_;
  says_end_ = other.says_end_;
  return *this;
}

Exchange::~Exchange() {
  for (const int socket : sockets_) close(socket);
}

std::pair<Exchange, Exchange> Exchange::make_pair() {
  int ends[2] = {};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw RunError(std::string("no socket pair: ") + strerror(errno));
  }
  return {Exchange({ends[0]}), Exchange({ends[1]})};
}

// Both directions at once: two sides that each first send a large blob would wait for each other.
void Exchange::transfer(int socket, std::span<const uint8_t> out, std::span<uint8_t> in) {
  Deadline deadline(timeout_);
  while (!out.empty() || !in.empty()) {
    pollfd wait = {socket, 0, 0};
    if (!out.empty()) wait.events |= POLLOUT;
    if (!in.empty()) wait.events |= POLLIN;
    if (poll(&wait, 1, kSliceMs) > 0) {
      if (!out.empty()) out = send_some(socket, out);
      if (!in.empty()) in = receive_some(socket, in);
    }
    if (!out.empty() || !in.empty()) deadline.check();
  }
}

void Exchange::sync_data(const void* out, void* in, size_t size, size_t pair) {
  // `in` may be `out`, and received bytes must not be sent back.
  const auto* bytes = static_cast<const uint8_t*>(out);
  const std::vector<uint8_t> copy(bytes, bytes + size);
  transfer(sockets_.at(pair), copy, {static_cast<uint8_t*>(in), size});
}

std::vector<uint8_t> Exchange::sync_blob(std::span<const uint8_t> blob, size_t pair) {
  const auto mine = static_cast<uint32_t>(blob.size());
  uint32_t peers = 0;
  sync_data(&mine, &peers, sizeof(mine), pair);
  if (peers == 0 || peers > kMaxBlob) {
    throw RunError("the peer announces a blob of " + std::to_string(peers) +
                   " bytes; allowed are 1 to " + std::to_string(kMaxBlob));
  }
  std::vector<uint8_t> out(blob.begin(), blob.end());
  out.resize(std::max(mine, peers));
  std::vector<uint8_t> in(out.size());
  transfer(sockets_.at(pair), out, in);
  in.resize(peers);
  return in;
}

void Exchange::sync_time(std::string_view tag) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(tag.data());
  for (const int socket : sockets_) {
    std::vector<uint8_t> in(tag.size());
    const std::span<uint8_t> place(in);
    transfer(socket, {bytes, tag.size()}, place.first(1));
    while (in[0] == 'Q') {
      quit_seen_ = true;
      transfer(socket, {}, place.first(1));
    }
    transfer(socket, {}, place.subspan(1));
    if (std::memcmp(in.data(), tag.data(), tag.size()) == 0) continue;
    std::string got(in.begin(), in.end());
    std::replace_if(
        got.begin(), got.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    throw RunError("the peer is out of step: it sent '" + got + "' in place of '" +
                   std::string(tag) + "'");
  }
}

bool Exchange::due() {
  const int64_t now = now_ms();
  if (now < next_look_ms_) return false;
  next_look_ms_ = now + kLookEveryMs;
  return true;
}

// A 'Q' is a quit notice only where one may come: elsewhere it is the first byte of other data.
void Exchange::look(bool quit_may_come) {
  data_waiting_ = true;
  for (const int socket : sockets_) {
    uint8_t first = 0;
    const ssize_t found = recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    const bool quit = found == 1 && first == 'Q' && quit_may_come;
    if (quit) {
      quit_seen_ = true;
      (void)recv(socket, &first, 1, MSG_DONTWAIT);
    }
    data_waiting_ = data_waiting_ && found == 1 && !quit;
    // The peer's last words may lie before its end.
    pollfd state = {socket, POLLRDHUP, 0};
    const bool hung_up =
        poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR));
    if (hung_up) alive_ = false;
  }
}

bool Exchange::peer_alive() {
  if (alive_ && due()) look(false);
  return alive_;
}

void Exchange::check_peer() {
  if (!peer_alive()) vanished();
}

void Exchange::notify_quit() {
  constexpr uint8_t kQuit = 'Q';
  for (const int socket : sockets_) transfer(socket, {&kQuit, 1}, {});
}

bool Exchange::quit_seen() {
  if (!quit_seen_ && due()) look(true);
  return quit_seen_;
}

bool Exchange::data_within(int ms) {
  std::vector<pollfd> waits;
  for (const int socket : sockets_) waits.push_back({socket, POLLIN, 0});
  return poll(waits.data(), waits.size(), ms) > 0;
}

bool Exchange::wait_for_data() {
  while (!interrupted) {
    if (data_within(kSliceMs)) return true;
  }
  return false;
}

bool Exchange::has_data() { return due() && data_within(0); }

bool Exchange::data_waiting() {
  if (due()) look(false);
  return data_waiting_;
}

}  // namespace perftest
