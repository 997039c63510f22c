// SPDX-License-Identifier: MIT
//
// What TCP of the kernel does between the two processes, over loopback, with nothing in the way.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tools/bench/measure.h"
#include "tools/bench/session.h"
#include "tools/bench/timing.h"

namespace bench {
namespace {

constexpr Batches kRoundTrips = {200, 200};
constexpr Batches kWakeUps = {60, 50};

class Descriptor {
 public:
  Descriptor(int fd, const char* what) : fd_(fd) {
    if (fd < 0) fail_errno(what);
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  address.sin_port = port;
  return address;
}

int socket_of(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail_errno("socket");
  const sockaddr_in there = loopback(port);
  const auto* address = reinterpret_cast<const sockaddr*>(&there);
  const int failed = port == 0 ? ::bind(fd, address, sizeof(there)) | ::listen(fd, 1)
                               : ::connect(fd, address, sizeof(there));
  if (failed != 0) fail_errno(port == 0 ? "listening on loopback" : "connecting over loopback");
  return fd;
}

// The first process listens, the second one connects.
int accept_one(Channel& peer) {
  const Descriptor listener(socket_of(0), "socket");
  sockaddr_in here = {};
  socklen_t size = sizeof(here);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&here), &size);
  peer.send(here.sin_port);
  return ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
}

// A stream between the two processes.
class Stream {
 public:
  // `flags`: of all its calls; MSG_DONTWAIT spins, 0 sleeps.
  Stream(int fd, int flags) : fd_(fd, "accept"), flags_(flags | MSG_NOSIGNAL) {
    const int on = 1;
    ::setsockopt(fd_.get(), SOL_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  void write(const void* from, size_t bytes) const {
    for (size_t done = 0; done < bytes;) {
      done += count(::send(fd_.get(), static_cast<const char*>(from) + done, bytes - done, flags_));
    }
  }
  void read(void* into, size_t bytes) const {
    for (size_t done = 0; done < bytes;) {
      const ssize_t got = ::recv(fd_.get(), static_cast<char*>(into) + done, bytes - done, flags_);
      require(got != 0, "the bare stream has ended");
      done += count(got);
    }
  }

 private:
  static size_t count(ssize_t moved) {
    if (moved < 0 && errno != EAGAIN) fail_errno("the bare stream");
    return moved < 0 ? 0 : static_cast<size_t>(moved);
  }

  const Descriptor fd_;
  const int flags_;
};

struct StreamEnd {
  const Stream& stream;
  void send(uint64_t i) const { stream.write(&i, sizeof(i)); }
  void await(uint64_t i) const {
    uint64_t message = 0;
    stream.read(&message, sizeof(message));
    require(message == i, "the bare stream lost a message");
  }
};

Measure round_trip(const std::string& name, int flags, Batches batches) {
  return {name,
          {name, "half a " + name},
          [=](Channel& peer) -> Outcome {
            const Stream stream(accept_one(peer), flags);
            StreamEnd end{stream};
            const double time = lead(end, batches);
            return {{time, time / 2}, {}};
          },
          [=](Channel& peer) {
            const Stream stream(socket_of(peer.receive<uint16_t>()), flags);
            StreamEnd end{stream};
            follow(end, batches);
          }};
}

// One way, in pieces of `bytes` bytes.
Measure pieces(const std::string& name, size_t bytes) {
  const Batches batches = large_batches(bytes);
  return {name,
          {name},
          [=](Channel& peer) -> Outcome {
            const Stream stream(accept_one(peer), MSG_DONTWAIT);
            const Memory into = make_memory(bytes);
            const double time =
                time_steps(batches, [&](uint64_t) { stream.read(into.get(), bytes); });
            return {{static_cast<double>(bytes) * 1e9 / time}, {}};
          },
          [=](Channel& peer) {
            const Stream stream(socket_of(peer.receive<uint16_t>()), MSG_DONTWAIT);
            const Memory from = make_memory(bytes);
            for (uint64_t i = 0; i < batches.total(); i++) stream.write(from.get(), bytes);
          }};
}

}  // namespace

std::vector<Measure> socket_measures() {
  return {
      round_trip("TCP round trip", MSG_DONTWAIT, kRoundTrips),
      round_trip("TCP round trip, asleep", 0, kWakeUps),
      pieces("TCP, 64 KiB", 64 << 10),
      pieces("TCP, 1 MiB", 1 << 20),
  };
}

}  // namespace bench
