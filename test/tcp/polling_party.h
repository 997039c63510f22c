// SPDX-License-Identifier: MIT
#ifndef TEST_TCP_POLLING_PARTY_H_
#define TEST_TCP_POLLING_PARTY_H_

#include <array>
#include <stdexcept>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {

inline constexpr size_t kSize = 64;

// Polls all the time, as long as the time slice lasts.
inline void await(urma_jfc_t* jfc) {
  const auto deadline = Clock::now() + patience(seconds(30));
  urma_cr_t cr = {};
  for (uint64_t polls = 1; urma_poll_jfc(jfc, 1, &cr) == 0; ++polls) {
    const bool looks = polls % 4096 == 0;
    if (looks && Clock::now() > deadline) throw std::runtime_error("no completion in time");
  }
  EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
}

// One of two processes that poll: it has memory, and knows the other one.
struct Party {
  explicit Party(Channel& channel, const Config& config = {}) : endpoint(config) {
    segment = endpoint.add(memory.data(), memory.size());
    endpoint.post_receive(segment, memory.data(), kSize);
    const Offer theirs = channel.swap(offer_of(endpoint, segment));
    queue = endpoint.import(theirs.queue);
    remote = endpoint.import(theirs.segment);
  }
  void send() {
    urma_sge_t from = piece(segment, memory.data() + kSize, kSize);
    endpoint.post(send_request(queue, &from));
  }
  void receive() {
    await(endpoint.receive_jfc);
    endpoint.post_receive(segment, memory.data(), kSize);
  }
  // The reports come before the answers.
  void ask() {
    send();
    receive();
    await(endpoint.send_jfc);
  }
  void answer() {
    receive();
    send();
    await(endpoint.send_jfc);
  }
  void post_write() {
    urma_sge_t from = piece(segment, memory.data() + kSize, kSize);
    urma_sge_t to = piece(remote, remote->seg.ubva.va + 2 * kSize, kSize);
    endpoint.post(write_request(queue, &from, &to));
  }
  void write() {
    post_write();
    await(endpoint.send_jfc);
  }

  OwnedEndpoint endpoint;
  std::array<char, 4 * kSize> memory = {};
  urma_target_seg_t* segment = nullptr;
  urma_target_seg_t* remote = nullptr;
  urma_target_jetty_t* queue = nullptr;
};

}  // namespace urma_test

#endif  // TEST_TCP_POLLING_PARTY_H_
