// SPDX-License-Identifier: MIT
//
// What programs rely on beyond the interface; docs/reference/conformance.md has the list. The name
// of a test has its section and its number there.
#ifndef TEST_CONFORMANCE_CLIENTS_H_
#define TEST_CONFORMANCE_CLIENTS_H_

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/sanitized.h"

namespace urma_test {

class Clients : public ProcessTest {};

inline Config config_of(urma_transport_mode_t mode, bool jetty = true) {
  Config config;
  config.mode = mode;
  config.jetty = jetty;
  return config;
}

// A process with a receive buffer and a send buffer.
struct Speaker {
  explicit Speaker(const Config& config = {}, size_t bytes = 4096)
      : endpoint(config), in(bytes, 'i'), out(bytes, 'o') {
    in_segment = endpoint.add(in.data(), in.size());
    out_segment = endpoint.add(out.data(), out.size());
  }
  // The target of requests: none in RC, where both sides bind.
  void meet(Channel& channel) {
    peer = endpoint.import(channel.swap(endpoint.queue_id()));
    remote = endpoint.import(channel.swap(endpoint.segment_id(in_segment)));
    if (endpoint.config.mode == URMA_TM_RC) {
      endpoint.bind(peer);
      channel.sync();
    }
  }
  void post_receive(uint64_t user_ctx = 0) {
    endpoint.post_receive(in_segment, in.data(), in.size(), user_ctx);
  }
  void send(size_t size, uint64_t user_ctx = 0) {
    urma_sge_t here = piece(out_segment, out.data(), size);
    endpoint.post(send_request(peer, &here, user_ctx));
  }
  void write(size_t size, uint64_t user_ctx = 0) {
    urma_sge_t here = piece(out_segment, out.data(), size);
    urma_sge_t there = piece(remote, remote->seg.ubva.va, size);
    endpoint.post(write_request(peer, &here, &there, user_ctx));
  }

  Endpoint endpoint;
  std::vector<char> in, out;
  urma_target_seg_t* in_segment;
  urma_target_seg_t* out_segment;
  urma_target_jetty_t* peer = nullptr;
  urma_target_seg_t* remote = nullptr;
};

}  // namespace urma_test

#endif  // TEST_CONFORMANCE_CLIENTS_H_
