// SPDX-License-Identifier: MIT
//
// The sending ends of connections: how one is made, and which ones stay when there are too many.
#ifndef URMA_PROVIDERS_VERBS_CONNECTION_H_
#define URMA_PROVIDERS_VERBS_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "jetty/transport.h"
#include "urma/base/mutex.h"
#include "urma/providers/verbs/connector.h"
#include "urma/providers/verbs/cq_pump.h"
#include "urma/providers/verbs/local_keys.h"
#include "urma/providers/verbs/queue_pair.h"
#include "urma_ext.h"

namespace urma::verbs {

class Connections;
class Sender;

// Ends peers' access to registrations of this process.
class Revoker {
 public:
  virtual ~Revoker() = default;
  // The registration that a peer would be granted for this. False if there is none.
  virtual bool revoke(const urma_eid_t& eid, const TokenKey& key, uint64_t va, uint64_t len) = 0;
};

// What all queues of a context share. All of it outlives them.
struct ContextResources {
  urma::Transport* transport;
  const Device* device;
  PortAddress origin;  // the source of its packets
  Connector* connector;
  LocalKeys* keys;
  NotifyChannels* notify;
  Connections* connections;
  Revoker* revoker;
};

// How many messages of an ended connection were received.
enum class Count : uint8_t {
  kNone,     // nobody was asked
  kAsked,    // the receiver is
  kLater,    // ask again
  kKnown,    // it has said how many it has received
  kUnknown,  // cannot be known
};

// The value of Connection::broken for a connection whose other end has gone without harm: messages
// not received go by the next one.
inline constexpr uint32_t kPostAgain = UINT32_MAX;

// Shared by its path and the service thread.
struct Connection {
  ConnectRequest request = {};
  uint64_t begun_ns = 0;              // when it was requested
  std::shared_ptr<QueuePair> pair;    // set before `settled`; NULL in mode UM
  std::atomic<bool> settled{false};   // it is known whether it could be made
  std::atomic<bool> given_up{false};  // its path is no longer interested
  // Valid once settled: URMA_CR_SUCCESS, or the status that its requests end with.
  urma_cr_status_t status = URMA_CR_SUCCESS;
  ConnectAnswer answer;
  // The status that requests in flight end with, from the receiver or the device; 0: it is intact.
  std::atomic<uint32_t> broken{URMA_CR_SUCCESS};
  // SYNC(received): kKnown is stored behind it, with release, and pairs with the path's acquire.
  std::atomic<uint64_t> received{0};
  std::atomic<Count> count{Count::kNone};
  // What the receiver says of the message that its device refused; 0: it was not asked.
  std::atomic<uint32_t> fault{0};
  static constexpr uint32_t kFaultAsked = UINT32_MAX;
  std::atomic<bool> unwanted{false};  // others need its place: ends once it is idle
  std::atomic<uint64_t> used{0};      // Connections::clock() at its last completion
};

// Asks for a connection in the background; `pump` takes its completions.
void make_connection(const ContextResources& resources,
                     const std::shared_ptr<Connection>& connection,
                     const std::shared_ptr<CqPump>& pump, const QueuePairLimits& limits,
                     const Patience& patience);
// Asks its receiver in the background what was wrong with a message.
void ask_for_fault(const ContextResources& resources,
                   const std::shared_ptr<Connection>& connection);
// Ends it; nothing of it is in use on return.
void end_connection(const ContextResources& resources,
                    const std::shared_ptr<Connection>& connection);

// The same for a closed queue pair, if the number of received messages must be known first: `count`
// will say so.
void settle_connection(const ContextResources& resources,
                       const std::shared_ptr<Connection>& connection);

// The receiving end of a connection that carries no messages. It takes no receives, so it can be
// made whatever the state of the target. *no_completions is made by the first call, and shared by
// all. Not on iWARP. Throws Error.
std::shared_ptr<QueuePair> make_one_sided_end(const ContextResources& resources,
                                              std::shared_ptr<CqPump>* no_completions,
                                              const LinkEnd& sender);

// The connections that the queues of a context send over. Thread-safe.
class Connections {
 public:
  // Beyond `most`, those used longest ago give way.
  Connections(Service* service, uint32_t most) : service_(service), most_(most) {}

  // On return from remove, no call of the sender is in flight. Call it without the sender's lock.
  void add_sender(Sender* sender);
  void remove_sender(Sender* sender);

  uint64_t next_number() { return number_.fetch_add(1, std::memory_order_relaxed); }
  // Advances with each new connection, and when a queue turns to another one: recording when one
  // was used costs its path nothing.
  uint64_t clock() const { return clock_.load(std::memory_order_relaxed); }
  // A queue turns to another connection. While there is room, the order of use does not matter.
  void turn() {
    if (full_.load(std::memory_order_relaxed)) clock_.fetch_add(1, std::memory_order_relaxed);
  }
  // One of mode UM is told when its owner ends, but does not count: it takes no place.
  void add(const std::shared_ptr<Connection>& connection);
  void remove(uint64_t number);
  size_t count();
  // Without the device. Throws Error(URMA_ENOMEM) for more than `most`.
  void append_to(std::vector<urma_ext_connection_t>* connections, size_t most) const;

  // The receiver has given up the connection with this number. Service thread.
  void turned_away(uint64_t number, DisconnectReason reason, uint64_t received);
  // The device carries nothing more. Service thread.
  void device_failed();
  // The owner of its other end is gone. Service thread.
  void lost(uint64_t number);
  // The same for all that lead to this target, at once. Returns their numbers; from any thread.
  std::vector<uint64_t> lose(const RemoteQueue& target);
  // It broke with this status; false if a status is already known. Service thread.
  bool broke(uint64_t number, urma_cr_status_t status);
  // Every sender checks its own connections. Service thread.
  void attend();

 private:
  void make_room() URMA_REQUIRES(mutex_);
  std::shared_ptr<Connection> find(uint64_t number);
  void break_off(Connection* connection, uint32_t status);

  Service* const service_;
  const uint32_t most_;
  std::atomic<uint64_t> number_{1};
  std::atomic<uint64_t> clock_{1};
  std::atomic<bool> full_{false};  // there were as many as `most_`
  mutable Mutex mutex_;
  std::map<uint64_t, std::weak_ptr<Connection>> connections_ URMA_GUARDED_BY(mutex_);
  std::map<uint64_t, std::weak_ptr<Connection>> datagrams_ URMA_GUARDED_BY(mutex_);  // mode UM
  bool attending_ = false;  // on the service thread: a round of attend() is due
  Mutex senders_mutex_;
  std::vector<Sender*> senders_ URMA_GUARDED_BY(senders_mutex_);
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONNECTION_H_
