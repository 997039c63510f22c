// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_TCP_STREAM_H_
#define URMA_PROVIDERS_TCP_STREAM_H_

#include <memory>
#include <optional>
#include <string>

#include "urma/base/own_fd.h"
#include "urma/providers/tcp/address.h"
#include "urma/providers/tcp/carrier.h"
#include "urma/providers/tcp/greeting.h"
#include "urma/providers/tcp/line.h"
#include "urma/providers/tcp/newcomers.h"

namespace urma::tcp {

// Over a socket.
class SocketStream final : public Stream {
 public:
  SocketStream(OwnFd fd, std::unique_ptr<Line> line, const Greeting& greeting, const Address& there,
               std::shared_ptr<Newcomers> newcomers, bool stranger)
      : fd_(std::move(fd)),
        line_(std::move(line)),
        greeting_(greeting),
        there_(there),
        newcomers_(std::move(newcomers)),
        place_(newcomers_->add(fd_.get(), stranger)),
        peer_{there, {}} {}
  ~SocketStream() override { settle(); }

  StreamState progress(std::string* why) override;
  size_t send(std::span<const iovec> pieces) override;
  size_t send_ahead(std::span<const iovec> pieces) override;
  void push() override { line_->push(); }
  size_t receive(std::span<const iovec> pieces) override;
  bool tells_faults() const override { return line_->tells_faults(); }
  bool faulted() const override { return line_->faulted(); }
  bool has_read_ahead() const override { return line_->has_read_ahead(); }
  int fd() const override { return fd_.get(); }
  bool wants_room() const override {
    const bool greets = state_ == StreamState::kGreeting && line_->ready() && sends_greeting();
    return greets || line_->wants_room();
  }
  bool delivers() override;
  const Peer& peer() const override { return peer_; }
  bool met_peer() const override { return line_->met_peer() || greeting_.met_peer(); }
  bool met_host() const override;
  std::shared_ptr<const Carried> carried() const override { return carried_; }
  std::string who() const override { return text_of(there_); }

 private:
  bool sends_greeting() const { return !greeting_.to_send().empty(); }
  void greet();
  // False if there is nothing more to do now.
  bool send_greeting();
  bool receive_greeting();
  size_t count_sent(std::optional<size_t> sent);
  bool lose();  // false
  void settle();

  const OwnFd fd_;
  const std::unique_ptr<Line> line_;
  Greeting greeting_;
  Address there_;  // where it listens, once known
  const std::shared_ptr<Carried> carried_ = std::make_shared<Carried>();
  const std::shared_ptr<Newcomers> newcomers_;
  // Until the greeting is over. What follows cannot fail: only settle() takes it back.
  std::optional<Newcomers::Place> place_;
  StreamState state_ = StreamState::kGreeting;
  bool bound_ = false;
  Peer peer_;
  uint64_t arrived_ = 0;  // bytes, when delivers() was last called
  std::string why_;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_STREAM_H_
