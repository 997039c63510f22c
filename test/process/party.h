// SPDX-License-Identifier: MIT
#ifndef TEST_PROCESS_PARTY_H_
#define TEST_PROCESS_PARTY_H_

#include <gtest/gtest.h>

#include <vector>

#include "test/process/endpoint.h"

namespace urma_test {

inline constexpr size_t kBufferSize = 1 << 20;

inline Config rc_config() {
  Config config;
  config.mode = URMA_TM_RC;
  return config;
}

// A process with RC jetties that share one JFR, and a buffer. Closed at the end of its scope.
struct Party {
  explicit Party(const Config& config = rc_config()) : endpoint(config), memory(2 * kBufferSize) {
    segment = endpoint.add(memory.data(), memory.size());
  }
  ~Party() {
    if (endpoint.wants_closing()) close();
  }
  void close() {
    for (urma_jetty_t* jetty : more) {
      if (jetty->remote_jetty != nullptr) {
        EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
      }
      EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
    }
    endpoint.close();
  }
  // Another jetty like that of the endpoint.
  urma_jetty_t* add_jetty() {
    urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
    cfg.id = 0;
    more.push_back(urma_create_jetty(endpoint.ctx, &cfg));
    EXPECT_NE(more.back(), nullptr);
    return more.back();
  }
  urma_target_jetty_t* import(uint32_t id) {
    QueueId known = endpoint.queue_id();
    known.id = id;
    return endpoint.import(known);
  }
  void post_receive(uint64_t user_ctx = 0) {
    endpoint.post_receive(segment, memory.data(), kBufferSize, user_ctx);
  }
  urma_jfs_wr_t message(size_t size, uint64_t user_ctx = 0) {
    sge_ = piece(segment, memory.data() + kBufferSize, size);
    return send_request(nullptr, &sge_, user_ctx);
  }
  void send(size_t size, uint64_t user_ctx = 0) { endpoint.post(message(size, user_ctx)); }
  urma_status_t try_send() {
    urma_jfs_wr_t wr = message(8);
    urma_jfs_wr_t* bad = nullptr;
    const urma_status_t status = endpoint.post(&wr, &bad);
    EXPECT_EQ(bad, status == URMA_SUCCESS ? nullptr : &wr);
    return status;
  }

  Endpoint endpoint;
  std::vector<char> memory;
  urma_target_seg_t* segment;
  std::vector<urma_jetty_t*> more;

 private:
  urma_sge_t sge_;
};

}  // namespace urma_test

#endif  // TEST_PROCESS_PARTY_H_
