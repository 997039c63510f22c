// SPDX-License-Identifier: MIT
//
// Objects that end while a wire may still wake their waiters; and how often polls look at a wire.
#include <gtest/gtest.h>

#include <memory>

#include "jetty/context.h"
#include "jetty/ops.h"
#include "jetty/queues.h"
#include "jetty/wire_transport.h"
#include "test/process/configs.h"
#include "test/unit/shm_harness.h"
#include "urma/providers/shm/device.h"

namespace urma {
namespace {

// Transfers nothing; when it ends, it checks whether the JFC that it wakes is still there.
class WatchfulWay final : public Way {
 public:
  WatchfulWay(const CompletionQueue& jfc, int* ended_in_time)
      : jfc_(const_cast<CompletionQueue&>(jfc)), ended_in_time_(ended_in_time) {}
  ~WatchfulWay() override {
    if (jfc_.attached()) ++*ended_in_time_;
  }

  std::optional<Answer> opened(uint32_t* /*members*/) override { return Answer::kAccepted; }
  bool send(const Outgoing& /*message*/, uint32_t cookie) override {
    under_way_ = cookie;
    return true;
  }
  bool access(const WireGrant& /*grant*/, const WireAccess& /*access*/,
              uint32_t /*cookie*/) override {
    return false;
  }
  bool reap(WireReport* report) override {
    if (!closed_ || !under_way_) return false;
    *report = {*under_way_, URMA_CR_WR_FLUSH_ERR, {}};
    under_way_.reset();
    return true;
  }
  void close() override { closed_ = true; }
  bool ended() const override { return closed_ && !under_way_; }

 private:
  CompletionQueue& jfc_;
  int* const ended_in_time_;
  std::optional<uint32_t> under_way_;
  bool closed_ = false;
};

class WatchfulWire final : public Wire {
 public:
  void start(WireEngine* /*engine*/) override {}
  void stop() override {}
  std::unique_ptr<Way> make_way(const WayRequest& /*request*/,
                                const CompletionQueue& jfc) override {
    ++made;
    return std::make_unique<WatchfulWay>(jfc, &ended_in_time);
  }
  void probe(const ProbeTarget& /*target*/, std::function<void(Answer)> answered) override {
    answered(Answer::kAccepted);
  }
  void ask_grant(const GrantRequest& /*request*/,
                 std::function<void(Answer, const WireGrant&)> answered) override {
    answered(Answer::kNoAccess, {});
  }

  bool progress() override {
    ++looks;
    return something_comes;
  }

  int made = 0;
  int ended_in_time = 0;
  int looks = 0;
  bool something_comes = false;
};

// Polls of queues with other ways too make a system call only now and then.
TEST(WireLooksTest, PollsLookSeldomOnceNothingHasComeForLong) {
  constexpr int kPolls = 16'000;
  WatchfulWire wire;
  const auto looks_of_polls = [&](int polls) {
    const int before = wire.looks;
    for (int i = 0; i < polls; ++i) wire.progress_beside_others();
    return wire.looks - before;
  };
  looks_of_polls(kPolls);
  EXPECT_LE(looks_of_polls(kPolls), kPolls / 16);
  wire.something_comes = true;
  EXPECT_GE(looks_of_polls(16), 1);
  EXPECT_EQ(looks_of_polls(kPolls), kPolls);
  wire.something_comes = false;
  EXPECT_EQ(looks_of_polls(100), 100);
}

TEST(WireEndTest, AJfcStaysUntilThePathsOfItsSendersHaveEnded) {
  shm::Host host;
  static Runtime* current;
  current = &host.runtime();
  urma_host table = *urma::host();
  table.service = &host.service();
  table.runtime = []() -> Runtime* { return current; };
  WatchfulWire wire;
  WireTransport engine(table, &wire, 1 << 20);
  urma_ops_t ops = make_ops("test");
  engine.add_post_ops(&ops);
  urma_device_t device = {};
  {
    Context context(&engine, shm::device_attr(1), &device, 0);
    context.ops = &ops;
    urma_jfc_cfg_t jfc_cfg = urma_test::jfc_config(8);
    urma_jfc_t* jfc = ops.create_jfc(&context, &jfc_cfg);
    urma_jfs_cfg_t jfs_cfg = urma_test::jfs_config(jfc, 8);
    urma_jfs_t* jfs = ops.create_jfs(&context, &jfs_cfg);
    urma_rjfr_t jfr = urma_test::remote_jfr({context.eid, context.uasid, 4711});
    urma_token_t token = {};
    urma_target_jetty_t* target = ops.import_jfr(&context, &jfr, &token);
    urma_jfs_wr_t wr = {}, *bad = nullptr;
    wr.opcode = URMA_OPC_SEND;
    wr.tjetty = target;
    EXPECT_EQ(ops.post_jfs_wr(jfs, &wr, &bad), URMA_SUCCESS);
    urma_cr_t cr;
    while (wire.made == 0) EXPECT_EQ(ops.poll_jfc(jfc, 1, &cr), 0);
    EXPECT_EQ(ops.delete_jfc(jfc), URMA_EAGAIN);
    EXPECT_EQ(ops.delete_jfs(jfs), URMA_SUCCESS);
    EXPECT_EQ(wire.ended_in_time, wire.made);
    EXPECT_EQ(ops.unimport_jfr(target), URMA_SUCCESS);
    EXPECT_EQ(ops.delete_jfc(jfc), URMA_SUCCESS);
  }
  engine.stop();
}

}  // namespace
}  // namespace urma
