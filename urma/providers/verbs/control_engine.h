// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_CONTROL_ENGINE_H_
#define URMA_PROVIDERS_VERBS_CONTROL_ENGINE_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "urma/providers/verbs/control.h"
#include "urma/providers/verbs/control_asker.h"
#include "urma/providers/verbs/control_names.h"
#include "urma/providers/verbs/control_replies.h"
#include "urma/providers/verbs/control_ticket.h"
#include "urma/providers/verbs/control_watch.h"
#include "urma/providers/verbs/control_wire.h"

namespace urma::verbs {

// What Control consists of.
class ControlEngine {
 public:
  ControlEngine(Service* service, DatagramNetwork* network, ControlServer* server,
                const ControlConfig& config);
  ~ControlEngine();

  uint16_t port() const { return wire_.socket->local().port; }
  ControlNames& names() { return names_; }
  ControlWatch& watch() { return watch_; }

  Control::RequestId request(const urma_eid_t& eid, IdKind kind, uint32_t id,
                             const Request& request, uint64_t timeout_ns,
                             Control::OnReply on_reply);
  Control::RequestId request(const PeerRef& peer, const Request& request, uint64_t timeout_ns,
                             Control::OnReply on_reply);
  void cancel(Control::RequestId id);

 private:
  // A request of ours. While the owner of an id is looked for, its well-known ports are asked one
  // after the other, and with each the one of its block; also the next ones when those before take
  // long to answer.
  struct Call {
    Request request;
    uint64_t deadline_ns;
    Control::OnReply on_reply;
    NetAddress owner;      // its port is 0 while it is looked for
    LocateRequest locate;  // what is looked for
    uint32_t next_port = 0;
    uint32_t silent = 0;                     // ports that have not answered yet
    uint32_t last_silent = 0;                // of those that were asked last
    std::vector<ControlAsker::AskId> asked;  // what is to be cancelled with it
    Service::TimerId timer = 0;
  };

  Control::RequestId add(Call call);
  void ask_owner(Control::RequestId id, uint64_t incarnation);
  void try_ports(Control::RequestId id);
  void try_port(Control::RequestId id, uint16_t port);
  void tried(Control::RequestId id, const Reply& reply, uint32_t next_port);
  void finish(Control::RequestId id, const Reply& reply, const PeerRef& owner);

  void on_ready(DatagramSocket* socket);
  void on_message(DatagramSocket* socket, const NetAddress& from, const Message& message);
  void on_request(DatagramSocket* socket, const NetAddress& from, const Header& header,
                  const Request& request);
  void serve(const NetAddress& from, const Header& header, const Request& request);
  Reply execute(const PeerRef& from, const Request& request);
  void answer(DatagramSocket* socket, const NetAddress& to, const Header& header,
              const Reply& reply) const;

  ControlServer* const server_;
  const ControlConfig config_;
  ControlWire wire_;
  TicketOffice tickets_;
  ReplyCache replies_;
  ControlAsker asker_;
  ControlWatch watch_;
  ControlNames names_;
  Control::RequestId last_call_ = 0;
  std::unordered_map<Control::RequestId, Call> calls_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTROL_ENGINE_H_
