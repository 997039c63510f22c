// SPDX-License-Identifier: MIT
#ifndef TEST_PROCESS_SELF_H_
#define TEST_PROCESS_SELF_H_

#include <cstring>
#include <numeric>
#include <vector>

#include "test/process/endpoint.h"

namespace urma_test {

inline constexpr size_t kHalf = 64 << 10;

// A process that sends to itself, for tests of how requests are split. An RC jetty is bound to
// itself. Closed at the end of its scope.
struct Self {
  Endpoint endpoint;
  std::vector<char> memory = std::vector<char>(2 * kHalf);
  urma_target_seg_t* segment;
  urma_target_seg_t* remote;
  urma_target_jetty_t* queue;
  const Closing closing{endpoint};

  explicit Self(const Config& config = {}) : endpoint(config) {
    segment = endpoint.add(memory.data(), memory.size());
    remote = endpoint.import(endpoint.segment_id(segment));
    queue = endpoint.import(endpoint.queue_id());
    if (config.mode == URMA_TM_RC) endpoint.bind(queue);
    std::iota(out(), out() + kHalf, 'a');
  }
  char* in() { return memory.data(); }
  char* out() { return memory.data() + kHalf; }
  bool arrived(size_t size) { return std::memcmp(in(), out(), size) == 0; }
};

}  // namespace urma_test

#endif  // TEST_PROCESS_SELF_H_
