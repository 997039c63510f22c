// SPDX-License-Identifier: MIT
//
// The contract as a small machine: the objects in two processes, the answer to each call, and which
// requests complete, in which order, with which memory afterwards.
//
// If the contract leaves a choice, an answer holds everything that is allowed: several values,
// several statuses of a record, or bytes of memory that are unknown until they are seen. A call
// that the contract leaves undefined, or whose result two processes would race for, is marked as
// undefined and never made.
#ifndef TEST_MODEL_MODEL_H_
#define TEST_MODEL_MODEL_H_

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "test/model/call.h"

namespace urma_model {

// What a call may answer.
struct Answer {
  bool undefined = false;
  bool refused = false;  // the call fails and changes nothing
  std::vector<int64_t> values = {0};
  int error = 0;                                         // errno with NULL; 0: not checked
  int bad = kNull;                                       // index of the bad element
  std::function<void(const Result&)> effect = {};        // on success
  std::function<std::string(const Result&)> check = {};  // anything else wrong with the result
};

// An expected record. Records of one queue come in order.
struct Due {
  Record record;
  std::vector<int> statuses;  // allowed
  bool solicited = false;
};

// An unfinished send request: it waits for a receive, or for its suspended queue.
struct Waiting {
  Request request;
  int target = kNull;            // the target queue
  std::vector<uint8_t> payload;  // as it was when posted
};

struct Receive {
  uint64_t user_ctx = 0;
  uint32_t at = 0, length = 0;
  int segment = kNull;
  bool covered = false;  // by its segment
};

// Of any kind; each uses the fields it needs.
struct Object {
  Kind kind = Kind::kNone;
  int process = 0;
  int context = kNull;
  Config config;
  bool active = true;
  uint32_t id = 0;
  uint64_t user_ctx = 0;
  // Its configuration.
  int jfc = kNull, receive_jfc = kNull, jfr = kNull, jfce = kNull, group = kNull, token = kNull;
  int state = URMA_JETTY_STATE_READY;
  uint32_t threshold = 0;
  // Jetties and targets: the bound peer. Targets and imports: what was imported.
  int bound = kNull, original = kNull, original_process = 0;
  Kind original_kind = Kind::kNone;
  bool in_background = false;  // imported or bound this way
  bool notified = true;        // and known to the program
  bool imported_as_jfr = false;
  bool aggregated = false;
  bool invalidated = false;  // a segment, by SEND_INVALIDATE
  // Send queues.
  std::deque<Waiting> waiting;
  bool marker_polled = false;
  std::set<uint64_t> silent;  // user_ctx of requests that leave no record and may be in flight
  // Receive queues.
  std::deque<Receive> receives;
  bool haunted = false;  // by messages whose queue ended without a record and that may still arrive
  // JFCs.
  std::vector<Due> due;
  int armed = 0;                // 1: for solicited records, 2: for all
  int events = 0, unacked = 0;  // pending, and fetched but not acknowledged
  // Notifiers: pending results of wait_notify. Contexts: asynchronous events.
  std::deque<Record> news;
};

struct Process {
  bool started = true;
  int level = URMA_VLOG_LEVEL_EMERG;
  int64_t tag = 1;
  int held_event = kNull;  // the object of an unacknowledged event
  bool event_is_held = false;
  std::array<uint8_t, kArena> memory{};
  std::array<bool, kArena> known{};
};

class Model {
 public:
  Model();

  // The allowed answers to `call` now.
  Answer predict(const Call& call);
  // Sets what only a model knows: ids, and how long to wait.
  void complete(Call* call) const;
  // Whether all requests must have finished before the call is made.
  bool wants_quiet(const Call& call) const;
  // Compares memory, and adopts what was unknown.
  std::string compare_memory(int process, const uint8_t* actual);
  // The sum of the reference counts of all contexts of a process.
  uint64_t refs(int process) const;

  const Object* find(int slot) const;
  Object* find(int slot);

  std::map<int, Object> objects;
  std::array<Process, 2> processes;
  // Senders with possibly unfinished requests, and the last one.
  int last_sender = kNull;
  Request last_request;

 private:
  bool alive(int slot, Kind kind, int process) const;
  // The handle of the call: NULL, or an object of this kind in the calling process.
  bool usable(int slot, Kind kind, const Call& c) const {
    return slot == kNull || alive(slot, kind, c.process);
  }

  Answer fixed(const Call& c);
  Answer library(const Call& c);
  Answer context_call(const Call& c);
  Answer network(const Call& c);

  Answer create(const Call& c, Kind kind, bool alloc);
  bool parts_usable(const Call& c, Kind kind) const;
  bool config_good(const Object& o) const;
  bool id_taken(const Object& o) const;
  Object describe(const Call& c, Kind kind) const;
  Answer activate(const Call& c, Kind kind);
  Answer deactivate(const Call& c, Kind kind);
  Answer set_option(const Call& c, Kind kind);
  Answer get_option(const Call& c, Kind kind);
  Answer end_queue(const Call& c, Kind kind, bool active);
  Answer end_batch(const Call& c, Kind kind);
  // The answer to deleting a queue, apart from its being active.
  Answer removable(int slot);
  Answer life_cycle(const Call& c, bool* handled);
  Answer modify(const Call& c);
  Answer modify_sender(const Call& c, Kind kind);
  Answer modify_jfr(const Call& c);
  Answer query(const Call& c);
  Answer flush(const Call& c, Kind kind);
  Answer simple_end(const Call& c, Kind kind, urma_status_t in_use, bool used);
  void erase(int slot);

  Answer import_target(const Call& c);
  bool answers_probes(int jetty, const Config& asked) const;
  bool probed(int slot) const;
  Answer import_in_background(const Call& c);
  Answer wait_notify(const Call& c);
  void add_target(const Call& c, int context, bool as_jfr, bool no_token);
  Answer unimport_target(const Call& c);
  Answer advise(const Call& c, Kind kind);
  Answer bind(const Call& c, int jetty, int target, bool background);
  Answer unbind(const Call& c, bool background);
  Answer notify(const Call& c);
  Answer segment(const Call& c);
  Answer register_segment(const Call& c);
  Answer import_segment(const Call& c);
  Answer target(const Call& c);

  Answer post_sends(const Call& c, Kind kind);
  Answer post_receives(const Call& c, Kind kind);
  Answer flat_send(const Call& c);
  Answer poll(const Call& c);
  Answer event(const Call& c);
  Answer data(const Call& c);

  int refusal(int queue, const Request& r) const;
  // `before`: earlier requests of the same list.
  bool undefined_request(int queue, const Request& r, size_t before) const;
  bool undefined_route(int queue, const Request& r, size_t before) const;
  bool undefined_import(int queue, const Request& r, int process) const;
  bool follows(int queue, const Request& first, const Request& second) const;
  int target_of(int queue, const Request& r) const;
  int receiver_of(int queue) const;
  int jfr_of(int queue) const;
  bool reachable(int queue, const Request& r) const;
  std::vector<int> remote_faults(const Request& r) const;
  void add_receive(int jfr, const Request& r);
  void execute(int queue, const Request& r);
  void send(int queue, const Request& r, int to);
  void deliver(int queue, const Request& r, const std::vector<uint8_t>& payload, int to);
  void invalidate(const Request& r, Record* record);
  void receive_payload(int from, const Request& r, const std::vector<uint8_t>& payload, int to,
                       const Receive& receive);
  void one_sided(int queue, const Request& r);
  void atomic(int process, const Request& r, int owner);
  void complete_send(int queue, const Request& r, std::vector<int> statuses);
  void marker(int queue, int status);
  void enter(int queue, int state);
  void flush_receives(int jfr);
  void flush_receive(int jfr, const Receive& receive);
  void hand_back(int queue, size_t count);
  Answer rearm(const Call& c);
  Answer wait(const Call& c);
  Answer async_event(const Call& c);
  // Ends everything that an object holds.
  void retire(int slot);
  void drop_waiting(int queue);
  void add_due(int jfc, Due due);
  void fail_senders_to(int queue);
  void resume_senders_to(int jfr);
  void check_threshold(int jfr);
  bool covered(int segment, uint32_t at, uint32_t length) const;
  void copy(int from, uint32_t at, int to, uint32_t into, uint32_t length);
  std::vector<uint8_t> bytes_at(int process, uint32_t at, uint32_t length) const;
  std::string take(int jfc, const Record& record);
  std::string compare(const Due& due, const Record& got) const;
  // Whether a waiting send goes through this target, or from this segment.
  bool waits_for(int slot) const;
  int children(int context) const;
  bool has_event(int jfce) const;
};

// The four forms of an answer.
inline Answer undefined() {
  Answer answer;
  answer.undefined = true;
  return answer;
}
inline Answer refuse(std::vector<int64_t> values) {
  Answer answer;
  answer.refused = true;
  answer.values = std::move(values);
  return answer;
}
inline Answer null(int error = EINVAL) {
  Answer answer = refuse({0});
  answer.error = error;
  return answer;
}
inline Answer succeed(std::function<void(const Result&)> effect = {},
                      int64_t value = URMA_SUCCESS) {
  Answer answer;
  answer.values = {value};
  answer.effect = std::move(effect);
  return answer;
}

std::string differs(const char* what, uint64_t expected, uint64_t actual);

}  // namespace urma_model

#endif  // TEST_MODEL_MODEL_H_
