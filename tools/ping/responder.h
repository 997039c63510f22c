// SPDX-License-Identifier: MIT
//
// The answering side.
#ifndef TOOLS_PING_RESPONDER_H_
#define TOOLS_PING_RESPONDER_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tools/ping/port.h"
#include "tools/ping/settings.h"
#include "tools/ping/signals.h"

namespace ping {

// Answers at one EID: returns each message with its immediate. A client that does not take its
// replies loses them, and delays nobody else: each has its own send queue.
class Responder {
 public:
  Responder(const Settings& settings, const Place& place);

  const Port& port() const { return port_; }
  // Answers waiting messages, and requests an event for later ones.
  void serve();
  void disarm() { port_.disarm(); }
  uint64_t answered() const { return answered_; }
  uint64_t lost() const { return lost_; }

 private:
  using Key = std::tuple<std::string, uint32_t, uint32_t>;
  struct Client {
    Key key;
    Target target;
    SendQueue queue;  // ends before the target that its requests name
    uint32_t under_way = 0;
    bool failed = false;
  };
  using Clients = std::list<Client>;  // most recently heard first

  void answer(const urma_cr_t& record);
  bool reply(const urma_cr_t& record);
  void take_sent(const urma_cr_t& record);
  Client* find_client(const urma_jetty_id_t& id);
  Client* add_client(const Key& key, const urma_jetty_id_t& id);
  bool make_room();
  void remove(Clients::iterator client);

  const Settings& settings_;
  Port port_;
  Clients clients_;
  std::map<Key, Clients::iterator> by_key_;
  std::map<uint32_t, Clients::iterator> by_queue_;  // by the id of the send queue
  uint64_t answered_ = 0;
  uint64_t lost_ = 0;
};

// Answers at all places until a signal comes. Returns the exit status.
int listen(const Settings& settings, const std::vector<Place>& places, Signals* signals);

}  // namespace ping

#endif  // TOOLS_PING_RESPONDER_H_
