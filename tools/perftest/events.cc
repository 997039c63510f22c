// SPDX-License-Identifier: MIT
#include "tools/perftest/events.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

namespace perftest {
namespace {

// How soon a sleeping side notices that its peer has vanished.
constexpr int kSliceMs = 100;

}  // namespace

// Completions since the last poll raise the event at once.
void Sleeper::arm() {
  for (urma_jfc_t* jfc : unarmed_) ok(urma_rearm_jfc(jfc, false), "urma_rearm_jfc");
  unarmed_.clear();
}

bool Sleeper::sleep() {
  arm();
  const int limit = config_.wait_jfc_timeout_ms;
  std::array<urma_jfc_t*, 2> jfcs = {};
  for (int waited = 0;;) {
    const int slice = limit < 0 ? kSliceMs : std::min(kSliceMs, limit - waited);
    const int n = urma_wait_jfc(queues_.channel(), jfcs.size(), slice, jfcs.data());
    if (n < 0 && errno != EINTR) fail_errno("urma_wait_jfc");
    if (n > 0) {
      std::array<uint32_t, 2> events = {1, 1};
      urma_ack_jfc(jfcs.data(), events.data(), static_cast<uint32_t>(n));
      unarmed_.assign(jfcs.begin(), jfcs.begin() + n);
      watch_.busy();
      return true;
    }
    if (limit == 0 ? watch_.idle() : watch_.look()) return false;
    if (limit < 0) watch_.be_patient();
    waited += slice;
    if (limit > 0 && waited >= limit) {
      throw RunError("no completion event came within " + std::to_string(limit) +
                     " ms (--wait_jfc_timeout; -1: no limit)");
    }
  }
}

}  // namespace perftest
