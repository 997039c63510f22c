// SPDX-License-Identifier: MIT
//
// A stream of bytes to another process, without any URMA: the kernel's TCP, with TLS on request.
#ifndef URMA_PROVIDERS_TCP_STREAM_H_
#define URMA_PROVIDERS_TCP_STREAM_H_

#include <sys/uio.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "urma/base/own_fd.h"
#include "urma/providers/tcp/address.h"
#include "urma/providers/tcp/greeting.h"
#include "urma/providers/tcp/line.h"
#include "urma/providers/tcp/newcomers.h"

namespace urma::tcp {

// The other end, as its greeting describes it. The port is where it listens, not that of the
// stream. Both parts name the process: another host cannot claim to be there.
struct Peer {
  Address listens_at;
  // Drawn at its start: a restarted process has another one. Of two streams that two processes
  // begin to each other at once, between the same addresses, it decides which one stays.
  std::array<uint8_t, 16> process;

  // NOLINTNEXTLINE(modernize-use-nullptr): it compares with no pointer.
  auto operator<=>(const Peer&) const = default;
};

enum class StreamState { kGreeting, kOpen, kLost };

// One thread at a time: its user's lock ensures that. A call keeps none of its arguments, and does
// not wait.
class Stream {
 public:
  // `stranger`: the other end has started it.
  Stream(OwnFd fd, std::unique_ptr<Line> line, const Greeting& greeting, const Address& there,
         std::shared_ptr<Newcomers> newcomers, bool stranger)
      : fd_(std::move(fd)),
        line_(std::move(line)),
        greeting_(greeting),
        peer_{there, {}},
        newcomers_(std::move(newcomers)),
        place_(newcomers_->add(fd_.get(), stranger)) {}
  ~Stream() { settle(); }

  // Its state, after continuing its greeting. `why` tells what has ended it.
  StreamState progress(std::string* why);
  // The bytes taken or delivered, of all pieces together; 0 if none can be now, or it is not open.
  // `ahead`: they may wait in the kernel for the next send() or push(). If the process ends before,
  // they leave with its end, unless bytes have come that it has not received.
  size_t send(std::span<const iovec> pieces, bool ahead = false);
  void push() { line_->push(); }
  // Less than asked for: no more has come.
  size_t receive(std::span<const iovec> pieces);
  // Whether receive() delivers nothing to pieces that no memory backs, instead of a fault.
  bool tells_faults() const { return line_->tells_faults(); }
  // Whether that was so in the last receive(): bytes have come, and have to go elsewhere. The first
  // of those places may be backed: the kernel delivers a packet to all of its places, or not at
  // all.
  bool faulted() const { return line_->faulted(); }
  // Bytes wait here that the descriptor does not report (read ahead to a record's end).
  bool has_read_ahead() const { return line_->has_read_ahead(); }
  // To sleep on, for EPOLLIN, and if wants_room() for EPOLLOUT too.
  int fd() const { return fd_.get(); }
  bool wants_room() const {
    const bool greets = state_ == StreamState::kGreeting && line_->ready() && sends_greeting();
    return greets || line_->wants_room();
  }
  // Bytes are on their way, and some have arrived at the peer's host since the last call.
  bool delivers();
  // Of an open one; before, only the address that it was started to or comes from.
  const Peer& peer() const { return peer_; }
  // Whether the other end may be a peer, by what it has said. If the greeting has failed then, one
  // of the two refuses the other; if not, nobody listens there, or another program.
  bool met_peer() const { return line_->met_peer() || greeting_.met_peer(); }
  // Whether the other end's host has answered, whatever its processes do.
  bool met_host() const;

 private:
  bool sends_greeting() const { return !greeting_.to_send().empty(); }
  void greet();
  // False if there is nothing more to do now.
  bool send_greeting();
  bool receive_greeting();
  bool lose();  // false
  void settle();

  const OwnFd fd_;
  const std::unique_ptr<Line> line_;
  Greeting greeting_;
  Peer peer_;
  const std::shared_ptr<Newcomers> newcomers_;
  // Until the greeting is over. What follows cannot fail: only settle() takes it back.
  std::optional<Newcomers::Place> place_;
  StreamState state_ = StreamState::kGreeting;
  bool bound_ = false;
  uint64_t arrived_ = 0;  // bytes, when delivers() was last called
  std::string why_;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_STREAM_H_
