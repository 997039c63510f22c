// SPDX-License-Identifier: MIT
//
// The owner's end of the control connections: serves the peers that import from this process.
#ifndef URMA_PROVIDERS_SHM_SERVER_H_
#define URMA_PROVIDERS_SHM_SERVER_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jetty/peer_grants.h"
#include "urma/base/message_socket.h"
#include "urma/base/pace.h"
#include "urma/base/service.h"
#include "urma/providers/shm/peer.h"
#include "urma/providers/shm/protocol.h"
#include "urma/providers/shm/receiver.h"
#include "urma/providers/shm/staging.h"
#include "urma/providers/shm/wakeup.h"

namespace urma::shm {

class Server;
class Transport;

// One peer that imports from this process. Everything it sends is checked here.
class Client : public std::enable_shared_from_this<Client> {
 public:
  Client(Server* server, Transport* transport, OwnFd socket);
  ~Client();

  int fd() const { return connection_.fd(); }
  pid_t pid() const { return process_->pid; }
  bool greeted() const { return greeted_; }
  void forget(EventChannel* channel) { wakeups_.forget(channel); }
  // A registration has ended. A peer that was granted it is told, and drops what it keeps of it.
  void end_grant(SegmentRef ref);
  // A segment that it has asked for is shared, as far as possible; or sharing it has failed.
  void shared(const SegmentGrant& grant, uint32_t number);
  void not_shared(uint32_t number);
  // Ends the connection soon.
  void break_off();
  // False if the connection is to be ended.
  bool on_ready(uint32_t events);

  Service::TimerId timer = 0;  // the server's: until it is served, and then until it has greeted

 private:
  bool serve(const Request& request, Attached& fds);
  bool handle(const Request& request, Attached& fds);
  bool hello(const Request& request, Attached& fds);
  void import_segment(const Request& request);
  std::optional<SegmentGrant> grant(const Request& request);
  void map_segment(const Request& request);
  void hand_out(const SegmentGrant& grant, uint32_t number);
  void catch_up();
  void open_ring(const Request& request, Attached& fds);
  Answer accept_ring(const OpenRingRequest& asked, Attached& fds, OpenRingAnswer* given,
                     std::shared_ptr<const Wakeup>* wakeup);
  void close_ring(const Request& request);
  void probe(const Request& request);
  void atomic(const Request& request);
  Answer take_staging(Attached& fds);
  Answer copy_segment(const CopySegmentRequest& asked);
  Answer copy_message(const CopyMessageRequest& asked);
  Answer judged(Answer answer, const ProbeTarget& target) const;
  bool reply(Reply answer, uint32_t number, std::span<const int> fds = {});

  Server* server_;
  Transport* transport_;
  MessageSocket connection_;
  bool greeted_ = false;
  PeerGrants granted_;
  std::optional<PeerStaging> staging_;
  uint32_t mapping_ = 0;  // answers about mapping that are to come
  // What waits until the peer reads its answers: shared segments with the numbers of the requests,
  // and the news that a registration has ended. Here it holds no descriptors.
  std::deque<std::pair<SegmentGrant, uint32_t>> shared_;
  bool owes_news_ = false;
  bool alive_ = true;
  std::shared_ptr<PeerProcess> process_;
  std::shared_ptr<const PeerRegion> region_;
  Wakeups wakeups_;
  std::unordered_map<uint32_t, std::shared_ptr<IncomingRing>> rings_;
};

class Server {
 public:
  // Throws Error if the socket cannot be had. On the service thread, as everything here.
  Server(Transport* transport, const std::string& provider);
  ~Server();
  // The channel is about to end.
  void forget(EventChannel* channel);
  void end_grant(SegmentRef ref);
  // Makes the segment's pages shareable, and then calls asker->shared() or not_shared(). If it
  // throws, it will call neither.
  void share(const std::shared_ptr<Client>& asker, const SegmentGrant& grant, uint32_t number);

 private:
  struct Asker {
    std::weak_ptr<Client> client;
    SegmentGrant grant;
    uint32_t number;
  };
  struct Sharing {
    SharedPages::RangeId pages;
    std::vector<Asker> askers;
  };

  void share_later();
  void share_some();
  bool share_turn(const Sharing& sharing, bool* failed);
  void answer_askers(Sharing* sharing, bool failed);
  void refuse_askers();
  void accept_some();
  void admit(OwnFd socket);
  // Serves the client from now on.
  void begin(Client* client);
  // Drops the client if it has not greeted after that number of looks.
  void await_hello(Client* client, int looks);
  // Drops the client if it cannot have a timer.
  template <typename Task>
  void set_timer(Client* client, uint64_t delay_ns, const Task& task);
  void refuse_one();
  void pause();
  void drop(int fd);

  Transport* transport_;
  std::string socket_name_;
  OwnFd socket_;
  Service::TimerId resume_timer_ = 0;
  Fd spare_;  // closed for a moment to refuse a peer when no descriptor is left
  std::unordered_map<int, std::shared_ptr<Client>> clients_;  // by descriptor
  Pace pace_;
  std::deque<Sharing> sharing_;  // each gets a turn, and others of this thread in between
  bool sharing_later_ = false;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_SERVER_H_
