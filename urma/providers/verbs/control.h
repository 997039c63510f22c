// SPDX-License-Identifier: MIT
//
// How the contexts of different processes and machines meet: requests and replies on UDP sockets,
// one per context, bound to the address that its EID stands for.
//
// (EID, id) leads to its owner: ids of queues and groups are looked up at well-known ports, and
// port P of that socket is the upper half of every token id of this context.
//
// The network may lose, repeat, delay and reorder datagrams, and any host may send any. A request
// is executed at most once; a request with a forged source address gets only a challenge of the
// same size. But nothing is encrypted: an attacker that can read or change the traffic between two
// hosts can read tokens and keys, and answer in the owner's place.
#ifndef URMA_PROVIDERS_VERBS_CONTROL_H_
#define URMA_PROVIDERS_VERBS_CONTROL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "jetty/port_names.h"
#include "urma/base/clock.h"
#include "urma/base/runtime.h"
#include "urma/base/service.h"
#include "urma/providers/verbs/control_asker.h"
#include "urma/providers/verbs/control_replies.h"
#include "urma/providers/verbs/control_ticket.h"
#include "urma/providers/verbs/control_watch.h"
#include "urma/providers/verbs/control_wire.h"
#include "urma/providers/verbs/datagram.h"
#include "urma/providers/verbs/messages.h"

namespace urma::verbs {

// What a context does for its peers. On the service thread. If the answer is kAccepted, the reply's
// body is of the request's kind; else there is none. An exception becomes kNoResources.
class ControlServer {
 public:
  virtual ~ControlServer() = default;
  // The source's EID is checked to be that of the address it comes from.
  virtual Reply on_connect(const PeerRef& from, const ConnectRequest& request) = 0;
  virtual Reply on_disconnect(const PeerRef& from, const DisconnectRequest& request) = 0;
  virtual Reply on_segment(const PeerRef& from, const SegmentRequest& request) = 0;
  virtual Reply on_fault(const PeerRef& from, const FaultRequest& request) = 0;
  virtual Reply on_probe(const PeerRef& from, const ProbeRequest& request) = 0;
  // Once for each watched peer, which is no longer watched then; and for each other peer that was
  // served here and has been replaced by a new incarnation. What it had here is gone.
  virtual void on_peer_lost(const PeerRef& peer, PeerLoss loss) = 0;
};

struct ControlConfig {
  urma_eid_t eid;
  LinkLayer link_layer;
  uint64_t nonce;  // Runtime::nonce()
  // How long a watched peer may be silent: URMA_VERBS_TIMEOUT_MS.
  uint64_t silence_ns = 1'000'000'000;
  std::function<uint64_t()> clock = monotonic_ns;
  uint64_t seed = 0;  // seed of the random numbers; 0: the kernel's randomness
};

// The well-known ports where others ask who serves an id of this machine.
inline constexpr PortRange kWellKnownPorts = {20000, 28191};

// Made, used and destroyed on the service thread, except where marked.
class Control final : private PortHost {
 public:
  using RequestId = uint64_t;

  // Throws Error if there can be no socket. The server is called from then on, until ~Control.
  Control(Service* service, DatagramNetwork* network, ControlServer* server,
          const ControlConfig& config);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  // Requests that wait for a reply end without one.
  ~Control() override;
  // They get kUnreachable instead. Nothing but ~Control follows.
  void end_requests();

  // Any thread. Token ids of this context are port() << 16 | index, for an index of 1..65535.
  uint16_t port() const { return wire_.socket->local().port; }

  // The ids of this machine that this context serves, at its EID alone.
  PortNames& names() { return names_; }

  // Asks the owner of (eid, id): a kJfr, kJetty, kGroup or kToken. on_reply() is called once,
  // later, unless the request is cancelled: with kUnreachable if nobody has the id or answered in
  // time, and kNoSuchObject if nobody can have it. It may use and destroy anything but this object.
  RequestId request(const urma_eid_t& eid, IdKind kind, uint32_t id, const Request& request,
                    uint64_t timeout_ns, OnReply on_reply);
  // Asks exactly this incarnation; kUnreachable if it is gone.
  RequestId request(const PeerRef& peer, const Request& request, uint64_t timeout_ns,
                    OnReply on_reply);
  void cancel(RequestId id);

  // Watches a peer: on_peer_lost() reports its end. Needs as many unwatch() calls.
  void watch(const PeerRef& peer) { watch_.watch(peer); }
  void unwatch(const PeerRef& peer) { watch_.unwatch(peer); }

 private:
  // A request of this process. While the owner of an id is looked up, its well-known ports are
  // asked in turn, each together with that of its block; the next ones too, when earlier ones take
  // long to answer.
  struct Call {
    Request request;
    uint64_t deadline_ns;
    OnReply on_reply;
    NetAddress owner;           // its port is 0 during the lookup
    LocateRequest locate = {};  // what is looked up
    uint32_t next_port = 0;
    uint32_t silent = 0;                          // ports that have not answered yet
    uint32_t last_silent = 0;                     // of those asked last
    std::vector<ControlAsker::AskId> asked = {};  // cancelled with it
    Service::TimerId timer = 0;
  };

  std::shared_ptr<void> claim(const std::string& name) override { return network_->claim(name); }
  bool is_claimed(const std::string& name) override { return network_->is_claimed(name); }
  bool listen_also(uint16_t port) override;
  void stop_listening(uint16_t port) override;
  void listen(DatagramSocket* socket);

  RequestId add(const NetAddress& owner, const Request& request, uint64_t timeout_ns,
                OnReply on_reply);
  void ask_owner(RequestId id, uint64_t incarnation);
  void try_ports(RequestId id);
  void try_port(RequestId id, uint16_t port);
  void tried(RequestId id, const Reply& reply, uint32_t next_port);
  void finish(RequestId id, const Reply& reply, const PeerRef& owner);

  void on_ready(DatagramSocket* socket);
  void on_message(DatagramSocket* socket, const NetAddress& from, const ControlMessage& message);
  void on_request(DatagramSocket* socket, const NetAddress& from, const Header& header,
                  const Request& request);
  void serve(const NetAddress& from, const Header& header, const Request& request);
  bool comes_from_source(const PeerRef& from, const ConnectRequest& request) const;
  Reply execute(const PeerRef& from, const Request& request);
  // Of what goes back to who sent a request.
  Header answering(const Header& asked, const Ticket& ticket = Ticket()) const;

  DatagramNetwork* const network_;
  ControlServer* const server_;
  const ControlConfig config_;
  ControlWire wire_;
  TicketOffice tickets_;
  ReplyCache replies_;
  ControlAsker asker_;
  ControlWatch watch_;
  std::map<uint16_t, std::unique_ptr<DatagramSocket>> ports_;  // well-known ones
  const EidTable eids_;
  PortNames names_;
  RequestId last_call_ = 0;
  std::unordered_map<RequestId, Call> calls_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTROL_H_
