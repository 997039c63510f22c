// SPDX-License-Identifier: MIT
//
// The receiving half of a JFR, and of the jetties that share it: its states, its limits, and the
// end of posted receives that no message takes. Providers deliver the messages.
#ifndef JETTY_RECEIVER_H_
#define JETTY_RECEIVER_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "jetty/async_events.h"
#include "jetty/completion_queue.h"
#include "jetty/counters.h"
#include "jetty/owner_lock.h"
#include "jetty/send_queue.h"
#include "urma_types.h"

namespace urma {

class Receiver;

// The peer that an RC jetty is bound to, if any. Guarded by the lock of the jetty's receiver.
using Bond = std::optional<urma_jetty_id_t>;
// Compares EID and id; importers may leave uasid 0.
inline bool bound_to(const Bond& bond, const urma_eid_t& eid, uint32_t id) {
  return bond.has_value() && bond->id == id && std::memcmp(&bond->eid, &eid, sizeof(eid)) == 0;
}

// The caller for which messages are moved. A poll of a JFC takes its own records at once, past the
// JFC's ring; any other caller leaves them there.
struct Poll {
  CompletionQueue* jfc = nullptr;  // whose caller this is; NULL: none
  urma_cr_t* cr = nullptr;         // room for records
  int room = 0;
  int got = 0;

  // Without room for more, everything else waits for the next poll.
  bool full() const { return room != 0 && got == room; }
  // Where the next record of `target` goes; NULL: to its ring, after those already there.
  urma_cr_t* place(CompletionQueue* target) {
    return target == jfc && got < room && target->ring().empty() ? &cr[got++] : nullptr;
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
  uint32_t group = 0;    // the id of its group; 0: none
};

class Receiver : public CompletionSource {
 public:
  // `subject` is the JFR's; receives that no message takes complete as `identity`.
  Receiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity, EventSubject* subject);

  bool outstanding() const override { return false; }

  // Called by the poll of another JFC; does nothing while another thread uses the queue.
  virtual void try_progress() {}
  // One turn for the service thread. True if something moved.
  virtual bool serve() { return false; }
  // Returns when unregistered memory is no longer used for it.
  virtual void quiesce(OwnerBarrier* /*barrier*/) {}

  // Peers may send to this endpoint, until close_ways().
  virtual void open_ways(const Endpoint& /*endpoint*/) {}
  // Ends the ways that lead to one endpoint: their senders get REM_ACCESS_ABORT_ERR.
  virtual void close_ways(uint64_t user_data) = 0;

  // ERROR gives all posted receives back, RESET drops them; both shut peers out.
  void set_state(urma_jfr_state_t state);
  urma_jfr_state_t state();
  // Raises one event once fewer than `limit` receives are posted; 0: none.
  void set_limit(uint32_t limit);
  uint32_t limit() { return limit_of(subject_); }
  // The same for a jetty that shares the JFR, raised for its own subject, if supported.
  virtual bool limits_jetties() const { return false; }
  void set_limit_of(EventSubject* jetty, uint32_t limit);
  uint32_t limit_of(const EventSubject* subject);
  // Makes room for this many posted receives, if there was less. False if it cannot.
  virtual bool make_room(uint32_t /*receives*/) { return false; }
  // Receives that were ever posted, and those that have ended.
  virtual uint64_t posted() = 0;
  virtual uint64_t consumed() = 0;
  // Its counts and how full it is; any thread.
  void report(urma_ext_queue_t* queue) const;

  // Binds an RC jetty that shares this JFR, or unbinds it.
  virtual void set_bond(Bond* bond, const Bond& peer) = 0;

 protected:
  bool in_state(urma_jfr_state_t state) const {
    return state_.load(std::memory_order_relaxed) == state;
  }

  // Fills in the ways that messages come by, if the provider knows them. Any thread.
  virtual void report_ways(urma_ext_queue_t* /*queue*/) const {}
  // A provider's work when the state changes: it takes messages again, or never again; open() may
  // throw Error, and the state then stays as it was.
  virtual void open() URMA_REQUIRES(lock_) {}
  virtual void close_all() URMA_REQUIRES(lock_) = 0;
  // Its posted receives: their number, and the user_ctx of the oldest, which may then be dropped.
  // The oldest may be looked at after list_posted(), which counts them, too.
  virtual uint32_t count_posted() const URMA_REQUIRES(lock_) = 0;
  virtual uint32_t list_posted() URMA_REQUIRES(lock_) = 0;
  virtual uint64_t oldest_posted() const URMA_REQUIRES(lock_) = 0;
  virtual void drop_oldest() URMA_REQUIRES(lock_) = 0;
  // to_flush_ has changed: updates whether a poll has to look here.
  virtual void note_flush() URMA_REQUIRES(lock_) = 0;
  // The limit of the JFR was set to limit_; 0: it is reached already.
  virtual void arm_limit() URMA_REQUIRES(lock_) {}

  // Handles what is posted to a queue that is not READY.
  void turn_away() URMA_REQUIRES(lock_);
  // Flushes as many as the JFC has room for; a poll of it goes on.
  bool flush_posted(Poll* poll) URMA_REQUIRES(lock_);
  // Fewer receives are posted now.
  [[gnu::always_inline]] void watch_limit(uint32_t posted) URMA_REQUIRES(lock_) {
    if (posted < limit_) [[unlikely]]
      reach_limits(posted);
  }
  [[gnu::noinline]] void reach_limits(uint32_t posted) URMA_REQUIRES(lock_);
  // The record of a receive of `queue` could be neither placed nor left.
  [[gnu::cold, gnu::noinline]] static void lost(CompletionQueue* jfc, const QueueIdentity& queue);

  const QueueIdentity identity_;
  CompletionQueue* const jfc_;
  EventSubject* const subject_;
  OwnerLock lock_;
  uint32_t limit_ URMA_GUARDED_BY(lock_) = 0;     // the highest of limits_
  uint32_t to_flush_ URMA_GUARDED_BY(lock_) = 0;  // of the oldest posted receives
  QueueCounters counters_;

 private:
  // Of the JFR, or of a jetty that shares it.
  struct Limit {
    EventSubject* subject;
    urma_async_event_type_t event;
    uint32_t receives;
  };

  void keep_limit(const Limit& limit) URMA_REQUIRES(lock_);
  void find_highest_limit() URMA_REQUIRES(lock_);

  std::atomic<urma_jfr_state_t> state_{URMA_JFR_STATE_READY};  // written under lock_
  std::vector<Limit> limits_ URMA_GUARDED_BY(lock_);
  Counter dropped_;  // receives that a reset has dropped
};

}  // namespace urma

#endif  // JETTY_RECEIVER_H_
