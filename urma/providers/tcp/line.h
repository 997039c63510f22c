// SPDX-License-Identifier: MIT
//
// The bytes of a stream on the wire: plain, or encrypted (tls.h).
#ifndef URMA_PROVIDERS_TCP_LINE_H_
#define URMA_PROVIDERS_TCP_LINE_H_

#include <sys/uio.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "urma/providers/tcp/greeting.h"

namespace urma::tcp {

// Over a connected or connecting non-blocking socket, which outlives it. This one is plain.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  virtual ~Line() = default;
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  // How many bytes; nothing if the line has ended, and *why. `ahead`: see Stream.
  virtual std::optional<size_t> send(std::span<const iovec> pieces, bool ahead, std::string* why);
  virtual std::optional<size_t> receive(std::span<const iovec> pieces, std::string* why);
  // See Stream.
  virtual void push();
  // Continues what had to wait. False if the line has ended.
  virtual bool progress(std::string* /*why*/) { return true; }
  // Whether bytes can be sent already.
  virtual bool ready() const { return true; }
  // Whether what came before ready() may be from a peer: may_be_peer() in greeting.h.
  virtual bool met_peer() const { return false; }
  // A value that both ends of this line share, and no other line has.
  virtual Digest binding() const { return {}; }
  virtual bool tells_faults() const { return true; }
  bool faulted() const { return faulted_; }
  virtual bool has_read_ahead() const { return false; }
  // Something waits for room in the socket.
  bool wants_room() const { return full_; }

 protected:
  const int fd_;
  bool full_ = false;

 private:
  bool faulted_ = false;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_LINE_H_
