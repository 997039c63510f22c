// SPDX-License-Identifier: MIT
//
// Tests with a long form, run by `./dev soak`, and with random choices.
#ifndef TEST_PROCESS_SOAK_H_
#define TEST_PROCESS_SOAK_H_

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "test/process/harness.h"

namespace urma_test {

inline bool is_soak() { return std::getenv("URMA_SOAK") != nullptr; }

// A promised time limit. Only the long form, which has the machine to itself, enforces it. The
// short form waits for the same event, however late it gets a processor.
inline milliseconds promised(milliseconds limit) {
  return patience(is_soak() ? limit : 20 * limit);
}

// The time limit of a child begins anew. One that lives through many rounds calls this in each: on
// a busy machine, all rounds together take longer than a child may.
inline void begin_round() { ::alarm(static_cast<unsigned>(patience(seconds(60)).count() / 1000)); }

// From now on, waits end because a death is known, not because an answer is missing.
inline void wait_long_for_answers() { ::setenv("URMA_SHM_TIMEOUT_MS", "600000", 1); }

// URMA_SEED, else a random seed. Prints it, so that the run can be repeated.
inline uint64_t announced_seed() {
  const char* const given = std::getenv("URMA_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device()();
  std::printf("URMA_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

}  // namespace urma_test

#endif  // TEST_PROCESS_SOAK_H_
