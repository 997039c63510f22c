// SPDX-License-Identifier: MIT
//
// Sequences of legal and illegal calls, drawn from a seed, in two processes, checked against the
// model. MODEL_SEED runs a single one; MODEL_FIRST and MODEL_SEQUENCES select the others, and
// MODEL_SHRINKING is the number of seconds for shortening a failed one.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "test/model/runner.h"
#include "test/model/shapes.h"
#include "test/process/harness.h"
#include "test/process/sanitized.h"

// In the sequences, concurrent requests may use one buffer, and the library copies what its program
// says: the thread sanitizer must ignore the memory of the program, and only that. The library of
// the sanitizer finds the function only among the symbols that the program exports.
extern "C" __attribute__((visibility("default"))) const char*
__tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:urma::shm::copy_mapped\n"
         "race:urma::copy_in_order\n"
         "race:urma::shm::execute_direct\n"
         "race:urma::shm::RingLayout::copy_in\n"
         "race:urma::shm::RingLayout::copy_out\n"
         "race:urma::shm::QueuePath::atomic\n"
         "race:urma::shm::Sender::fill\n"
         "race:urma::shm::copy_by_kernel\n";
}

namespace urma_model {
namespace {

using urma_test::Channel;
using urma_test::Child;

constexpr uint64_t kAll = 1000;  // enough for each function to succeed and to be refused
constexpr uint64_t kBlock = 50;  // sequences that the same two processes run

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

uint8_t* map_memory(size_t size, int sharing) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<uint8_t*>(memory);
}

class ModelTest : public urma_test::ProcessTest {
 protected:
  ModelTest()
      : arena_(map_memory(kArena, MAP_PRIVATE)),
        report_(reinterpret_cast<Report*>(map_memory(sizeof(Report), MAP_SHARED))) {}
  ~ModelTest() override {
    ::munmap(arena_, kArena);
    ::munmap(report_, sizeof(Report));
  }

  // Runs a part in two fresh processes. Returns what the first one reports.
  std::string in_two_processes(const std::function<std::string(Runner&)>& part) {
    auto [end_a, end_b] = Channel::pair();
    Child a("A", std::move(end_a), [&](Channel& channel) {
      Runner runner(&channel, arena_, report_);
      const std::string text = part(runner);
      std::fputs(text.c_str(), stdout);
      if (text.empty()) runner.end();
    });
    Child b("B", std::move(end_b), [&](Channel& channel) { serve(channel, arena_); });
    const int status = a.wait();
    std::string said = a.output();
    // Ended by a signal or its own failure.
    if (status != 0 && said.empty()) {
      said = "A ended with status " + std::to_string(status) + " in the last of these:\n";
      for (size_t i = 0; i < report_->count; ++i) said += describe(report_->sequence[i]) + "\n";
    }
    if (!said.empty()) report_->failed = true;
    if (said.empty()) b.expect_success();
    if (!said.empty()) said += "\n" + b.output();
    return said;
  }

  std::string run(uint64_t first, uint64_t count) {
    return in_two_processes([=](Runner& runner) -> std::string {
      for (uint64_t seed = first; seed < first + count; ++seed) {
        if (!runner.run(seed)) return runner.text();
      }
      return {};
    });
  }

  std::string replay(uint64_t seed, const std::vector<Call>& calls) {
    return in_two_processes(
        [&](Runner& runner) { return runner.replay(seed, calls) ? std::string() : runner.text(); });
  }

  // Leaves out call after call, while the rest still fails.
  std::string shrink(std::string text) {
    const uint64_t seed = report_->failed_seed;
    std::vector<Call> calls(report_->sequence.begin(),
                            report_->sequence.begin() + static_cast<ptrdiff_t>(report_->count));
    const std::chrono::seconds limit(setting("MODEL_SHRINKING", 20));
    const auto deadline = urma_test::Clock::now() + limit;
    for (size_t i = calls.size(); i-- > 0 && urma_test::Clock::now() < deadline;) {
      std::vector<Call> fewer = calls;
      fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
      const std::string still = replay(seed, fewer);
      if (still.empty()) continue;
      calls = std::move(fewer);
      text = still;
    }
    return text;
  }

  void expect_no_failure(const std::string& text) {
    if (text.empty()) return;
    const std::string first = "MODEL_SEED=" + std::to_string(report_->failed_seed);
    const std::string shorter = shrink(text);
    FAIL() << "to run it alone: " << first << "\n"
           << text << "\nthe calls that "
           << "are needed to fail:\n"
           << shorter;
  }

  uint8_t* const arena_;
  Report* const report_;
};

TEST_F(ModelTest, TheContractAllowsEveryAnswer) {
  const uint64_t one = setting("MODEL_SEED", 0);
  if (one != 0) return expect_no_failure(run(one, 1));
  const uint64_t first = setting("MODEL_FIRST", 1),
                 count = setting("MODEL_SEQUENCES", urma_test::repetitions(kAll));
  for (uint64_t seed = first; seed < first + count && !HasFailure(); seed += kBlock) {
    expect_no_failure(run(seed, std::min(kBlock, first + count - seed)));
  }
  if (HasFailure()) return;
  EXPECT_EQ(report_->sequences, count);
  if (count < kAll) return;
  for (size_t i = 0; i < kFunctions; ++i) {
    const Shape& shape = shape_of(static_cast<Fn>(i));
    EXPECT_GT(report_->calls[i][0], 0u) << name_of(shape.fn) << " never succeeded";
    if (shape.refusable) {
      EXPECT_GT(report_->calls[i][1], 0u) << name_of(shape.fn) << " was never refused";
    }
  }
}

}  // namespace
}  // namespace urma_model
