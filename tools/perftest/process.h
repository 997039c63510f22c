// SPDX-License-Identifier: MIT
//
// What concerns the whole process: signals, CPUs, the log.
#ifndef TOOLS_PERFTEST_PROCESS_H_
#define TOOLS_PERFTEST_PROCESS_H_

#include <cstdint>
#include <optional>

#include "tools/perftest/config.h"

namespace perftest {

// Ctrl-C and SIGTERM set `interrupted` (run.h); the second one ends the process at once.
void catch_signals();

// Keeps the calling thread on one CPU. Throws UsageError with the CPUs that may be used.
void pin(const std::optional<uint32_t>& cpu);

// Sends the library's log where -v and --stdout say: else errors only, to stderr.
void set_up_log(const Config& config);

// -F: notes the clock of the CPUs, and warns on stderr at the end of its life if it has changed.
class FrequencyWatch {
 public:
  explicit FrequencyWatch(const Config& config);
  FrequencyWatch(const FrequencyWatch&) = delete;
  FrequencyWatch& operator=(const FrequencyWatch&) = delete;
  ~FrequencyWatch();

 private:
  double before_mhz_ = 0;  // 0: not wanted, or not known
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_PROCESS_H_
