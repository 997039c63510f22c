// SPDX-License-Identifier: MIT
//
// Objects that end while a wire may still wake their waiters, ways that end while memory is short;
// and how often polls look at a wire.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "jetty/iovecs.h"
#include "jetty/queues.h"
#include "test/process/configs.h"
#include "test/unit/wire_host.h"

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
  void start(WireEngine* wire_engine) override { engine = wire_engine; }
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

  WireEngine* engine = nullptr;
  int made = 0;
  int ended_in_time = 0;
  int looks = 0;
  bool something_comes = false;
};

// Has no message; a look for one may find no memory.
class EmptyWay final : public WireIncoming {
 public:
  void close(uint8_t /*status*/) override {}
  void wake() override {}
  std::string who() const override { return "a test"; }

  bool short_of_memory = false;
  int looks = 0;

 private:
  Peek next(Message* /*message*/) override {
    ++looks;
    if (short_of_memory) throw std::bad_alloc();
    return Peek::kEmpty;
  }
  void copy_held(uint32_t /*offset*/, void* /*to*/, uint32_t /*bytes*/) const override {}
  void answer(uint8_t /*status*/) override {}
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
  WatchfulWire wire;
  WireHost host(&wire);
  urma_ops_t& ops = host.ops;
  Context& context = host.context();
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

// One copy of all of it would keep its thread from the network for long.
TEST(WireStagedTest, AMessageIsUnpackedInTurns) {
  constexpr uint32_t kBytes = 3 * kCopyPerTurn - 100;
  constexpr uint32_t kFirst = 1000;
  const auto message = std::make_unique<char[]>(kBytes);
  for (uint32_t i = 0; i < kBytes; ++i) message[i] = static_cast<char>(i * 31 >> 3);
  std::shared_ptr<char[]> staged(new char[kBytes]);
  std::memcpy(staged.get(), message.get(), kBytes);
  std::vector<char> memory(kBytes);
  const LocalPiece pieces[] = {
      {reinterpret_cast<uint64_t>(memory.data()), kFirst, true, {}, 0},
      {reinterpret_cast<uint64_t>(memory.data()) + kFirst, kBytes - kFirst, true, {}, 0}};
  EmptyWay way;
  way.stage(staged, {MessageKind::kSend, kByReference, 1, kBytes, 0, 0});
  way.end_staging();
  EXPECT_FALSE(way.in_parts());
  way.begin_unpacking();
  for (int turn = 1; turn < 3; ++turn) {
    EXPECT_TRUE(way.in_parts());
    EXPECT_FALSE(way.unpack(pieces, kBytes));
    EXPECT_EQ(memory[turn * kCopyPerTurn], 0);
  }
  EXPECT_TRUE(way.unpack(pieces, kBytes));
  EXPECT_EQ(std::memcmp(memory.data(), message.get(), kBytes), 0);
}

// In the poll in which one way has ended, a look at another one finds no memory.
TEST(WireEndTest, AWayEndsAlthoughMemoryIsShort) {
  WatchfulWire wire;
  WireHost host(&wire);
  urma_ops_t& ops = host.ops;
  Context& context = host.context();
  urma_jfc_cfg_t jfc_cfg = urma_test::jfc_config(8);
  urma_jfc_t* jfc = ops.create_jfc(&context, &jfc_cfg);
  urma_jfr_cfg_t jfr_cfg = urma_test::jfr_config(jfc, 8);
  urma_jfr_t* jfr = ops.create_jfr(&context, &jfr_cfg);
  std::vector<std::shared_ptr<EmptyWay>> ways;
  // A turn may begin with any of them.
  for (int i = 0; i < 3; ++i) {
    ways.push_back(std::make_shared<EmptyWay>());
    WayRequest asked = {};
    asked.eid = context.eid;
    asked.id = jfr->jfr_id.id;
    asked.trans_mode = URMA_TM_RM;
    uint32_t members = 0;
    ASSERT_EQ(wire.engine->accept(asked, ways.back(), &members), Answer::kAccepted);
  }
  const std::weak_ptr<EmptyWay> ended = ways[1];
  ways[1]->abandon();
  ways.erase(ways.begin() + 1);
  for (const auto& way : ways) way->short_of_memory = true;
  urma_cr_t cr;
  while (!ended.expired()) EXPECT_EQ(ops.poll_jfc(jfc, 1, &cr), 0);
  for (const auto& way : ways) way->short_of_memory = false;
  const int looks = ways.front()->looks;
  EXPECT_EQ(ops.poll_jfc(jfc, 1, &cr), 0);
  EXPECT_GT(ways.front()->looks, looks);
  EXPECT_EQ(ops.delete_jfr(jfr), URMA_SUCCESS);
  EXPECT_EQ(ops.delete_jfc(jfc), URMA_SUCCESS);
}

}  // namespace
}  // namespace urma
