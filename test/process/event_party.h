// SPDX-License-Identifier: MIT
//
// A process that tests completion events, and a peer that sends on command.
#ifndef TEST_PROCESS_EVENT_PARTY_H_
#define TEST_PROCESS_EVENT_PARTY_H_

#include <gtest/gtest.h>

#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {

inline constexpr int kForEver = -1;

inline Config with_events(bool lock_free = false) {
  Config config;
  config.events = true;
  config.lock_free = lock_free;
  return config;
}

// A process with a JFCE, its memory, and the queue of its peer. Closed at the end of its scope.
struct Party {
  explicit Party(Channel& channel, const Config& config = with_events(), size_t bytes = 4096)
      : endpoint(config), memory(2 * bytes), size(bytes) {
    segment = endpoint.add(memory.data(), memory.size());
    peer = endpoint.import(channel.swap(endpoint.queue_id()));
  }
  void post_receive(uint64_t user_ctx = 0) {
    endpoint.post_receive(segment, memory.data(), size, user_ctx);
  }
  void send(size_t bytes, bool solicited = false, uint64_t user_ctx = 0) {
    urma_sge_t here = piece(segment, memory.data() + size, bytes);
    urma_jfs_wr_t wr = send_request(peer, &here, user_ctx);
    wr.flag.bs.solicited_enable = solicited ? 1 : 0;
    endpoint.post(wr);
  }
  void arm(urma_jfc_t* jfc, bool solicited_only = false) {
    EXPECT_EQ(urma_rearm_jfc(jfc, solicited_only), URMA_SUCCESS);
  }
  // The next event, unacknowledged; NULL on timeout.
  urma_jfc_t* wait(int timeout_ms = kForEver) {
    urma_jfc_t* jfc = nullptr;
    const int n = urma_wait_jfc(endpoint.jfce, 1, timeout_ms, &jfc);
    EXPECT_TRUE(n == 0 || n == 1) << n;
    return n == 1 ? jfc : nullptr;
  }
  static void ack(urma_jfc_t* jfc, uint32_t events = 1) { urma_ack_jfc(&jfc, &events, 1); }
  void expect_event(urma_jfc_t* jfc) {
    EXPECT_EQ(wait(), jfc);
    ack(jfc);
  }

  Endpoint endpoint;
  std::vector<char> memory;
  const size_t size;
  urma_target_seg_t* segment;
  urma_target_jetty_t* peer;
  const Closing closing{endpoint};
};

// The number of records that a JFC returns now.
inline int drain(urma_jfc_t* jfc) {
  urma_cr_t cr[16];
  int total = 0;
  for (int n; (n = urma_poll_jfc(jfc, 16, cr)) != 0; total += n) {
    EXPECT_GT(n, 0);
    for (int i = 0; i < n; ++i) EXPECT_EQ(cr[i].status, URMA_CR_SUCCESS);
  }
  return total;
}

// The peer in most tests: sends on command, polls until that is done, and reports the status.
inline void obey(Channel& channel, const Config& config = Config(), size_t bytes = 4096) {
  Party party(channel, config, bytes);
  for (;;) {
    const int order = channel.receive<int>();
    if (order < 0) break;
    party.send(static_cast<size_t>(order & ~1), (order & 1) != 0);
    channel.send(static_cast<char>(wait_for(party.endpoint.send_jfc).status));
  }
}
inline void dismiss(Channel& channel) { channel.send(-1); }
// Sizes are even; the lowest bit asks for a solicited event.
inline void order(Channel& channel, int bytes, bool solicited = false) {
  channel.send(bytes | (solicited ? 1 : 0));
}

}  // namespace urma_test

#endif  // TEST_PROCESS_EVENT_PARTY_H_
