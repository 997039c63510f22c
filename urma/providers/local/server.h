// SPDX-License-Identifier: MIT
//
// The owner's end of the control connections: serves the peers that import from this process.
#ifndef URMA_PROVIDERS_LOCAL_SERVER_H_
#define URMA_PROVIDERS_LOCAL_SERVER_H_

#include <memory>
#include <string>
#include <unordered_map>

#include "urma/base/service.h"
#include "urma/providers/local/connection.h"
#include "urma/providers/local/peer.h"
#include "urma/providers/local/protocol.h"
#include "urma/providers/local/receiver.h"

namespace urma::local {

class Transport;

// One peer that imports from this process. Everything it sends is checked here.
class Client {
 public:
  Client(Transport* transport, Fd socket);
  ~Client();

  int fd() const { return connection_.fd(); }
  pid_t pid() const { return process_->pid; }
  bool greeted() const { return greeted_; }
  // False where the connection is to be ended.
  bool on_ready(uint32_t events);

 private:
  bool handle(const Request& request, Fd fd);
  bool hello(const Request& request);
  void import_segment(const Request& request);
  void open_ring(const Request& request, Fd fd);
  Answer accept_ring(const OpenRingRequest& asked, Fd fd);
  void close_ring(const CloseRingRequest& asked);
  void atomic(const Request& request);
  bool reply(Reply answer, uint32_t number, int fd = -1);

  Transport* transport_;
  Connection connection_;
  uint32_t slot_ = 0;
  bool greeted_ = false;
  bool alive_ = true;
  std::shared_ptr<PeerProcess> process_;
  std::unordered_map<uint32_t, std::shared_ptr<IncomingRing>> rings_;
};

class Server {
 public:
  // Throws Error where the socket cannot be had. On the service thread, as everything here.
  Server(Transport* transport, const std::string& provider);
  ~Server();

 private:
  void accept_some();
  void admit(Fd socket);
  void refuse_one();
  void pause();
  void drop(int fd);

  Transport* transport_;
  std::string socket_name_;
  Fd socket_;
  Service::TimerId resume_timer_ = 0;
  Fd spare_;  // given up for a moment to refuse a peer when no descriptor is left
  struct Admitted {
    std::unique_ptr<Client> client;
    Service::TimerId hello_timer;
  };
  std::unordered_map<int, Admitted> clients_;
};

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_SERVER_H_
