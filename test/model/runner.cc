// SPDX-License-Identifier: MIT
#include "test/model/runner.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "test/model/shapes.h"
#include "third_party/fmt/format.h"

namespace urma_model {
namespace {

constexpr int kCalls = 30;       // proposed in each sequence, besides its start and end
constexpr int kProposals = 500;  // for one call, since many are undefined
constexpr std::chrono::milliseconds kMemoryLimit{4000};

struct Order {
  enum What { kCall, kFill, kMemory, kEnd } what;
  uint64_t seed;
  Call call;
};

void fill(uint8_t* memory, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < kArena; i += 8) {
    const uint64_t word = random();
    std::memcpy(memory + i, &word, sizeof word);
  }
}

std::string one_of(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t value : values)
    text += urma::format("{}{}", text.empty() ? "" : " or ", value);
  return text;
}

}  // namespace

namespace {

// Earlier accesses to the memory are ordered through the other process, which the thread sanitizer
// cannot see. Byte by byte, since it intercepts memcpy.
__attribute__((no_sanitize("thread"))) std::array<uint8_t, kArena> look_at(const uint8_t* arena) {
  std::array<uint8_t, kArena> seen;
  for (size_t i = 0; i < kArena; ++i) seen[i] = static_cast<const volatile uint8_t*>(arena)[i];
  return seen;
}

}  // namespace

void serve(urma_test::Channel& channel, uint8_t* arena) {
  Executor executor(arena);
  while (true) {
    const auto order = channel.receive<Order>();
    switch (order.what) {
      case Order::kCall:
        channel.send(executor.run(order.call));
        break;
      case Order::kFill:
        fill(arena, order.seed);
        channel.sync();
        break;
      case Order::kMemory: {
        channel.send(look_at(arena));
        break;
      }
      case Order::kEnd:
        return;
    }
  }
}

Runner::Runner(urma_test::Channel* partner, uint8_t* arena, Report* report)
    : partner_(partner), arena_(arena), report_(report), executor_(arena) {
  for (int process = 0; process < 2; ++process) {
    make(plain_call(Fn::urma_register_log_func, process));
    make(plain_call(Fn::urma_init, process));
    make(plain_call(Fn::urma_log_set_level, process));
  }
}

Call Runner::plain_call(Fn fn, int process) const {
  Call call;
  call.fn = fn;
  call.process = process;
  return call;
}

Result Runner::make(const Call& call) {
  if (call.process == 0) return executor_.run(call);
  partner_->send(Order{Order::kCall, 0, call});
  return partner_->receive<Result>();
}

void Runner::begin(uint64_t seed) {
  model_ = Model();
  text_ = urma::format("sequence {}:\n", seed);
  failed_ = false;
  report_->count = 0;
  report_->failed_seed = seed;
  fill(arena_, seed);
  partner_->send(Order{Order::kFill, seed + 1, {}});
  partner_->sync();
  fill(model_.processes[0].memory.data(), seed);
  fill(model_.processes[1].memory.data(), seed + 1);
}

bool Runner::run(uint64_t seed) {
  begin(seed);
  Generator generator(seed, &model_);
  Call call;
  while (!failed_ && generator.propose_start(&call)) step(call);
  for (int i = 0; i < kCalls && !failed_; ++i) {
    for (int proposal = 0; proposal < kProposals; ++proposal) {
      if (step(generator.propose()) || failed_) break;
    }
  }
  if (!tidy(&generator)) return false;
  ++report_->sequences;
  return true;
}

bool Runner::replay(uint64_t seed, const std::vector<Call>& calls) {
  begin(seed);
  for (const Call& call : calls) {
    if (!failed_) step(call);
  }
  Generator generator(seed, &model_);
  return tidy(&generator);
}

// Ends everything left; then the processes are as at the start.
bool Runner::tidy(Generator* generator) {
  if (!failed_) settle();
  if (!failed_) poll_until_dry();
  Call call;
  while (!failed_ && generator->propose_end(&call)) {
    const Answer answer = model_.predict(call);
    if (answer.undefined || answer.refused) return end_stuck(call);
    step(call);
  }
  for (int process = 0; process < 2 && !failed_; ++process) {
    if (!model_.processes[static_cast<size_t>(process)].started) {
      step(plain_call(Fn::urma_init, process));
    }
    step(plain_call(Fn::urma_log_set_level, process));
    Call tag = plain_call(Fn::urma_log_set_thread_tag, process);
    tag.number = 1;
    step(tag);
  }
  report_->failed = report_->failed || failed_;
  return !failed_;
}

bool Runner::end_stuck(const Call& call) {
  fail("the model cannot end what it began: " + describe(call));
  report_->failed = true;
  return false;
}

bool Runner::step(Call call) {
  if (model_.predict(call).undefined) return false;
  const bool polls_by_itself = call.fn == Fn::urma_poll_jfc && call.wait_for != 0;
  if (model_.wants_quiet(call)) {
    settle();
    if (failed_ || model_.predict(call).undefined) return false;
  }
  if (!polls_by_itself && report_->count < kMostCalls) report_->sequence[report_->count++] = call;
  Answer answer = model_.predict(call);
  model_.complete(&call);
  const Result result = make(call);
  text_ += urma::format("  {} = {}\n", describe(call), result.value);
  judge(call, answer, result);
  return true;
}

void Runner::judge(const Call& call, const Answer& answer, const Result& result) {
  const auto& values = answer.values;
  std::string wrong;
  if (values.empty() ? result.value < 0
                     : std::find(values.begin(), values.end(), result.value) == values.end()) {
    wrong = urma::format("the result is {}, and should be {}; ", result.value,
                         values.empty() ? "a count" : one_of(values));
  }
  if (answer.error != 0) {
    wrong +=
        differs("errno", static_cast<uint64_t>(answer.error), static_cast<uint64_t>(result.error));
  }
  const bool lists = call.requests != 0 || shape_of(call.fn).pointers == 2;
  if (wrong.empty() && lists && answer.bad != -2) {
    wrong += differs("the index of the bad one", static_cast<uint64_t>(answer.bad),
                     static_cast<uint64_t>(result.bad));
  }
  if (wrong.empty() && answer.effect) answer.effect(result);
  if (wrong.empty() && answer.check && !answer.refused) wrong += answer.check(result);
  if (wrong.empty()) {
    wrong += differs("the sum of ctx->ref", model_.refs(call.process), result.refs);
  }
  ++report_->calls[static_cast<size_t>(call.fn)][answer.refused ? 1 : 0];
  if (!wrong.empty()) fail(wrong);
}

void Runner::fail(const std::string& why) {
  failed_ = true;
  text_ += "  WRONG: " + why + "\n";
}

// Waits until all posted requests are done. Receivers come first: their polls let senders progress.
void Runner::settle() {
  for (const bool receivers : {true, false}) {
    std::vector<int> jfcs;
    for (const auto& [slot, object] : model_.objects) {
      const bool wanted = std::any_of(object.due.begin(), object.due.end(), [&](const Due& due) {
        return due.record.receive == receivers;
      });
      if (wanted) jfcs.push_back(slot);
    }
    for (const int slot : jfcs) {
      while (!failed_ && !model_.find(slot)->due.empty()) {
        Call poll = plain_call(Fn::urma_poll_jfc, model_.find(slot)->process);
        poll.on = slot;
        poll.number = kRecords;
        poll.wait_for = static_cast<int>(std::min(kRecords, model_.find(slot)->due.size()));
        step(poll);
      }
    }
  }
  if (!failed_) expect_memory();
  model_.last_sender = kNull;
}

void Runner::poll_until_dry() {
  std::vector<int> jfcs;
  for (const auto& [slot, object] : model_.objects) {
    if (object.kind == Kind::kJfc && object.active) jfcs.push_back(slot);
  }
  for (const int slot : jfcs) {
    if (failed_) return;
    Call poll = plain_call(Fn::urma_poll_jfc, model_.find(slot)->process);
    poll.on = slot;
    poll.number = kRecords;
    step(poll);
  }
}

// Requests without a record may still be in flight.
void Runner::expect_memory() {
  const auto deadline = urma_test::Clock::now() + urma_test::patience(kMemoryLimit);
  std::string difference = memory_difference();
  while (!difference.empty() && urma_test::Clock::now() < deadline) {
    ::sched_yield();
    difference = memory_difference();
  }
  if (!difference.empty()) fail(difference);
}

std::string Runner::memory_difference() {
  std::string difference = model_.compare_memory(0, look_at(arena_).data());
  if (!difference.empty()) return difference;
  partner_->send(Order{Order::kMemory, 0, {}});
  const auto memory = partner_->receive<std::array<uint8_t, kArena>>();
  return model_.compare_memory(1, memory.data());
}

void Runner::end() {
  for (int process = 0; process < 2; ++process) make(plain_call(Fn::urma_uninit, process));
  partner_->send(Order{Order::kEnd, 0, {}});
}

}  // namespace urma_model
