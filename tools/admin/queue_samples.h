// SPDX-License-Identifier: MIT
//
// What the queues of running processes had done at one moment, and between two.
#ifndef TOOLS_ADMIN_QUEUE_SAMPLES_H_
#define TOOLS_ADMIN_QUEUE_SAMPLES_H_

#include <signal.h>
#include <time.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tools/admin/options.h"
#include "tools/admin/processes.h"
#include "tools/admin/show_queues.h"
#include "urma_ext.h"

namespace admin {

using QueueAnswers = std::vector<Answer<urma_ext_queue_t>>;

struct Sample {
  std::chrono::steady_clock::time_point time;
  QueueAnswers answers;
};

// Asks the processes that the options name, and keeps the queues that pass the filter.
Sample take_sample(const Options& options, const QueueFilter& filter);
double seconds_between(const Sample& before, const Sample& now);
// Queues of the device that the options name, or all.
QueueFilter device_filter(const Options& options);

// Process, device, kind and id.
using QueueKey = std::tuple<uint32_t, std::string, int, uint32_t>;
QueueKey key_of(uint32_t pid, const urma_ext_queue_t& queue);
std::map<QueueKey, urma_ext_queue_t> queues_by_key(const QueueAnswers& answers);

std::string state_name(const urma_ext_queue_t& queue);
std::string device_of(const urma_ext_queue_t& queue);
// Completions with an error.
uint64_t errors_of(const urma_ext_queue_t& queue);

// Per second.
struct Rates {
  double posts, completions, errors, bytes, rnr, wakeups, polls;
};

// A queue made anew with the same id counts from 0.
Rates rates_between(const urma_ext_queue_t& old, const urma_ext_queue_t& queue, double seconds);

// What the queues of a sample had done, to compare it with a later one.
class Past {
 public:
  explicit Past(const Sample& sample);
  // At that moment, what a queue of now had done: nothing if it is newer. If its process did not
  // answer then, that is unknown, and the queue of now is returned.
  const urma_ext_queue_t& of(uint32_t pid, const urma_ext_queue_t& now) const;

 private:
  std::map<QueueKey, urma_ext_queue_t> queues_;
  std::set<uint32_t> silent_;  // processes
};

// Waits for the end of an interval, or for Ctrl-C, which must not leave files in the runtime
// directory. Returns whether to continue.
class Interval {
 public:
  explicit Interval(uint64_t seconds) : length_{static_cast<time_t>(seconds), 0} {
    ::sigemptyset(&ends_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends_, signal);
    ::pthread_sigmask(SIG_BLOCK, &ends_, nullptr);
  }
  bool wait() { return ::sigtimedwait(&ends_, nullptr, &length_) < 0; }

 private:
  timespec length_;
  sigset_t ends_;
};

}  // namespace admin

#endif  // TOOLS_ADMIN_QUEUE_SAMPLES_H_
