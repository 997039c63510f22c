// SPDX-License-Identifier: MIT
//
// Runs sequences in two processes and checks each answer against the model.
#ifndef TEST_MODEL_RUNNER_H_
#define TEST_MODEL_RUNNER_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "test/model/executor.h"
#include "test/model/generator.h"
#include "test/model/model.h"
#include "test/process/harness.h"

namespace urma_model {

inline constexpr size_t kMostCalls = 128;

// What the processes of a test leave for the test; in shared memory.
struct Report {
  // How often each function was called, and was refused.
  std::array<std::array<uint32_t, 2>, kFunctions> calls;
  uint64_t sequences;
  uint64_t failed_seed;
  bool failed;
  // The failed sequence, without what the runner adds by itself.
  size_t count;
  std::array<Call, kMostCalls> sequence;
};

// The second process: makes the calls that it is told.
void serve(urma_test::Channel& channel, uint8_t* arena);

class Runner {
 public:
  Runner(urma_test::Channel* partner, uint8_t* arena, Report* report);

  // False on a wrong answer; text() then shows it, and what led to it.
  bool run(uint64_t seed);
  // The same calls again, or those of them that are still defined.
  bool replay(uint64_t seed, const std::vector<Call>& calls);
  void end();
  const std::string& text() const { return text_; }

 private:
  void begin(uint64_t seed);
  // False if the call is undefined; it was not made.
  bool step(Call call);
  bool tidy(Generator* generator);
  bool end_stuck(const Call& call);
  void judge(const Call& call, const Answer& answer, const Result& result);
  void settle();
  void poll_until_dry();
  void expect_memory();
  std::string memory_difference();
  Result make(const Call& call);
  void fail(const std::string& why);
  Call plain_call(Fn fn, int process) const;

  urma_test::Channel* const partner_;
  uint8_t* const arena_;
  Report* const report_;
  Executor executor_;
  Model model_;
  std::string text_;
  bool failed_ = false;
};

}  // namespace urma_model

#endif  // TEST_MODEL_RUNNER_H_
