// SPDX-License-Identifier: MIT
//
// The receiving half of a JFR, and of the jetties that share it, as every provider offers it.
#ifndef JETTY_RECEIVER_H_
#define JETTY_RECEIVER_H_

#include <cstdint>
#include <optional>

#include "jetty/completion_queue.h"
#include "jetty/send_queue.h"
#include "urma_types.h"

namespace urma {

class Receiver;

// The peer that an RC jetty is bound to, if any. Guarded by the lock of the jetty's receiver.
using Bond = std::optional<urma_jetty_id_t>;

// On whose behalf messages are moved. A poll of a JFC takes its own records at once, without a
// detour over the JFC's ring; whoever else moves them leaves them there.
struct Poll {
  CompletionQueue* jfc = nullptr;  // whose caller this is, NULL: nobody's
  urma_cr_t* cr = nullptr;         // room for records
  int room = 0;
  int got = 0;

  // Where there is no more room, everything else waits for the next poll.
  bool full() const { return room != 0 && got == room; }
  // Where the next record of `target` goes; NULL: to its ring, behind those that are there.
  urma_cr_t* place(CompletionQueue* target) {
    return target == jfc && got < room && target->ring().empty() ? &cr[got++] : nullptr;
  }
  // Leaves a record there that has no such place. False where the ring is full.
  bool leave(CompletionQueue* target, const urma_cr_t& record, bool solicited) const {
    return target->ring().push(record, solicited, target == jfc);
  }
};

// A JFR or jetty that peers may send to.
struct Endpoint {
  QueueIdentity identity;
  urma_eid_t eid;
  urma_transport_mode_t trans_mode;
  uint32_t token_policy;
  urma_token_t token;
  Receiver* receiver;
  CompletionQueue* jfc;  // where receives that are addressed to it complete
  const Bond* bond;      // of an RC jetty, else NULL
  uint32_t group = 0;    // the id of the group that it is a member of, 0: none
};

class Receiver : public CompletionSource {
 public:
  bool outstanding() const override { return false; }

  // By the poll of another JFC, unless somebody else is at it or the queue is lock_free.
  virtual void try_progress() {}
  // By the service thread: one turn. True where something moved.
  virtual bool serve() { return false; }
  // Returns when nobody uses memory for it that is no longer registered.
  virtual void quiesce() {}

  // Peers may send to this endpoint, until close_ways().
  virtual void open_ways(const Endpoint& /*endpoint*/) {}
  // Ends the ways that lead to one endpoint: their senders get REM_ACCESS_ABORT_ERR.
  virtual void close_ways(uint64_t user_data) = 0;

  // ERROR gives all posted receives back, RESET forgets them; peers are shut out by both.
  virtual void set_state(urma_jfr_state_t state) = 0;
  virtual urma_jfr_state_t state() = 0;
  // One event once fewer receives than that are posted; 0: none.
  virtual void set_limit(uint32_t limit) = 0;
  virtual uint32_t limit() = 0;
  // The same for a jetty that shares the JFR, told to its own subject, where that can be.
  virtual bool limits_jetties() const { return false; }
  virtual void set_limit_of(EventSubject* /*jetty*/, uint32_t /*limit*/) {}
  virtual uint32_t limit_of(const EventSubject* /*jetty*/) { return 0; }
  // Room for so many posted receives where there was less. False where that cannot be.
  virtual bool make_room(uint32_t /*receives*/) { return false; }
  // Receives that were ever posted, and that are through.
  virtual uint64_t posted() = 0;
  virtual uint64_t consumed() = 0;
  // What it has done and how full it is, from any thread.
  virtual void report(urma_ext_queue_t* queue) const = 0;

  // Binds an RC jetty that shares this JFR, or unbinds it.
  virtual void set_bond(Bond* bond, const Bond& peer) = 0;

 protected:
  // The record of a receive of `queue` could neither be placed nor left.
  [[gnu::cold, gnu::noinline]] static void lost(CompletionQueue* jfc, const QueueIdentity& queue);
};

}  // namespace urma

#endif  // JETTY_RECEIVER_H_
