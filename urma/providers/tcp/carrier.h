// SPDX-License-Identifier: MIT
//
// What carries the messages of this wire: a stream of bytes to each other process, and nothing of
// URMA. Today that is TCP by the kernel, with TLS where it is asked for (socket_carrier.h).
#ifndef URMA_PROVIDERS_TCP_CARRIER_H_
#define URMA_PROVIDERS_TCP_CARRIER_H_

#include <netinet/in.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "urma_types.h"

namespace urma::tcp {

// Where a process listens. An EID is an IPv6 address, that of IPv4 as ::ffff:a.b.c.d.
struct Address {
  urma_eid_t eid;
  uint16_t port;

  bool operator==(const Address& other) const;
};

// Who is at the other end, as its greeting says. The port is where it listens, so that two
// processes that connect to each other at once keep the same one of both streams.
struct Peer {
  Address listens_at;
  std::array<uint8_t, 16> process;  // drawn at its start: another one is another process
};

enum class StreamState { kGreeting, kOpen, kLost };

// A stream to another process. One thread at a time, which its user's lock sees to. Nothing of what
// it was given is kept when a call returns, and no call waits.
class Stream {
 public:
  virtual ~Stream() = default;
  // Where it stands; goes on with its greeting first. `why` names what has ended it.
  virtual StreamState progress(std::string* why) = 0;
  // How many bytes of all pieces together were taken, or brought; 0 where none can be now, or it is
  // not open.
  virtual size_t send(std::span<const iovec> pieces) = 0;
  virtual size_t receive(std::span<const iovec> pieces) = 0;
  // Bytes lie here that the descriptor does not tell of (read ahead of a record's end).
  virtual bool has_read_ahead() const = 0;
  // What to sleep on, for EPOLLIN and where `wants_room` for EPOLLOUT too.
  virtual int fd() const = 0;
  virtual bool wants_room() const = 0;
  // Of an open one.
  virtual const Peer& peer() const = 0;
  virtual std::string who() const = 0;  // for the log: address, port
};

// One for each process and device: it listens on a port, at the addresses it was given.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual uint16_t port() const = 0;
  // At another one too, and no more. False where it cannot be had. Any thread.
  virtual bool listen_also(uint16_t port) = 0;
  virtual void stop_listening(uint16_t port) = 0;
  // Begins a stream to a process that listens at `to`, from the address `from`. NULL and `why`
  // where it cannot even begin. Any thread.
  virtual std::unique_ptr<Stream> connect(const urma_eid_t& from, const Address& to,
                                          std::string* why) = 0;
  // The next one that somebody else began, still greeting; NULL where there is none. One thread.
  virtual std::unique_ptr<Stream> accept() = 0;
  // Readable where accept() has one.
  virtual int fd() const = 0;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_CARRIER_H_
