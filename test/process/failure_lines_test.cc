// SPDX-License-Identifier: MIT
//
// A failing request is logged by the side that knows why: queue, user_ctx, address, length, and
// what they hit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/log_lines.h"

namespace urma_test {
namespace {

constexpr size_t kSize = 4096;
constexpr uint32_t kToken = 0xfeedc0de;

struct Offer {
  QueueId queue;
  SegmentId readable;
  SegmentId open;
};

class FailureLinesTest : public ProcessTest {
 protected:
  void SetUp() override {
    SKIP_UNLESS_SHARED_MEMORY("the library finds the reason of every failure");
  }
};

// A queue and two segments; only does what the test tells it.
struct Target {
  explicit Target(const Config& config = {}) : endpoint(config), memory(2 * kSize) {
    readable = endpoint.add(memory.data(), kSize, URMA_ACCESS_READ);
    open = endpoint.add(memory.data() + kSize, kSize);
  }
  Offer offer() const {
    return {endpoint.queue_id(), endpoint.segment_id(readable), endpoint.segment_id(open)};
  }
  Endpoint endpoint;
  std::vector<uint8_t> memory;
  urma_target_seg_t* readable;
  urma_target_seg_t* open;
};

// The process that posts.
struct Poster {
  Poster(const Offer& offer, const Config& config = {}) : endpoint(config), buffer(kSize) {
    local = endpoint.add(buffer.data(), kSize, URMA_ACCESS_LOCAL_ONLY);
    queue = endpoint.import(offer.queue);
    readable = endpoint.import(offer.readable);
    open = endpoint.import(offer.open);
  }
  void expect(const urma_jfs_wr_t& request, urma_cr_status_t status) {
    endpoint.post(request);
    wait_for_status(endpoint.send_jfc, status);
  }

  Endpoint endpoint;
  std::vector<uint8_t> buffer;
  urma_target_seg_t* local;
  urma_target_seg_t* readable;
  urma_target_seg_t* open;
  urma_target_jetty_t* queue;
};

// Failures that the poster's own side detects.
void post_one_sided(Poster& poster, const Offer& offer) {
  urma_sge_t here = piece(poster.local, poster.buffer.data(), 8);
  urma_sge_t there = piece(poster.readable, offer.readable.va + 16, 8);
  poster.expect(write_request(poster.queue, &here, &there, 0x51), URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_LINE("WRITE of 8 bytes at ", "user_ctx 0x51", "status 8", "no registration of token id ",
              "grants WRITE on the 8 bytes at ");
  there = piece(poster.open, offer.open.va + kSize - 4, 8);
  poster.expect(read_request(poster.queue, &here, &there, 0x52), URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_LINE("READ of 8 bytes at ", "user_ctx 0x52", "status 8", "no registration of token id ",
              "grants READ on the 8 bytes at ");
  there = piece(poster.open, offer.open.va + 1, 8);
  poster.expect(add_request(poster.queue, &here, &there, 1, 0x53), URMA_CR_REM_UNSUPPORTED_REQ_ERR);
  EXPECT_LINE("atomic of 8 bytes at ", "user_ctx 0x53", "status 6", "not aligned",
              "a multiple of 8");
  here = piece(poster.local, poster.buffer.data() + kSize - 4, 8);
  there = piece(poster.open, offer.open.va, 8);
  poster.expect(write_request(poster.queue, &here, &there, 0x54), URMA_CR_LOC_ACCESS_ERR);
  EXPECT_LINE("user_ctx 0x54", "status 4", "leave their segment of 4096 bytes");
}

TEST_F(FailureLinesTest, ThePosterSaysWhyAnAccessFails) {
  run_two(
      "target",
      [](Channel& channel) {
        const Target target;
        channel.send(target.offer());
        channel.sync();
      },
      "poster",
      [](Channel& channel) {
        const Offer offer = channel.receive<Offer>();
        Poster poster(offer);
        const LogLines lines;
        post_one_sided(poster, offer);
        channel.sync();
      });
}

TEST_F(FailureLinesTest, TheReceiverSaysWhyAMessageFails) {
  run_two(
      "target",
      [](Channel& channel) {
        Target target;
        const LogLines lines;
        Endpoint& endpoint = target.endpoint;
        endpoint.post_receive(target.open, target.memory.data() + kSize, 4, 0x61);
        channel.send(target.offer());
        wait_for_status(endpoint.receive_jfc, URMA_CR_LOC_LEN_ERR);
        EXPECT_LINE("a receive of 4 bytes, user_ctx 0x61", "too short for the 8 bytes of id");
        std::vector<uint8_t> gone(kSize);
        urma_target_seg_t* segment = endpoint.add(gone.data(), kSize);
        endpoint.post_receive(segment, gone.data(), 8, 0x62);
        endpoint.remove(segment);
        channel.sync();
        wait_for_status(endpoint.receive_jfc, URMA_CR_LOC_ACCESS_ERR);
        EXPECT_LINE("a receive of 8 bytes, user_ctx 0x62", "status 4", "was unregistered");
        channel.sync();
        // The third message has found no receive.
        EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
        EXPECT_LINE("a message of 8 bytes", "no receive was posted");
      },
      "poster",
      [](Channel& channel) {
        const Offer offer = channel.receive<Offer>();
        Poster poster(offer, Config{.rnr_retry = 1});
        const LogLines lines;
        urma_sge_t here = piece(poster.local, poster.buffer.data(), 8);
        poster.expect(send_request(poster.queue, &here, 0x71), URMA_CR_REM_RESP_LEN_ERR);
        EXPECT_LINE("SEND of 8 bytes from ", "user_ctx 0x71", "status 5", "too short");
        channel.sync();
        poster.expect(send_request(poster.queue, &here, 0x72), URMA_CR_REM_OPERATION_ERR);
        EXPECT_LINE("SEND of 8 bytes from ", "user_ctx 0x72", "status 7");
        poster.expect(send_request(poster.queue, &here, 0x73), URMA_CR_RNR_RETRY_CNT_EXC_ERR);
        EXPECT_LINE("SEND of 8 bytes from ", "user_ctx 0x73", "status 10", "rnr_retry");
        channel.sync();
      });
}

TEST_F(FailureLinesTest, DebugShowsAllAndInfoSome) {
  run_two(
      "target",
      [](Channel& channel) {
        const Target target;
        channel.send(target.offer());
        channel.sync();
      },
      "poster",
      [](Channel& channel) {
        const Offer offer = channel.receive<Offer>();
        Poster poster(offer);
        const LogLines lines;
        urma_sge_t here = piece(poster.local, poster.buffer.data(), 8);
        urma_sge_t there = piece(poster.readable, offer.readable.va, 8);
        constexpr size_t kMany = 60;
        const auto fail_many = [&](uint64_t user_ctx) {
          for (size_t i = 0; i < kMany; ++i) {
            poster.expect(write_request(poster.queue, &here, &there, user_ctx),
                          URMA_CR_REM_ACCESS_ABORT_ERR);
          }
        };
        urma_log_set_level(URMA_VLOG_LEVEL_DEBUG);
        fail_many(0x81);
        EXPECT_EQ(LogLines::count({"user_ctx 0x81"}), kMany);
        urma_log_set_level(URMA_VLOG_LEVEL_INFO);
        fail_many(0x82);
        EXPECT_GE(LogLines::count({"user_ctx 0x82"}), 1u);
        EXPECT_LT(LogLines::count({"user_ctx 0x82"}), kMany);
        urma_log_set_level(URMA_VLOG_LEVEL_WARNING);
        fail_many(0x83);
        EXPECT_EQ(LogLines::count({"user_ctx 0x83"}), 0u);
        channel.sync();
      });
}

TEST_F(FailureLinesTest, TheOwnerLogsAWrongTokenOfAQueue) {
  for (const bool jetty : {true, false}) {
    run_two(
        "target",
        [jetty](Channel& channel) {
          const Target target(Config{.jetty = jetty, .token = kToken});
          const LogLines lines;
          channel.send(target.offer());
          channel.sync();
          EXPECT_LINE("presented a wrong token for ", jetty ? "jetty" : "JFR");
        },
        "poster",
        [](Channel& channel) {
          Offer offer = channel.receive<Offer>();
          offer.queue.token = kToken + 1;
          Poster poster(offer);
          urma_sge_t here = piece(poster.local, poster.buffer.data(), 8);
          poster.expect(send_request(poster.queue, &here), URMA_CR_REM_ACCESS_ABORT_ERR);
          channel.sync();
        });
  }
}

TEST_F(FailureLinesTest, AnUnknownIdNamesTheDirectoryAndItsProcesses) {
  run_one([dir = runtime_dir()](Channel&) {
    Target target;
    Offer offer = target.offer();
    // In a slot that does not belong to this process, the only one here.
    offer.queue.id ^= 0x10000;
    offer.open.token_id ^= 0x10000;
    const LogLines lines;
    urma_target_jetty_t* const queue = target.endpoint.import(offer.queue);
    urma_target_seg_t* const remote = target.endpoint.import(offer.open);
    urma_sge_t here = piece(target.open, target.memory.data() + kSize, 8);
    target.endpoint.post(send_request(queue, &here));
    wait_for_status(target.endpoint.send_jfc, URMA_CR_ACK_TIMEOUT_ERR);
    EXPECT_LINE("no process in " + dir + " answers for jetty", "(processes there: 1)", "PrivateTmp",
                "XDG_RUNTIME_DIR", "the same user");
    urma_sge_t there = piece(remote, offer.open.va, 8);
    target.endpoint.post(write_request(queue, &here, &there));
    wait_for_status(target.endpoint.send_jfc, URMA_CR_ACK_TIMEOUT_ERR);
    EXPECT_GE(LogLines::count({"no process in " + dir + " answers for token id"}), 1u)
        << LogLines::all();
  });
}

}  // namespace
}  // namespace urma_test
