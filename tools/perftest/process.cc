// SPDX-License-Identifier: MIT

#include "tools/perftest/process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include "tools/perftest/run.h"
#include "tools/perftest/values.h"
#include "urma_api.h"

namespace perftest {
namespace {

constexpr int kInterruptedExit = 130;
constexpr double kDriftAllowed = 0.02;

void on_signal(int) {
  if (interrupted.exchange(true)) _exit(kInterruptedExit);
}

const char* level_name(int level) {
  static constexpr const char* kNames[] = {"EMERG",   "ALERT",  "CRIT", "ERR",
                                           "WARNING", "NOTICE", "INFO", "DEBUG"};
  return level >= 0 && level < URMA_VLOG_LEVEL_MAX ? kNames[level] : "NONE";
}

void log_to_stdout(int level, char* message) { std::printf("%s|%s", level_name(level), message); }

void log_to_stderr(int level, char* message) {
  std::fprintf(stderr, "%s|%s", level_name(level), message);
}

std::string allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::string list;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &set)) list += (list.empty() ? "" : ", ") + std::to_string(cpu);
  }
  return list;
}

// The clock of the fastest CPU, 0 if the kernel does not report it.
double clock_mhz() {
  std::ifstream file("/proc/cpuinfo");
  double fastest = 0;
  for (std::string line; std::getline(file, line);) {
    double mhz = 0;
    if (std::sscanf(line.c_str(), "cpu MHz : %lf", &mhz) == 1) fastest = std::max(fastest, mhz);
  }
  return fastest;
}

}  // namespace

void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void open_standard_streams() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = ::open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) ::close(fd);
}

void pin(const std::optional<uint32_t>& cpu) {
  if (!cpu) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (*cpu < CPU_SETSIZE) CPU_SET(*cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) == 0) return;
  const std::string cpus = allowed_cpus();
  throw refusal("--cpu " + std::to_string(*cpu), "one of the CPUs " + cpus,
                "--cpu " + cpus.substr(0, cpus.find(',')));
}

SavedCpus::SavedCpus() : known_(sched_getaffinity(0, sizeof(cpus_), &cpus_) == 0) {}

SavedCpus::~SavedCpus() {
  if (known_) (void)sched_setaffinity(0, sizeof(cpus_), &cpus_);
}

void set_up_log(const Config& config) {
  const uint32_t level = std::min<uint32_t>(
      URMA_VLOG_LEVEL_DEBUG,
      URMA_VLOG_LEVEL_ERR + std::min<uint32_t>(config.verbosity, URMA_VLOG_LEVEL_MAX));
  urma_log_set_level(static_cast<urma_vlog_level_t>(level));
  urma_register_log_func(config.log_to_stdout ? log_to_stdout : log_to_stderr);
}

FrequencyWatch::FrequencyWatch(const Config& config)
    : before_mhz_(config.cpu_frequency_check ? clock_mhz() : 0) {}

FrequencyWatch::~FrequencyWatch() {
  if (before_mhz_ == 0) return;
  const double after = clock_mhz();
  if (std::fabs(after - before_mhz_) <= kDriftAllowed * before_mhz_) return;
  std::fprintf(stderr,
               "urma_perftest: warning: the clock of the CPUs went from %.0f to %.0f MHz; the "
               "figures are not exact\n",
               before_mhz_, after);
}

}  // namespace perftest
