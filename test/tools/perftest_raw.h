// SPDX-License-Identifier: MIT
//
// A separate program that speaks the exchange of urma_perftest according to its description, byte
// by byte, and shares no code with the tool.
#ifndef TEST_TOOLS_PERFTEST_RAW_H_
#define TEST_TOOLS_PERFTEST_RAW_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "test/process/endpoint.h"
#include "test/tools/tool_process.h"

namespace urma_test {

inline constexpr uint32_t kRawToken = 0xABCDEF;

// The configuration that both sides send first: a struct of 360 bytes, with its fields at these
// offsets.
class RawBlock {
 public:
  enum Offset : size_t {
    kCmd = 0,
    kAll = 16,
    kAtomicType = 20,
    kDeviceName = 28,
    kDuration = 92,
    kUseJfce = 96,
    kTimeType = 100,
    kJettys = 108,
    kTokenPolicy = 112,
    kIters = 120,
    kJettyMode = 144,
    kSize = 160,
    kJfsDepth = 164,
    kTransMode = 168,
    kUseFlatApi = 208,
    kInfPeriodMs = 220,
    kOrder = 224,
    kEnableIpv6 = 256,
    kEnableCredit = 304,
    kSegPreJetty = 316,
    kEnableImm = 317,
    kEnableNotify = 318,
    kEnableErrContinue = 319,
    kEnableUserTp = 320,
    kSgeNum = 336,
    kWriteDirtyPeriod = 344,
    kPairNum = 348,
  };
  static constexpr size_t kBytes = 360;

  template <typename T>
  void put(Offset offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof(value));
  }
  template <typename T>
  T get(Offset offset) const {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(value));
    return value;
  }
  uint8_t* data() { return bytes_.data(); }
  const uint8_t* data() const { return bytes_.data(); }

 private:
  std::array<uint8_t, kBytes> bytes_ = {};
};

// UMDK's bw_report_data_t. Rates of bytes are per second.
struct RawReport {
  uint64_t size = 0;
  uint64_t iterations = 0;
  double peak = 0;
  double average = 0;
  double messages = 0;  // 10^6 per second
};
static_assert(sizeof(RawReport) == 40);

// One TCP connection to the other side.
class RawChannel {
 public:
  static RawChannel connect(uint16_t port);
  RawChannel(RawChannel&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawChannel& operator=(RawChannel&&) = delete;
  ~RawChannel();

  void send(const void* data, size_t size);
  void receive(void* data, size_t size);
  // Each side sends this many bytes, then receives as many.
  std::vector<uint8_t> sync_data(const void* data, size_t size);
  // The lengths, then as many bytes as the longer one has.
  std::vector<uint8_t> sync_blob(const void* data, uint32_t size);
  // Whether the other side has sent something.
  bool has_data() const;
  // Both sides have reached this point.
  void sync_time(const std::string& tag);

 private:
  friend class RawListener;
  explicit RawChannel(int fd);
  int fd_;
};

class RawListener {
 public:
  RawListener();
  RawListener(const RawListener&) = delete;
  ~RawListener();
  uint16_t port() const { return port_; }
  RawChannel accept();

 private:
  int fd_;
  uint16_t port_;
};

struct RawRun {
  bool server = false;
  bool simplex = false;
  uint64_t iters = 20;
  uint32_t size = 64;
  uint32_t order = 16;  // what -a would take; send has 12
  uint32_t jettys = 1;
  uint32_t duration = 5;
  bool all = false;
  bool immediate = false;
  bool credit = false;
  bool notify = false;
  bool channels = false;             // --tp_aware
  bool provider_data = false;        // the descriptors of jettys claim to be followed by some
  std::vector<std::string> options;  // of the tool, for all that
};

// One side of a test up to "Start test", and its end. Memory has the layout of UMDK's tool: slots
// of kSlot bytes, the first ones of which are for arrivals.
class RawSide {
 public:
  static constexpr size_t kSlot = 4096;

  RawSide(RawChannel channel, const RawRun& run);

  // Steps (2) to (7).
  void introduce();
  // Before another size of -a: recreates the queues.
  void renew_queues();
  // Step (9): returns what the other side reports.
  RawReport report(const RawReport& own = {});
  // Steps (10) and (11).
  void end();

  uint64_t remote_address(size_t offset = 0) const { return remote_segs_[0]->seg.ubva.va + offset; }
  urma_sge_t here(size_t offset, size_t bytes) {
    return piece(local_seg_, memory_.data() + offset, bytes);
  }
  urma_sge_t there(size_t offset, size_t bytes) const {
    return piece(remote_segs_[0], remote_address(offset), bytes);
  }
  void post_receive() {
    endpoint_.post_receive(local_seg_, memory_.data() + memory_.size() / 2, run_.size);
  }
  // Posts a request by the jetty of a lane, and waits for it.
  void post(urma_jfs_wr_t wr, uint32_t lane = 0);

  // What the peer writes for a lane with --enable_credit or --enable_notify: the first two words of
  // a segment.
  uint64_t word(uint32_t lane, uint32_t index) const;
  urma_sge_t remote_word(uint32_t lane, uint32_t index) const {
    return piece(remote_words_[lane], remote_words_[lane]->seg.ubva.va + index * sizeof(uint64_t),
                 sizeof(uint64_t));
  }

  RawChannel& channel() { return channel_; }
  Endpoint& endpoint() { return endpoint_; }
  urma_target_jetty_t* target(uint32_t lane = 0) { return targets_[lane]; }
  std::vector<uint8_t>& memory() { return memory_; }
  const RawRun& run() const { return run_; }

 private:
  static Config config(const RawRun& run);
  void swap_config();
  RawBlock block(const RawBlock& theirs) const;
  void expect_block(const RawBlock& theirs) const;
  std::vector<urma_seg_t> swap_segments();
  std::vector<urma_rjetty_t> swap_queues();
  void swap_words();
  void swap_channels();
  void create_jettys();
  void import(const std::vector<urma_rjetty_t>& queues);
  urma_target_seg_t* import(urma_seg_t segment);
  void unimport_queues();

  const RawRun run_;
  RawChannel channel_;
  Endpoint endpoint_;
  std::vector<uint8_t> memory_;
  urma_target_seg_t* local_seg_;
  std::vector<urma_jetty_t*> jettys_;  // the first one is that of the endpoint
  std::vector<uint8_t> words_;
  std::vector<urma_target_seg_t*> local_words_, remote_words_;
  std::vector<urma_target_seg_t*> remote_segs_;
  std::vector<urma_target_jetty_t*> targets_;
};

// What the raw side does between "Start test" and "End test".
using RawWork = std::function<void(RawSide&)>;

// The tool as the server of a raw client; and as the client of a raw server.
ToolResult serve_raw(const std::string& test, const RawRun& run, const RawWork& work);
ToolResult call_raw(const std::string& test, RawRun run, const RawWork& work);

}  // namespace urma_test

#endif  // TEST_TOOLS_PERFTEST_RAW_H_
