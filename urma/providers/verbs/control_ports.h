// SPDX-License-Identifier: MIT
//
// The well-known ports where others ask who serves an id of this machine.
#ifndef URMA_PROVIDERS_VERBS_CONTROL_PORTS_H_
#define URMA_PROVIDERS_VERBS_CONTROL_PORTS_H_

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "jetty/port_names.h"
#include "urma/base/service.h"
#include "urma/providers/verbs/datagram.h"

namespace urma::verbs {

inline constexpr PortRange kWellKnownPorts = {20000, 28191};

// On the service thread, but for is_claimed().
class ControlPorts final : public PortHost {
 public:
  // Called with each socket that becomes ready.
  using OnReady = std::function<void(DatagramSocket*)>;

  ControlPorts(Service* service, DatagramNetwork* network, const NetAddress& local,
               OnReady on_ready)
      : service_(service), network_(network), local_(local), on_ready_(std::move(on_ready)) {}
  ~ControlPorts() override {
    for (const auto& [port, socket] : sockets_) service_->unwatch(socket->fd());
  }

  std::shared_ptr<void> claim(const std::string& name) override { return network_->claim(name); }
  bool is_claimed(const std::string& name) override { return network_->is_claimed(name); }
  bool listen_also(uint16_t port) override {
    NetAddress address = local_;
    address.port = port;
    auto socket = network_->open(address);
    if (socket == nullptr) return false;
    service_->watch(socket->fd(), EPOLLIN,
                    [this, opened = socket.get()](uint32_t) { on_ready_(opened); });
    sockets_.emplace(port, std::move(socket));
    return true;
  }
  void stop_listening(uint16_t port) override {
    const auto socket = sockets_.extract(port);
    service_->unwatch(socket.mapped()->fd());
  }

 private:
  Service* const service_;
  DatagramNetwork* const network_;
  const NetAddress local_;
  const OnReady on_ready_;
  std::map<uint16_t, std::unique_ptr<DatagramSocket>> sockets_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTROL_PORTS_H_
