// SPDX-License-Identifier: MIT
//
// Carries the messages of this wire: a stream of bytes to each other process, without any URMA.
// Today that is the kernel's TCP, with TLS on request (socket_carrier.h).
#ifndef URMA_PROVIDERS_TCP_CARRIER_H_
#define URMA_PROVIDERS_TCP_CARRIER_H_

#include <netinet/in.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "urma_types.h"

namespace urma::tcp {

// Where a process listens. An EID is an IPv6 address, that of IPv4 as ::ffff:a.b.c.d.
struct Address {
  urma_eid_t eid;
  uint16_t port;
};

// The other end, as its greeting describes it. The port is where it listens, not that of the
// stream.
struct Peer {
  Address listens_at;
  // Drawn at its start: a restarted process has another one. Of two streams that two processes
  // begin to each other at once, between the same addresses, it decides which one stays.
  std::array<uint8_t, 16> process;
};

// What a stream has carried since it was opened. Any thread reads.
struct Carried {
  std::atomic<uint64_t> sent{0};
  std::atomic<uint64_t> received{0};
};

enum class StreamState { kGreeting, kOpen, kLost };

// A stream to another process. One thread at a time: its user's lock ensures that. A call keeps
// none of its arguments, and does not wait.
class Stream {
 public:
  virtual ~Stream() = default;
  // Its state, after continuing its greeting. `why` tells what has ended it.
  virtual StreamState progress(std::string* why) = 0;
  // The bytes taken or delivered, of all pieces together; 0 if none can be now, or it is not open.
  virtual size_t send(std::span<const iovec> pieces) = 0;
  // The same, but they may wait in the kernel for the next send() or push(). If the process ends
  // before, they leave with its end, unless bytes have come that it has not received.
  virtual size_t send_ahead(std::span<const iovec> pieces) = 0;
  virtual void push() = 0;
  // Less than asked for: no more has come.
  virtual size_t receive(std::span<const iovec> pieces) = 0;
  // Whether receive() delivers nothing to pieces that no memory backs, instead of a fault.
  virtual bool tells_faults() const = 0;
  // Whether that was so in the last receive(): bytes have come, and have to go elsewhere. The first
  // of those places may be backed: the kernel delivers a packet to all of its places, or not at
  // all.
  virtual bool faulted() const = 0;
  // Bytes wait here that the descriptor does not report (read ahead to a record's end).
  virtual bool has_read_ahead() const = 0;
  // To sleep on, for EPOLLIN, and if `wants_room` for EPOLLOUT too.
  virtual int fd() const = 0;
  virtual bool wants_room() const = 0;
  // Bytes are on their way, and some have arrived at the peer's host since the last call.
  virtual bool delivers() = 0;
  // Of an open one; before, only the address that it was started to or comes from.
  virtual const Peer& peer() const = 0;
  // Whether the other end may be a peer, by what it has said. If the greeting has failed then, one
  // of the two refuses the other; if not, nobody listens there, or another program.
  virtual bool met_peer() const = 0;
  // Whether the other end's host has answered, whatever its processes do.
  virtual bool met_host() const = 0;
  // Outlives the stream.
  virtual std::shared_ptr<const Carried> carried() const = 0;
  virtual std::string who() const = 0;  // for the log: address, port
};

// One for each process and device: it listens on a port, at its addresses.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual uint16_t port() const = 0;
  // As Peer's.
  virtual const std::array<uint8_t, 16>& process() const = 0;
  // On one more port, at most. False if it cannot be had. Any thread.
  virtual bool listen_also(uint16_t port) = 0;
  virtual void stop_listening(uint16_t port) = 0;
  // At one more address, on all its ports. If it cannot: false, and logged, or Error. Any thread.
  virtual bool listen_at(const urma_eid_t& eid) = 0;
  // Starts a stream from the address `from` to a process that listens at `to`. NULL and `why` if it
  // cannot even start. Any thread.
  virtual std::unique_ptr<Stream> connect(const urma_eid_t& from, const Address& to,
                                          std::string* why) = 0;
  // The next stream that another process started, still greeting; NULL if there is none. One
  // thread.
  virtual std::unique_ptr<Stream> accept() = 0;
  // Of all its streams, as urma_ext_protection_t.
  virtual uint32_t protection() const = 0;
  // Readable when accept() has one.
  virtual int fd() const = 0;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_CARRIER_H_
