// SPDX-License-Identifier: MIT
//
// A program of its own that speaks the exchange of urma_perftest as its description has it, byte
// by byte, and shares no code with the tool.
#ifndef TEST_TOOLS_PERFTEST_RAW_H_
#define TEST_TOOLS_PERFTEST_RAW_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "test/process/endpoint.h"

namespace urma_test {

inline constexpr uint32_t kRawToken = 0xABCDEF;

// The configuration that both sides send first: 360 bytes of a struct, with its fields at these
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

// One TCP connection to the other side.
class RawChannel {
 public:
  static RawChannel connect(uint16_t port);
  RawChannel(RawChannel&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawChannel& operator=(RawChannel&&) = delete;
  ~RawChannel();

  void send(const void* data, size_t size);
  void receive(void* data, size_t size);
  // Each side sends so many bytes, then receives as many.
  std::vector<uint8_t> sync_data(const void* data, size_t size);
  // The lengths, then as many bytes as the longer one has.
  std::vector<uint8_t> sync_blob(const void* data, uint32_t size);
  // Both sides have come so far.
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
};

// One side of a test up to "Start test", and its end.
class RawSide {
 public:
  RawSide(RawChannel channel, const RawRun& run);

  // Steps (2) to (7).
  void introduce();
  // Steps (10) and (11).
  void end();
  void report();  // step (9)

  uint64_t remote_address(size_t offset = 0) const { return remote_seg_->seg.ubva.va + offset; }
  urma_sge_t here(size_t offset, size_t bytes) {
    return piece(local_seg_, memory_.data() + offset, bytes);
  }
  urma_sge_t there(size_t offset, size_t bytes) const {
    return piece(remote_seg_, remote_address(offset), bytes);
  }
  void post_receive() {
    endpoint_.post_receive(local_seg_, memory_.data() + memory_.size() / 2, run_.size);
  }

  RawChannel& channel() { return channel_; }
  Endpoint& endpoint() { return endpoint_; }
  urma_target_jetty_t* target() { return target_; }
  std::vector<uint8_t>& memory() { return memory_; }
  const RawRun& run() const { return run_; }

 private:
  static Config config(const RawRun& run);
  void swap_config();
  void swap_duplex();
  void swap_simplex();
  void import(urma_seg_t segment);
  void import(urma_rjetty_t jetty);

  const RawRun run_;
  RawChannel channel_;
  Endpoint endpoint_;
  std::vector<uint8_t> memory_;
  urma_target_seg_t* local_seg_;
  urma_target_seg_t* remote_seg_ = nullptr;
  urma_target_jetty_t* target_ = nullptr;
};

}  // namespace urma_test

#endif  // TEST_TOOLS_PERFTEST_RAW_H_
