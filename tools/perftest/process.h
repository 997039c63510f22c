// SPDX-License-Identifier: MIT
//
// The process: signals, CPUs, the log.
#ifndef TOOLS_PERFTEST_PROCESS_H_
#define TOOLS_PERFTEST_PROCESS_H_

#include <sched.h>

#include <cstdint>
#include <optional>

#include "tools/perftest/config.h"

namespace perftest {

// Ctrl-C and SIGTERM set `interrupted` (run.h); the second one ends the process at once.
void catch_signals();

// A standard stream that the caller has closed would become the number of a connection.
void open_standard_streams();

// Pins the calling thread to one CPU. Throws UsageError with the allowed CPUs.
void pin(const std::optional<uint32_t>& cpu);

// Lets the calling thread use at its end the CPUs that it may use at its beginning.
class SavedCpus {
 public:
  SavedCpus();
  SavedCpus(const SavedCpus&) = delete;
  SavedCpus& operator=(const SavedCpus&) = delete;
  ~SavedCpus();

 private:
  cpu_set_t cpus_;
  bool known_;
};

// Sends the library's log to where -v and --stdout say: by default errors only, to stderr.
void set_up_log(const Config& config);

// -F: records the clock of the CPUs, and warns on stderr at destruction if it has changed.
class FrequencyWatch {
 public:
  explicit FrequencyWatch(const Config& config);
  FrequencyWatch(const FrequencyWatch&) = delete;
  FrequencyWatch& operator=(const FrequencyWatch&) = delete;
  ~FrequencyWatch();

 private:
  double before_mhz_ = 0;  // 0: not requested, or unknown
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_PROCESS_H_
