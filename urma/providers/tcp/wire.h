// SPDX-License-Identifier: MIT
//
// The wire of urma_net0: its connections, the search for the owner of an id, and the progress of
// connections. Polls progress them while a program polls; otherwise the service thread, which
// sleeps on all of them.
#ifndef URMA_PROVIDERS_TCP_WIRE_H_
#define URMA_PROVIDERS_TCP_WIRE_H_

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "jetty/eid_table.h"
#include "jetty/wire.h"
#include "jetty/wire_engine.h"
#include "urma/base/fd.h"
#include "urma/base/mutex.h"
#include "urma/providers/tcp/carrier.h"
#include "urma/providers/tcp/connection.h"
#include "urma/providers/tcp/held_bytes.h"
#include "urma/providers/tcp/names.h"
#include "urma/providers/tcp/payloads.h"

namespace urma::tcp {

class Wire final : public urma::Wire {
 public:
  using Ref = std::shared_ptr<Connection>;
  // The connection to the owner; kUnreachable if no process answers for the id.
  using OnFound = std::function<void(Answer, const Ref&)>;

  // `addresses` are those of the host that it uses. The EIDs are some of them, or, with loopback
  // addresses alone, one of a runtime directory. Both outlive it.
  Wire(const EidTable& eids, const EidTable& addresses, const PortRange& ports, uint64_t random,
       uint64_t timeout_ms);

  // Before the first queue: peers can reach this process from now on. Throws Error.
  void open(const std::function<std::unique_ptr<Carrier>()>& make);
  // Once it is open: at one more address. False if that cannot be. Service thread.
  bool listen_at(const urma_eid_t& eid) { return carrier_->listen_at(eid); }

  WireEngine& engine() const { return *engine_; }
  // Before open(), nothing may be claimed.
  PortNames& port_names() { return names_.port_names(); }

  // Wire
  void start(WireEngine* engine) override;
  WireNames* names() override { return &names_; }
  void stop() override;
  std::unique_ptr<urma::Way> make_way(const WayRequest& request,
                                      const CompletionQueue& jfc) override {
    return std::make_unique<Way>(this, request, jfc);
  }
  void probe(const ProbeTarget& target, std::function<void(Answer)> answered) override;
  void ask_grant(const GrantRequest& request,
                 std::function<void(Answer, const WireGrant&)> answered) override;
  PeerWatches* watches() override { return &*watches_; }
  void connect_ahead(const RemoteQueue& target) override;
  void lose_connection(const RemoteQueue& target, std::function<void()> lost) override;
  bool progress() override;
  void asleep() override;
  void unregistered(SegmentRef segment) override;
  void list_connections(size_t most,
                        std::vector<urma_ext_connection_t>* connections) const override;

  // For ways and connections; any thread.
  Payloads& payloads() { return payloads_; }
  void open_way(const WayRequest& request, const std::shared_ptr<SendingEnd>& end);
  bool owns(IdKind kind, const urma_eid_t& eid, uint32_t id) const {
    return names_.owns(kind, eid, id);
  }
  // Whether a program polls all the time, so that sending can wait for its next poll.
  bool spinning() const { return spinning_.load(); }
  // By the peers that are connected.
  uint64_t most_held() const { return most_held_; }
  // They hold more: ends the connections that hold most, until they do not.
  void relieve();
  // Whether each of its polls then looks at every connection.
  bool polls_each() const { return spinning() && open_count_.load() <= kFew; }
  // A program that posts many requests at once polls after that.
  void posted() {
    // Relaxed: any change suffices.
    posts_.fetch_add(1, std::memory_order_relaxed);
  }
  // A request is in flight to a peer: it must answer, or at least show that it lives. Needs no
  // memory.
  void await();
  void serve_senders();
  // It owes a report, and polls look only at connections with data: the next one sends it.
  void add_debtor(const Ref& connection);
  // Messages have arrived for a receiver. If its program does not take them, the service thread
  // must.
  void messages_wait();
  // The peer keeps a connection that it has started, or agrees to keep it.
  void kept(const Ref& connection);
  // It is lost; called with its lock held. Both need no memory.
  void leave(const Connection& connection);
  void lost(Ref connection);
  // For data, and for room in its socket if it wants that. False, with errno, if that fails, as it
  // may for a new one.
  bool watch(const Connection& connection, bool wants_room, int how = EPOLL_CTL_MOD);

 private:
  // A poll reads from this many connections; beyond that it asks the kernel which have data.
  static constexpr size_t kFew = 4;

  using Id = std::tuple<IdKind, uint32_t, std::array<uint8_t, sizeof(urma_eid_t)>>;

  // A search for the owner of an id, port by port.
  struct Search {
    IdKind kind;
    urma_eid_t eid;
    uint32_t id;
    urma_eid_t at;  // an address
    std::vector<uint16_t> ports;
    uint64_t deadline_ns;
    size_t next = 0;
    bool again = false;  // a port was asked twice
    bool over = false;
    std::vector<OnFound> told = {};
  };
  using SearchRef = std::shared_ptr<Search>;
  // A connection being made, or greeting.
  struct PendingConnection {
    Ref connection;
    std::vector<std::function<void(const Ref&)>> told;  // NULL: there is none
    // 0: not open; else kept then, unless the peer decides before. The searches that wait for it go
    // on for longer.
    uint64_t agreed_by_ns = 0;
  };
  // Nobody answered there in time.
  struct Silence {
    uint64_t since_ns;
    uint64_t until_ns;  // so long it counts
    Peer process;       // that listened there; 0: not known
  };

  Service& service() const { return engine_->service(); }
  // Calls `task` on the service thread, unless the wire ends before.
  template <typename Task>
  void post(Task task) {
    service().post([task = std::move(task), ended = engine_->ended()]() mutable {
      if (!*ended) task();
    });
  }
  bool progress_open();

  static std::optional<PeerWatches::Owner> owner_at(const Ref& connection);

  // All of these on the service thread.
  void find(IdKind kind, const urma_eid_t& eid, uint32_t id, OnFound found);
  void go_on(const SearchRef& search);
  void ask(const SearchRef& search, const Ref& connection);
  template <typename Step>
  void take_step(const SearchRef& search, const Step& step);
  void end_search(const SearchRef& search, Answer answer, const Ref& connection);
  void reach(const Address& to, std::function<void(const Ref&)> told);
  void was_late(const Search& search);
  void was_silent(const Address& there, const Peer& process = {});
  // NULL: it does not count there now.
  const Silence* silence_at(const Address& there) const;
  void lives(const Ref& connection);
  void forget_addresses(const Ref& connection, bool was_open);
  void accept();
  Ref add(std::unique_ptr<Stream> stream, bool began);
  void greet(const Ref& connection);
  void go_on_greeting(const Ref& connection);
  void opened(const Ref& connection);
  Ref first_to(const Peer& process);
  void join(const Ref& connection, const Ref& first);
  void end_greeting(const Ref& connection, const Ref& kept);
  void decide(const Ref& connection);
  void settle(const Ref& connection);
  void give_way(const Ref& theirs);
  void agree(const Ref& connection);
  void use(const Ref& connection);
  void forget_lost();
  void forget(const Ref& connection);
  void serve();
  size_t find_ready(std::span<Ref> ready);
  void begin_spinning();
  void tick();
  void tick_later();
  void stop_spinning();
  void push_debtors();
  bool serve_messages();
  void look_later(uint64_t delay_ns);
  void look_at_messages();
  void end_greediest();
  void beat();
  void end_late_searches(uint64_t now);
  void agree_to_unanswered(uint64_t now);
  bool end_silent_peers();

  std::vector<Ref> all();

  const uint64_t timeout_ns_;
  const uint64_t most_held_ = memory_for_peers();
  const EidTable& addresses_;
  Names names_;
  WireEngine* engine_ = nullptr;
  std::unique_ptr<Carrier> carrier_;
  const Fd sockets_;  // epoll, over the open ones
  const Fd beats_;    // a timer, which needs no memory once it is made

  mutable Mutex list_mutex_;
  std::map<uint64_t, Ref> open_ URMA_GUARDED_BY(list_mutex_);  // by number

  Payloads payloads_;

  Mutex lost_mutex_;
  Ref lost_ URMA_GUARDED_BY(lost_mutex_);  // those that are not forgotten yet, the last one first

  Mutex debtors_mutex_;
  std::vector<Ref> debtors_ URMA_GUARDED_BY(debtors_mutex_);
  std::atomic<bool> has_debtors_{false};  // written under debtors_mutex_

  std::atomic<uint64_t> polls_{0};
  std::atomic<uint64_t> posts_{0};
  std::atomic<uint32_t> polls_in_a_row_{0};
  std::atomic<uint32_t> polls_to_spin_;
  std::atomic<bool> spinning_{false};
  std::atomic<size_t> open_count_{0};  // of open_; written under list_mutex_
  std::atomic<bool> beating_{false};
  std::atomic<bool> serving_senders_{false};
  std::atomic<bool> relieving_{false};
  std::atomic<bool> looking_{false};  // checks waiting messages from time to time

  // Of the service thread.
  bool stopped_ = false;
  uint64_t last_number_ = 0;
  std::map<uint64_t, PendingConnection> greetings_;  // by number
  std::map<Address, Ref> by_address_;
  std::map<Address, Silence> silences_;
  std::map<Peer, Ref> by_process_;
  std::map<Peer, Ref> crossed_;  // with by_process_; used if that one is lost
  std::map<Id, SearchRef> searches_;
  std::optional<PeerWatches> watches_;         // since start()
  std::map<uint64_t, uint32_t> silent_beats_;  // by number
  uint64_t polls_seen_ = 0;
  uint64_t posts_seen_ = 0;
  uint32_t ticks_without_polls_ = 0;
  uint32_t ticks_ = 0;  // since polls have begun
  Service::TimerId tick_timer_ = 0;
  Service::TimerId look_timer_ = 0;
  uint64_t look_delay_ns_ = 0;
  bool look_failed_ = false;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_WIRE_H_
