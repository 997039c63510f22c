// SPDX-License-Identifier: MIT
//
// URMA_LOG_LEVEL=debug: the library logs to stderr what it finds and does.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

class DebugLinesTest : public ProcessTest {
 protected:
  void SetUp() override { SKIP_UNLESS_SHARED_MEMORY("rings exist"); }

  // One line each.
  std::vector<std::string> texts() const {
    return {"the runtime directory is " + runtime_dir() + ", as URMA_RUNTIME_DIR says",
            "provider shm of ",
            "device urma_shm0 has 2 EIDs",
            "provider rocm of ",
            "the way to process ",
            " sends to jetty ",
            " sends to queue ",
            " are mapped, others ",
            "the ring of queue "};
  }

  // The output of a process that sends to itself and writes to its own memory.
  static std::string output_at(const char* level) {
    Child child("program", [level](Channel&) {
      if (level != nullptr) ::setenv("URMA_LOG_LEVEL", level, 1);
      std::vector<uint8_t> memory(1 << 16);
      OwnedEndpoint endpoint;
      urma_target_seg_t* const segment = endpoint.add(memory.data(), memory.size());
      urma_target_jetty_t* const queue = endpoint.import(endpoint.queue_id());
      urma_target_seg_t* const remote = endpoint.import(endpoint.segment_id(segment), true);
      endpoint.post_receive(segment, memory.data(), 8);
      urma_sge_t here = piece(segment, memory.data(), 8);
      urma_sge_t there = piece(remote, memory.data() + 64, 8);
      endpoint.post(send_request(queue, &here, 1));
      wait_for_success(endpoint.send_jfc, 1);
      endpoint.post(write_request(queue, &here, &there, 2));
      wait_for_success(endpoint.send_jfc, 2);
      wait_for(endpoint.receive_jfc);
    });
    child.expect_success();
    return child.output();
  }
};

TEST_F(DebugLinesTest, ShowFindingsAndActions) {
  const std::string output = output_at("debug");
  for (const std::string& text : texts()) {
    EXPECT_NE(output.find(text), std::string::npos) << "no line has: " << text << "\n" << output;
  }
}

TEST_F(DebugLinesTest, AreOffByDefault) {
  for (const char* level : {static_cast<const char*>(nullptr), "info"}) {
    const std::string output = output_at(level);
    for (const std::string& text : texts()) {
      EXPECT_EQ(output.find(text), std::string::npos) << "a line has: " << text << "\n" << output;
    }
  }
}

}  // namespace
}  // namespace urma_test
