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

// Over a connected or connecting non-blocking socket, which outlives it.
class Line {
 public:
  virtual ~Line() = default;
  // How many bytes; nothing if the line has ended, and *why.
  virtual std::optional<size_t> send(std::span<const iovec> pieces, std::string* why) = 0;
  virtual std::optional<size_t> receive(std::span<const iovec> pieces, std::string* why) = 0;
  // See Stream.
  virtual std::optional<size_t> send_ahead(std::span<const iovec> pieces, std::string* why) {
    return send(pieces, why);
  }
  virtual void push() {}
  // Continues what had to wait. False if the line has ended.
  virtual bool progress(std::string* /*why*/) { return true; }
  // Whether bytes can be sent already.
  virtual bool ready() const { return true; }
  // Whether what came before ready() may be from a peer: may_be_peer() in greeting.h.
  virtual bool met_peer() const { return false; }
  // A value that both ends of this line share, and no other line has.
  virtual Digest binding() const { return {}; }
  virtual bool tells_faults() const { return false; }
  virtual bool faulted() const { return false; }
  virtual bool has_read_ahead() const { return false; }
  // Something waits for room in the socket.
  virtual bool wants_room() const = 0;
};

class PlainLine final : public Line {
 public:
  explicit PlainLine(int fd) : fd_(fd) {}
  std::optional<size_t> send(std::span<const iovec> pieces, std::string* why) override {
    return send_with(pieces, 0, why);
  }
  std::optional<size_t> receive(std::span<const iovec> pieces, std::string* why) override;
  std::optional<size_t> send_ahead(std::span<const iovec> pieces, std::string* why) override;
  void push() override;
  bool tells_faults() const override { return true; }
  bool faulted() const override { return faulted_; }
  bool wants_room() const override { return full_; }

 private:
  std::optional<size_t> send_with(std::span<const iovec> pieces, int flags, std::string* why);

  const int fd_;
  bool full_ = false;
  bool faulted_ = false;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_LINE_H_
