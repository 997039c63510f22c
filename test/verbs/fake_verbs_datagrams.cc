// SPDX-License-Identifier: MIT
//
// The network of the control protocol: that of the machine, with losses, repeats and reordering.
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "test/verbs/fake_verbs_state.h"

namespace urma::verbs {
namespace {

ssize_t send_datagram(int fd, const void* bytes, size_t length, const sockaddr* to,
                      socklen_t to_length) {
  FakeCall call("send_datagram");
  if (call.error() != 0) {
    errno = call.error();
    return -1;
  }
  FakeNetwork& network = call->network;
  if (network.happens(network.chances.lost)) {
    ++network.lost;
    return static_cast<ssize_t>(length);
  }
  if (!network.late.has_value() && network.happens(network.chances.late)) {
    const auto* data = static_cast<const uint8_t*>(bytes);
    network.late.emplace();
    network.late->fd.reset(::dup(fd));
    network.late->bytes.assign(data, data + length);
    std::memcpy(&network.late->to, to, to_length);
    network.late->to_length = to_length;
    return static_cast<ssize_t>(length);
  }
  const ssize_t sent = ::sendto(fd, bytes, length, 0, to, to_length);
  if (network.happens(network.chances.repeated)) ::sendto(fd, bytes, length, 0, to, to_length);
  if (network.late.has_value()) {
    const auto late = std::exchange(network.late, std::nullopt);
    ::sendto(late->fd.get(), late->bytes.data(), late->bytes.size(), 0, &late->to.any,
             late->to_length);
  }
  return sent;
}

}  // namespace

bool FakeNetwork::happens(double chance) {
  return std::uniform_real_distribution<double>(0, 1)(random) < chance;
}

void fill_fake_datagrams(Api* api) { api->send_datagram = send_datagram; }

void FakeVerbs::set_datagrams(const FakeChances& chances) {
  const FakeLock lock(fabric_->mutex);
  fabric_->network.chances = chances;
}

uint64_t FakeVerbs::lost_datagrams() const {
  const FakeLock lock(fabric_->mutex);
  return fabric_->network.lost;
}

}  // namespace urma::verbs
