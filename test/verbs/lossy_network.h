// SPDX-License-Identifier: MIT
//
// A network inside one thread of a test, with the clock of its service. All random events come from
// one seed.
#ifndef TEST_VERBS_LOSSY_NETWORK_H_
#define TEST_VERBS_LOSSY_NETWORK_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "test/verbs/fake_service.h"
#include "urma/providers/verbs/datagram.h"

namespace urma::verbs {

class LossyNetwork final : public DatagramNetwork {
 public:
  struct Chances {
    double loss = 0;
    double repeat = 0;
    double damage = 0;  // a byte changes
    uint64_t delay_ns = 100'000;
    uint64_t jitter_ns = 0;  // lets datagrams overtake each other
    bool refusals = true;    // if no one has the port
  };

  LossyNetwork(FakeService* service, uint64_t seed) : service_(service), random_(seed) {}

  std::unique_ptr<DatagramSocket> open(const NetAddress& local) override {
    NetAddress address = local;
    if (address.port == 0) {
      address.port = next_port_ != 0 ? std::exchange(next_port_, 0) : ++last_port_;
    } else if (sockets_.contains(address)) {
      return nullptr;
    }
    return std::make_unique<Socket>(this, address);
  }
  std::shared_ptr<void> claim(const std::string& name) override {
    if (!claims_.insert(name).second) return nullptr;
    return std::shared_ptr<void>(this, [this, name](void*) { claims_.erase(name); });
  }

  bool is_claimed(const std::string& name) override { return claims_.contains(name); }

  // As if `from` had sent it.
  void inject(const NetAddress& from, const NetAddress& to, std::span<const uint8_t> bytes) {
    std::vector<uint8_t> copy(bytes.begin(), bytes.end());
    deliver({from, std::move(copy), Arrival::kDatagram}, to, 0);
  }
  // The next socket on any port gets this one.
  void choose_port(uint16_t port) { next_port_ = port; }
  // Everything sent there from now on is lost.
  void silence(const NetAddress& address) { silent_.insert(address); }

  Chances chances;
  // Sees everything that is sent.
  std::function<void(const NetAddress& from, const NetAddress& to, std::span<const uint8_t>)> tap;

 private:
  struct Datagram {
    NetAddress other;
    std::vector<uint8_t> bytes;
    Arrival arrival;
  };

  class Socket final : public DatagramSocket {
   public:
    Socket(LossyNetwork* network, const NetAddress& local)
        : network_(network), local_(local), fd_(++network->last_fd_) {
      network_->sockets_[local_] = this;
    }
    ~Socket() override { network_->sockets_.erase(local_); }
    int fd() const override { return fd_; }
    NetAddress local() const override { return local_; }
    void send(const NetAddress& to, std::span<const uint8_t> bytes) override {
      network_->send(local_, to, bytes);
    }
    Arrival receive(std::span<uint8_t> buffer, size_t* length, NetAddress* other) override {
      if (inbox.empty()) return Arrival::kNothing;
      const Datagram datagram = std::move(inbox.front());
      inbox.pop_front();
      *length = datagram.bytes.size();
      *other = datagram.other;
      std::copy_n(datagram.bytes.begin(), std::min(*length, buffer.size()), buffer.begin());
      return datagram.arrival;
    }

    std::deque<Datagram> inbox;

   private:
    LossyNetwork* const network_;
    const NetAddress local_;
    const int fd_;
  };

  bool happens(double chance) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < chance;
  }
  void send(const NetAddress& from, const NetAddress& to, std::span<const uint8_t> bytes) {
    if (tap) tap(from, to, bytes);
    if (silent_.contains(to)) return;
    for (int copies = happens(chances.repeat) ? 2 : 1; copies > 0; --copies) {
      if (happens(chances.loss)) continue;
      Datagram datagram = {from, {bytes.begin(), bytes.end()}, Arrival::kDatagram};
      if (happens(chances.damage)) {
        datagram.bytes[random_() % datagram.bytes.size()] ^= static_cast<uint8_t>(random_() | 1);
      }
      const uint64_t jitter = chances.jitter_ns == 0 ? 0 : random_() % chances.jitter_ns;
      deliver(std::move(datagram), to, chances.delay_ns + jitter);
    }
  }
  void deliver(Datagram datagram, const NetAddress& to, uint64_t delay_ns) {
    service_->after(delay_ns, [this, datagram = std::move(datagram), to]() mutable {
      const auto socket = sockets_.find(to);
      if (socket != sockets_.end()) {
        const int fd = socket->second->fd();
        socket->second->inbox.push_back(std::move(datagram));
        service_->signal(fd, 1);
      } else if (chances.refusals && datagram.arrival == Arrival::kDatagram) {
        const NetAddress from = datagram.other;
        deliver({to, std::move(datagram.bytes), Arrival::kRefused}, from, chances.delay_ns);
      }
    });
  }

  FakeService* const service_;
  std::mt19937_64 random_;
  std::map<NetAddress, Socket*> sockets_;
  std::set<NetAddress> silent_;
  std::set<std::string> claims_;
  uint16_t last_port_ = 40000;
  uint16_t next_port_ = 0;
  int last_fd_ = 0;
};

}  // namespace urma::verbs

#endif  // TEST_VERBS_LOSSY_NETWORK_H_
