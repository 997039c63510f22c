// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_INSPECT_SERVER_H_
#define URMA_CORE_PROCESS_INSPECT_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "urma/base/fd.h"
#include "urma/base/message_socket.h"
#include "urma/base/runtime.h"
#include "urma/base/service.h"
#include "urma/core/process/inspect_protocol.h"

namespace urma::core {

// Shows this process to others of its user. Never waits for a guest: each sends one request, gets
// one answer or none, and is disconnected. To be made and destroyed on the service thread.
class InspectServer {
 public:
  InspectServer(Service& service, const Runtime& runtime);
  ~InspectServer();
  InspectServer(const InspectServer&) = delete;
  InspectServer& operator=(const InspectServer&) = delete;

 private:
  struct Guest {
    MessageSocket connection;
    pid_t pid;
    Service::TimerId timer;
  };
  using Guests = std::map<uint64_t, Guest>;  // oldest first

  void accept_some();
  void admit(OwnFd socket);
  Guests::iterator least_entitled();
  void serve(uint64_t number);
  static void answer(MessageSocket* connection, const InspectRequest& request);
  void drop(Guests::iterator guest);
  void pause();

  Service& service_;
  const int dir_;
  const std::string name_;
  const OwnFd socket_;
  uint64_t last_number_ = 0;
  Guests guests_;
  Service::TimerId resume_timer_ = 0;
};

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_INSPECT_SERVER_H_
