// SPDX-License-Identifier: MIT
//
// The provider behind the C interface, on a software device.
#ifndef TEST_VERBS_MODULE_FIXTURE_H_
#define TEST_VERBS_MODULE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "test/process/configs.h"
#include "test/verbs/fake_verbs.h"
#include "urma/base/clock.h"
#include "urma/base/host.h"
#include "urma_api.h"
#include "urma_ext.h"

extern "C" int urma_module_entry(uint32_t version, const urma_host* host);

namespace urma::verbs {

// What the provider takes for the devices of the machine; those of the running test.
extern std::unique_ptr<FakeVerbs> fake;

inline constexpr uint64_t kPatienceNs = 20'000'000'000;
inline constexpr size_t kPage = 4096;
inline constexpr uint32_t kAll = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;

// Of the log, since the last look.
inline std::vector<std::string> lines;

inline void collect(int /*level*/, char* line) { lines.emplace_back(line); }

// Until the condition holds, or the time is up.
inline bool soon(const std::function<bool()>& condition) {
  const uint64_t deadline = monotonic_ns() + kPatienceNs;
  while (!condition()) {
    if (monotonic_ns() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class ModuleTest : public testing::Test {
 protected:
  ModuleTest() {
    char dir[] = "/tmp/urma-module-XXXXXX";
    runtime_dir_ = ::mkdtemp(dir);
    ::setenv("URMA_RUNTIME_DIR", runtime_dir_.c_str(), 1);
    fake = std::make_unique<FakeVerbs>();
    lines.clear();
  }
  ~ModuleTest() override {
    EXPECT_EQ(urma_delete_context(ctx_), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    urma_unregister_log_func();
    fake.reset();
    EXPECT_EQ(std::system(("rm -r " + runtime_dir_).c_str()), 0);
  }

  void start(FakeDeviceOptions options) {
    options.gids = {{"127.0.0.1"}};
    fake->add_device(options);
    ASSERT_EQ(urma_module_entry(kUrmaHostVersion, host()), 0);
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    urma_register_log_func(collect);
    char name[] = "urma_fake0";
    device_ = urma_get_device_by_name(name);
    ASSERT_NE(device_, nullptr);
    ctx_ = urma_create_context(device_, 0);
    ASSERT_NE(ctx_, nullptr);
  }
  // Whether one line of the log since the last look contains all of these.
  static bool logged(const std::vector<std::string>& words) {
    bool found = false;
    for (const std::string& line : lines) {
      bool all = true;
      for (const std::string& word : words) all &= line.find(word) != std::string::npos;
      found |= all;
    }
    lines.clear();
    return found;
  }
  static urma_seg_cfg_t seg_cfg(uint64_t va, uint64_t len) {
    urma_seg_cfg_t cfg = urma_test::seg_config(va, len, kAll);
    cfg.flag.bs.token_policy = URMA_TOKEN_NONE;
    return cfg;
  }
  static uint64_t address(const void* memory) { return reinterpret_cast<uint64_t>(memory); }
  urma_target_seg_t* add(void* memory, size_t bytes) {
    urma_seg_cfg_t cfg = seg_cfg(address(memory), bytes);
    return urma_register_seg(ctx_, &cfg);
  }
  template <typename Record>
  static std::vector<Record> all(urma_status_t (*query)(uint32_t, Record*, uint32_t*)) {
    std::vector<Record> records(16);
    uint32_t count = 16;
    EXPECT_EQ(query(0, records.data(), &count), URMA_SUCCESS);
    records.resize(count);
    return records;
  }

  std::string runtime_dir_;
  urma_device_t* device_ = nullptr;
  urma_context_t* ctx_ = nullptr;
};

// A JFS that sends to a JFR of the same context.
struct Loop {
  explicit Loop(urma_context_t* ctx, urma_transport_mode_t mode = URMA_TM_RM)
      : ctx(ctx), mode(mode) {
    urma_jfc_cfg_t jfc_cfg = urma_test::jfc_config(64);
    jfc = urma_create_jfc(ctx, &jfc_cfg);
    urma_jfr_cfg_t jfr_cfg = urma_test::jfr_config(jfc, 16, mode);
    jfr = urma_create_jfr(ctx, &jfr_cfg);
    urma_jfs_cfg_t jfs_cfg = urma_test::jfs_config(jfc, 16, mode);
    jfs_cfg.rnr_retry = 7;
    jfs_cfg.err_timeout = 14;
    jfs = urma_create_jfs(ctx, &jfs_cfg);
    if (jfc == nullptr || jfr == nullptr || jfs == nullptr) throw std::runtime_error("no queues");
    target = import(jfr->jfr_id);
  }
  ~Loop() {
    EXPECT_EQ(urma_unimport_jfr(target), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  urma_target_jetty_t* import(const urma_jfr_id_t& id) const {
    urma_rjfr_t remote = urma_test::remote_jfr(id, mode);
    remote.flag.bs.token_policy = URMA_TOKEN_NONE;
    urma_token_t token = {0};
    return urma_import_jfr(ctx, &remote, &token);
  }
  // An empty message. Needs a receive at its target.
  urma_status_t send(urma_target_jetty_t* to) const {
    urma_jfs_wr_t wr = {};
    wr.opcode = URMA_OPC_SEND;
    wr.flag.bs.complete_enable = 1;
    wr.tjetty = to;
    urma_jfs_wr_t* bad = nullptr;
    return urma_post_jfs_wr(jfs, &wr, &bad);
  }
  void post_receive() const {
    urma_jfr_wr_t wr = {};
    urma_jfr_wr_t* bad = nullptr;
    EXPECT_EQ(urma_post_jfr_wr(jfr, &wr, &bad), URMA_SUCCESS);
  }
  urma_status_t post(urma_opcode_t opcode, urma_sge_t from, urma_sge_t to) const {
    urma_jfs_wr_t wr = {};
    wr.opcode = opcode;
    wr.flag.bs.complete_enable = 1;
    wr.tjetty = target;
    if (opcode == URMA_OPC_WRITE) {
      wr.rw.src = {&from, 1};
      wr.rw.dst = {&to, 1};
    } else {
      wr.faa.src = &to;
      wr.faa.dst = &from;
      wr.faa.operand = 1;
    }
    urma_jfs_wr_t* bad = nullptr;
    return urma_post_jfs_wr(jfs, &wr, &bad);
  }
  // Of the next record, of any kind.
  urma_cr_status_t status() const {
    urma_cr_t record = {};
    EXPECT_TRUE(soon([&] { return urma_poll_jfc(jfc, 1, &record) == 1; }));
    return record.status;
  }

  urma_context_t* const ctx;
  const urma_transport_mode_t mode;
  urma_jfc_t* jfc;
  urma_jfr_t* jfr;
  urma_jfs_t* jfs;
  urma_target_jetty_t* target;
};

inline urma_sge_t piece(urma_target_seg_t* segment, uint64_t at, uint32_t bytes) {
  urma_sge_t sge = {};
  sge.addr = at;
  sge.len = bytes;
  sge.tseg = segment;
  return sge;
}

}  // namespace urma::verbs

#endif  // TEST_VERBS_MODULE_FIXTURE_H_
