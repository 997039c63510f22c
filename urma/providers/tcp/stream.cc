// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/stream.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <utility>

#include "urma/base/error.h"

namespace urma::tcp {
namespace {

// TCP_SYN_SENT of netinet/tcp.h, which cannot be included beside linux/tcp.h.
constexpr uint8_t kSynSent = 2;

bool look_at(int fd, tcp_info* info) {
  socklen_t size = sizeof(*info);
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &size) == 0;
}

}  // namespace

StreamState Stream::progress(std::string* why) {
  try {
    if (state_ != StreamState::kLost && !line_->progress(&why_)) lose();
    if (state_ == StreamState::kGreeting && line_->ready()) greet();
  } catch (const Error& error) {
    why_ = error.what();
    lose();
  }
  if (state_ == StreamState::kLost) *why = why_;
  return state_;
}

void Stream::greet() {
  if (!bound_) greeting_.bind(line_->binding());
  bound_ = true;
  while (state_ == StreamState::kGreeting && !greeting_.done()) {
    if (sends_greeting() ? !send_greeting() : !receive_greeting()) return;
  }
  if (state_ != StreamState::kGreeting) return;
  state_ = StreamState::kOpen;
  const Hello& theirs = greeting_.theirs();
  peer_.listens_at.port = theirs.port;
  peer_.process = theirs.process;
  settle();
}

bool Stream::send_greeting() {
  const auto bytes = greeting_.to_send();
  const iovec piece = {const_cast<uint8_t*>(bytes.data()), bytes.size()};
  const auto sent = line_->send({&piece, 1}, /*ahead=*/false, &why_);
  if (!sent) return lose();
  greeting_.sent(*sent);
  return *sent != 0;
}

bool Stream::receive_greeting() {
  const auto room = greeting_.to_receive();
  const iovec piece = {room.data(), room.size()};
  const auto got = line_->receive({&piece, 1}, &why_);
  if (!got) return lose();
  if (*got == 0) return false;
  if (greeting_.received(*got, &why_)) return true;
  // Tell the peer as much as it may know.
  const std::string refused = why_;
  send_greeting();
  why_ = refused;
  return lose();
}

size_t Stream::send(std::span<const iovec> pieces, bool ahead) {
  if (state_ != StreamState::kOpen) return 0;
  const auto sent = line_->send(pieces, ahead, &why_);
  if (!sent) lose();
  return sent.value_or(0);
}

size_t Stream::receive(std::span<const iovec> pieces) {
  if (state_ != StreamState::kOpen) return 0;
  const auto got = line_->receive(pieces, &why_);
  if (!got) lose();
  return got.value_or(0);
}

bool Stream::delivers() {
  tcp_info info = {};
  int left = 0;
  if (!look_at(fd_.get(), &info) || ::ioctl(fd_.get(), SIOCOUTQ, &left) != 0) return false;
  return std::exchange(arrived_, info.tcpi_bytes_acked) != info.tcpi_bytes_acked && left != 0;
}

bool Stream::met_host() const {
  tcp_info info = {};
  return !look_at(fd_.get(), &info) || info.tcpi_state != kSynSent;
}

bool Stream::lose() {
  const char* ended = place_ ? newcomers_->ended(*place_) : nullptr;
  if (ended != nullptr) why_ = ended;
  state_ = StreamState::kLost;
  // The other side learns of it now, not when the last owner lets go.
  ::shutdown(fd_.get(), SHUT_RDWR);
  settle();
  return false;
}

void Stream::settle() {
  if (place_) newcomers_->leave(*place_);
  place_.reset();
}

}  // namespace urma::tcp
