// SPDX-License-Identifier: MIT
//
// guest_program exit|return|quick_exit|thread: starts the library, has traffic with itself, leaves
// more in flight, and exits as its argument says, without urma_uninit.
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "test/process/endpoint.h"

namespace {

// Both outlive main() and all destructors, like the traffic.
urma_test::Endpoint* endpoint;
std::vector<char>& memory = *new std::vector<char>(1 << 20);

void have_traffic() {
  endpoint = new urma_test::Endpoint;
  urma_target_seg_t* segment = endpoint->add(memory.data(), memory.size());
  urma_target_jetty_t* self = endpoint->import(endpoint->queue_id());
  endpoint->post_receive(segment, memory.data(), 1000, 1);
  urma_sge_t message = urma_test::piece(segment, memory.data() + 1000, 1000);
  endpoint->post(urma_test::send_request(self, &message, 2));
  urma_test::wait_for_success(endpoint->send_jfc, 2);
  urma_test::wait_for_success(endpoint->receive_jfc, 1);

  for (uint64_t i = 0; i < 8; ++i) endpoint->post_receive(segment, memory.data(), 1000, i);
  for (uint64_t i = 0; i < 16; ++i) endpoint->post(urma_test::send_request(self, &message, i));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  ::testing::GTEST_FLAG(throw_on_failure) = true;
  have_traffic();
  if (std::strcmp(argv[1], "exit") == 0) std::exit(0);
  if (std::strcmp(argv[1], "quick_exit") == 0) std::quick_exit(0);
  if (std::strcmp(argv[1], "thread") == 0) {
    // Another thread ends the program while this one polls.
    std::thread([] { std::exit(0); }).detach();
    urma_cr_t cr;
    while (true) urma_poll_jfc(endpoint->receive_jfc, 1, &cr);
  }
  return std::strcmp(argv[1], "return") == 0 ? 0 : 2;
}
