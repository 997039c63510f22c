// SPDX-License-Identifier: MIT
//
// What threads record of their requests, and the file it is written to.
#ifndef URMA_CORE_PROCESS_TIMELINE_H_
#define URMA_CORE_PROCESS_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "urma/base/fd.h"
#include "urma_types.h"

namespace urma::core::trace {

enum class What : uint8_t { kPosted, kCompleted, kReceived };

// A post of one request, or one record that was polled: as long as a cache line.
struct Moment {
  uint64_t ticks;  // when the call returned
  uint64_t user_ctx;
  uint64_t bytes;
  uint64_t queue;  // address of the public object: a name, never dereferenced
  urma_eid_t peer_eid;
  uint32_t queue_id;
  uint32_t peer_id;
  uint32_t took;  // ticks since the call began
  What what;
  uint8_t opcode;
  uint8_t status;
  bool signalled;
};
static_assert(sizeof(Moment) == 64);

// A moment and its thread.
struct Entry {
  Moment moment;
  int32_t thread;
};

// Turns moments into events, and finds the request of each completion. The file is complete after
// each write.
class Timeline {
 public:
  // Throws Error if the file cannot be made.
  explicit Timeline(const std::string& file);

  // In the order of time, with `now_ticks` and `now_ns` read together.
  void write(std::span<const Entry> entries, uint64_t now_ticks, uint64_t now_ns);
  // The number of moments lost before they could be written.
  void write_lost(uint64_t count);
  // False, once, after a failed write: nothing more is written then.
  bool flush();

 private:
  struct Request {
    uint64_t number;
    uint64_t user_ctx;
    uint8_t opcode;
    bool signalled;
  };

  uint64_t ns_of(uint64_t ticks) const;
  void begin_event(std::string_view name, char phase, uint64_t ns, int32_t thread);
  void end_event();
  void add(std::string_view text) { text_.append(text); }
  void add_number(uint64_t number, int base = 10);
  void add_time(uint64_t ns);
  void add_what(const Moment& moment);
  void name_thread(int32_t thread);
  void write_posted(const Entry& entry);
  // False if its request is not known yet.
  bool write_completed(const Entry& entry);
  void write_received(const Entry& entry);
  void write_end(const Request& request, const Entry& entry, uint8_t status);
  bool put(std::string_view text);

  Fd file_;
  uint64_t size_ = 0;  // of the file up to the bracket that closes it
  bool failed_ = false;
  const int32_t pid_;
  std::string text_;
  uint64_t first_ticks_ = 0, first_ns_ = 0;
  double ns_per_tick_ = 0;
  uint64_t requests_ = 0;
  std::unordered_map<uint64_t, std::deque<Request>> outstanding_;  // by queue
  std::vector<Entry> early_;  // completions whose request was not recorded yet
  std::vector<int32_t> named_;
};

}  // namespace urma::core::trace

#endif  // URMA_CORE_PROCESS_TIMELINE_H_
