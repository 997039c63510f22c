// SPDX-License-Identifier: MIT
#include "tools/perftest/watch.h"

#include <sched.h>
#include <unistd.h>

#include "tools/perftest/clock.h"
#include "tools/perftest/run.h"

namespace perftest {
namespace {

// The peer's last completions may have yet to be polled here.
constexpr uint64_t kGraceNs = 100'000'000;

// A live peer that does nothing for this long has lost something.
constexpr uint64_t kStallNs = 30'000'000'000;

}  // namespace

Watch::Watch(const Config& config, Exchange& exchange)
    : exchange_(exchange),
      quit_may_come_(config.ends_by == EndsBy::kUser),
      patient_(config.rate_limited || config.ends_by == EndsBy::kUser),
      one_processor_(::sysconf(_SC_NPROCESSORS_ONLN) == 1),
      random_(static_cast<uint32_t>(::getpid())) {}

// Not each time, and not at the same time in each wait: two sides in step could go on indefinitely,
// each waiting for the other to give way. Out of step, the kernel runs the one that has a message.
void Watch::maybe_give_way() {
  if (random_() % 4 == 0) ::sched_yield();
}

bool Watch::look() {
  if (interrupted.load(std::memory_order_relaxed) || (quit_may_come_ && exchange_.quit_seen())) {
    stopped_ = true;
    if (heeds_users_) return true;
  }
  if (peer_finishes_ && peer_has_finished()) return true;
  exchange_.check_peer();
  if (!patient_ && idle_ > 0) check_stall();
  return false;
}

void Watch::check_stall() {
  const uint64_t now = monotonic_ns();
  if (idle_since_ns_ == 0) idle_since_ns_ = now;
  if (now - idle_since_ns_ > kStallNs) {
    throw RunError("no data from the peer and no completion for 30 s");
  }
}

bool Watch::peer_has_finished() {
  if (!exchange_.data_waiting()) return false;
  const uint64_t now = monotonic_ns();
  if (finished_since_ns_ == 0) finished_since_ns_ = now;
  return now - finished_since_ns_ > kGraceNs;
}

}  // namespace perftest
