// SPDX-License-Identifier: MIT
//
// The queues over a wire whose ways do what a test tells them: a moment without memory loses no
// request, no record and no message, and what a post has sent leaves with it.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jetty/completion_queue.h"
#include "jetty/remote.h"
#include "test/process/configs.h"
#include "test/unit/wire_host.h"
#include "urma/core/process/log_sink.h"

namespace {

thread_local bool short_of_memory = false;

}  // namespace

void* operator new(size_t bytes) {
  void* const memory = short_of_memory ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }

namespace urma {
namespace {

// What a way to one target does, and what it was given. A test changes it while the service thread
// is paused, except what is atomic.
struct Script {
  std::optional<Answer> answer;
  size_t room = SIZE_MAX;  // messages
  bool lost = false;
  std::atomic<int> failures{0};  // looks that find no memory
  std::atomic<int> looks{0};
  std::deque<uint32_t> sent;  // and not reported
  size_t pushed = 0;          // of them
  std::deque<WireReport> reports;

  void report(urma_cr_status_t status) {
    reports.push_back({sent.front(), status, {}});
    sent.pop_front();
  }
};

class ScriptedWay final : public Way {
 public:
  explicit ScriptedWay(Script* script) : script_(*script) {}

  std::optional<Answer> opened(uint32_t* /*members*/) override { return script_.answer; }
  bool send(const Outgoing& /*message*/, uint32_t cookie) override {
    if (script_.sent.size() == script_.room) return false;
    script_.sent.push_back(cookie);
    return true;
  }
  bool access(const WireGrant& /*grant*/, const WireAccess& /*access*/,
              uint32_t /*cookie*/) override {
    return false;
  }
  bool reap(WireReport* report) override {
    ++script_.looks;
    if (script_.failures > 0 && script_.failures-- > 0) throw std::bad_alloc();
    if (script_.reports.empty()) return false;
    *report = std::move(script_.reports.front());
    script_.reports.pop_front();
    return true;
  }
  void push() override { script_.pushed = script_.sent.size(); }
  void close() override { closed_ = true; }
  bool ended() const override { return (closed_ || lost()) && script_.reports.empty(); }
  bool lost() const override { return script_.lost; }

 private:
  Script& script_;
  bool closed_ = false;
};

class ScriptedWire final : public Wire {
 public:
  void start(WireEngine* wire_engine) override { engine = wire_engine; }
  void stop() override {}
  std::unique_ptr<Way> make_way(const WayRequest& request,
                                const CompletionQueue& /*jfc*/) override {
    return std::make_unique<ScriptedWay>(&scripts[request.id]);
  }
  void probe(const ProbeTarget& /*target*/, std::function<void(Answer)> answered) override {
    answered(Answer::kAccepted);
  }
  void ask_grant(const GrantRequest& /*request*/,
                 std::function<void(Answer, const WireGrant&)> answered) override {
    answered(Answer::kNoAccess, {});
  }

  WireEngine* engine = nullptr;
  std::map<uint32_t, Script> scripts;  // by the id of the target
};

// Has a message, if any. A look for the next one may find no memory.
class IncomingMessages final : public WireIncoming {
 public:
  void close(uint8_t /*status*/) override {}
  void wake() override {}
  std::string who() const override { return "a test"; }

  int messages = 0;
  int answers = 0;
  bool fails = false;

 private:
  Peek next(Message* message) override {
    if (fails) throw std::bad_alloc();
    if (messages == 0) return Peek::kEmpty;
    *message = {MessageKind::kSend, kWantsAnswer, 1, 0, 0, 0};
    return Peek::kMessage;
  }
  void copy_held(uint32_t /*offset*/, void* /*to*/, uint32_t /*bytes*/) const override {}
  void answer(uint8_t /*status*/) override {
    --messages;
    ++answers;
  }
};

// Gives one record, or lacks memory.
class OneRecord final : public CompletionSource {
 public:
  explicit OneRecord(bool fails) : fails_(fails) {}
  int collect(CompletionQueue* /*poller*/, int /*count*/, urma_cr_t* cr) override {
    if (fails_) throw std::bad_alloc();
    if (std::exchange(given_, true)) return 0;
    *cr = {};
    return 1;
  }
  bool move_for(CompletionQueue* /*waiter*/, bool /*just_armed*/) override { return false; }
  bool outstanding() const override { return false; }

 private:
  const bool fails_;
  bool given_ = false;
};

class ScriptedWireTest : public testing::Test {
 protected:
  static constexpr uint32_t kOne = 4711, kOther = 4712;

  ~ScriptedWireTest() override {
    for (urma_target_jetty_t* target : targets_) EXPECT_EQ(ops.unimport_jfr(target), URMA_SUCCESS);
    EXPECT_EQ(ops.delete_jfc(jfc), URMA_SUCCESS);
  }
  urma_jfs_t* make_jfs(uint32_t depth) {
    urma_jfs_cfg_t cfg = urma_test::jfs_config(jfc, depth);
    return ops.create_jfs(&context, &cfg);
  }
  urma_jfr_t* make_jfr(urma_transport_mode_t mode = URMA_TM_RM) {
    urma_jfr_cfg_t cfg = urma_test::jfr_config(jfc, 8, mode);
    return ops.create_jfr(&context, &cfg);
  }
  urma_target_jetty_t* import(uint32_t id) {
    urma_rjfr_t jfr = urma_test::remote_jfr({context.eid, context.uasid, id});
    urma_token_t token = {};
    targets_.push_back(ops.import_jfr(&context, &jfr, &token));
    return targets_.back();
  }
  urma_jetty_id_t remote_id() const { return {context.eid, context.uasid, kOne}; }
  // The first that fails ends the list.
  urma_status_t send(urma_jfs_t* jfs, urma_target_jetty_t* target, size_t count) {
    std::vector<urma_jfs_wr_t> list(count);
    for (size_t i = 0; i < count; ++i) {
      list[i].opcode = URMA_OPC_SEND;
      list[i].tjetty = target;
      list[i].flag.bs.complete_enable = 1;
      list[i].next = i + 1 < count ? &list[i + 1] : nullptr;
    }
    urma_jfs_wr_t* bad = nullptr;
    return ops.post_jfs_wr(jfs, list.data(), &bad);
  }
  std::shared_ptr<IncomingMessages> add_way(const urma_jfr_t* jfr, int messages) {
    auto way = std::make_shared<IncomingMessages>();
    way->messages = messages;
    WayRequest asked = {};
    asked.eid = context.eid;
    asked.id = jfr->jfr_id.id;
    asked.trans_mode = URMA_TM_RM;
    uint32_t members = 0;
    EXPECT_EQ(wire.engine->accept(asked, way, &members), Answer::kAccepted);
    return way;
  }
  void post_receives(urma_jfr_t* jfr, int count) {
    for (int i = 0; i < count; ++i) {
      urma_jfr_wr_t wr = {}, *bad = nullptr;
      EXPECT_EQ(ops.post_jfr_wr(jfr, &wr, &bad), URMA_SUCCESS);
    }
  }
  int poll() {
    urma_cr_t records[16];
    return ops.poll_jfc(jfc, 16, records);
  }
  int poll_without_memory() {
    short_of_memory = true;
    const int got = poll();
    short_of_memory = false;
    return got;
  }

  ScriptedWire wire;
  WireHost host{&wire};
  urma_ops_t& ops = host.ops;
  Context& context = host.context();
  urma_jfc_cfg_t jfc_cfg = urma_test::jfc_config(64);
  urma_jfc_t* const jfc = ops.create_jfc(&context, &jfc_cfg);

 private:
  std::vector<urma_target_jetty_t*> targets_;
};

// A post to a full queue goes on with requests to other targets, which nobody polls for.
TEST_F(ScriptedWireTest, APostPushesWhatItHasSentOnAnyWay) {
  urma_target_jetty_t* const one = import(kOne);
  urma_target_jetty_t* const other = import(kOther);
  for (const uint32_t depth : {1, 2}) {
    SCOPED_TRACE(depth);
    urma_jfs_t* const jfs = make_jfs(depth);
    Script& of_one = wire.scripts[kOne];
    Script& of_other = wire.scripts[kOther];
    {
      const shm::Pause no_ticks(host.host());
      of_other.answer.reset();
      EXPECT_EQ(send(jfs, other, 1), URMA_SUCCESS);
      of_one.answer = of_other.answer = Answer::kAccepted;
      EXPECT_EQ(send(jfs, one, depth), URMA_ENOMEM);
      EXPECT_EQ(of_one.sent.size(), depth - 1);
      EXPECT_EQ(of_other.sent.size(), 1U);
      EXPECT_EQ(of_one.pushed, of_one.sent.size());
      EXPECT_EQ(of_other.pushed, of_other.sent.size());
    }
    EXPECT_EQ(ops.delete_jfs(jfs), URMA_SUCCESS);
    of_one.sent.clear();
    of_other.sent.clear();
    of_one.pushed = of_other.pushed = 0;
  }
}

// Two messages are in flight, and two wait for room, when the target is lost. None of the log's
// lines can be written.
TEST_F(ScriptedWireTest, RequestsOfALostTargetEndWithoutMemory) {
  core::log_sink().set_callback([](int /*level*/, char* /*line*/) {}, nullptr);
  urma_jfs_t* const jfs = make_jfs(4);
  Script& script = wire.scripts[kOne];
  urma_target_jetty_t* const target = import(kOne);
  {
    const shm::Pause no_ticks(host.host());
    script.answer = Answer::kAccepted;
    script.room = 2;
    EXPECT_EQ(send(jfs, target, 4), URMA_SUCCESS);
    EXPECT_EQ(script.sent.size(), 2U);
    script.report(URMA_CR_REM_OPERATION_ERR);
    script.report(URMA_CR_ACK_TIMEOUT_ERR);
    script.lost = true;
    EXPECT_EQ(poll_without_memory(), 4);
  }
  EXPECT_EQ(poll(), 0);
  EXPECT_EQ(ops.delete_jfs(jfs), URMA_SUCCESS);
  core::log_sink().clear_callback();
}

TEST_F(ScriptedWireTest, TicksGoOnAfterOneWithoutMemory) {
  urma_jfs_t* const jfs = make_jfs(4);
  Script& script = wire.scripts[kOne];
  EXPECT_EQ(send(jfs, import(kOne), 1), URMA_SUCCESS);
  script.failures = 1;
  EXPECT_TRUE(shm::eventually([&] { return script.failures == 0; }));
  const int looks = script.looks;
  EXPECT_TRUE(shm::eventually([&] { return script.looks > looks + 4; }));
  EXPECT_EQ(ops.delete_jfs(jfs), URMA_SUCCESS);
}

TEST_F(ScriptedWireTest, APollKeepsTheRecordsOfOneSourceIfAnotherFails) {
  auto* const queue = static_cast<CompletionQueue*>(jfc);
  OneRecord before(/*fails=*/false), failing(/*fails=*/true), after(/*fails=*/false);
  const Attachment first(queue, &before), second(queue, &failing), third(queue, &after);
  EXPECT_EQ(poll(), 2);
}

// A poll may begin with any of the two ways.
TEST_F(ScriptedWireTest, APollKeepsTheRecordsOfOneWayIfAnotherFails) {
  urma_jfr_t* const jfr = make_jfr();
  const auto one = add_way(jfr, /*messages=*/1);
  const auto other = add_way(jfr, /*messages=*/0);
  other->fails = true;
  int got = 0;
  {
    const shm::Pause no_ticks(host.host());
    post_receives(jfr, 2);
    for (int i = 0; i < 4; ++i) got += poll();
    other->fails = false;
  }
  EXPECT_EQ(got, 1);
  EXPECT_EQ(one->answers, 1);
  EXPECT_EQ(ops.delete_jfr(jfr), URMA_SUCCESS);
}

// The event of the limit follows with the next message.
TEST_F(ScriptedWireTest, AMessageIsReceivedOnceIfTheEventOfALimitFindsNoMemory) {
  urma_jfr_t* const jfr = make_jfr();
  const auto way = add_way(jfr, /*messages=*/0);
  ASSERT_EQ(::fcntl(context.async_fd, F_SETFL, O_NONBLOCK), 0);
  urma_async_event_t event = {};
  {
    const shm::Pause no_ticks(host.host());
    post_receives(jfr, 3);
    urma_jfr_attr_t attr = {JFR_RX_THRESHOLD, 3, URMA_JFR_STATE_READY};
    EXPECT_EQ(ops.modify_jfr(jfr, &attr), URMA_SUCCESS);
    way->messages = 1;
    EXPECT_EQ(poll_without_memory(), 1);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(poll(), 0);
    EXPECT_EQ(way->answers, 1);
    EXPECT_EQ(ops.get_async_event(&context, &event), URMA_FAIL);
    way->messages = 1;
    EXPECT_EQ(poll(), 1);
    EXPECT_EQ(way->answers, 2);
    EXPECT_EQ(ops.get_async_event(&context, &event), URMA_SUCCESS);
    EXPECT_EQ(event.event_type, URMA_EVENT_JFR_LIMIT);
  }
  ops.ack_async_event(&event);
  EXPECT_EQ(ops.delete_jfr(jfr), URMA_SUCCESS);
}

TEST_F(ScriptedWireTest, ABindThatFailsLeavesBothSidesFree) {
  urma_jfr_t* const jfr = make_jfr(URMA_TM_RC);
  urma_jetty_cfg_t cfg = urma_test::jetty_config(jfr, urma_test::jfs_config(jfc, 8, URMA_TM_RC));
  urma_jetty_t* const jetty = ops.create_jetty(&context, &cfg);
  urma_jetty_t* const other = ops.create_jetty(&context, &cfg);
  urma_rjetty_t remote = urma_test::remote_jetty(remote_id(), URMA_TM_RC);
  urma_token_t token = {};
  urma_target_jetty_t* const target = ops.import_jetty(&context, &remote, &token);
  ScarceService::fail_next_post();
  EXPECT_EQ(ops.bind_jetty(jetty, target), URMA_ENOMEM);
  EXPECT_EQ(ops.delete_jetty(jetty), URMA_SUCCESS);
  EXPECT_EQ(ops.bind_jetty(other, target), URMA_SUCCESS);
  EXPECT_EQ(ops.unbind_jetty(other), URMA_SUCCESS);
  EXPECT_EQ(ops.delete_jetty(other), URMA_SUCCESS);
  EXPECT_EQ(ops.unimport_jetty(target), URMA_SUCCESS);
  EXPECT_EQ(ops.delete_jfr(jfr), URMA_SUCCESS);
}

// While an import stands, another one of the same queue has its serial.
TEST_F(ScriptedWireTest, AnImportInTheBackgroundThatFailsLeavesNothing) {
  const urma_rjetty_t remote = urma_test::remote_jetty(remote_id());
  urma_token_t token = {};
  urma_notifier_t* const notifier = ops.create_notifier(&context);
  ScarceService::fail_next_post();
  EXPECT_EQ(ops.import_jetty_async(notifier, &remote, &token, /*user_ctx=*/1, /*timeout=*/0),
            nullptr);
  EXPECT_EQ(errno, ENOMEM);
  const auto serial_of_next = [&] {
    urma_rjetty_t described = remote;
    urma_target_jetty_t* const target = ops.import_jetty(&context, &described, &token);
    const uint64_t serial = static_cast<RemoteQueue*>(target)->serial;
    EXPECT_EQ(ops.unimport_jetty(target), URMA_SUCCESS);
    return serial;
  };
  const uint64_t serial = serial_of_next();
  EXPECT_NE(serial_of_next(), serial);
  EXPECT_EQ(ops.delete_notifier(notifier), URMA_SUCCESS);
}

}  // namespace
}  // namespace urma
