// SPDX-License-Identifier: MIT
//
// Tests with a long form, which `./dev soak` asks for, and with choices made by chance.
#ifndef TEST_PROCESS_SOAK_H_
#define TEST_PROCESS_SOAK_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace urma_test {

inline bool is_soak() { return std::getenv("URMA_SOAK") != nullptr; }

// URMA_SEED, else one of this run. Prints it, so that the run can be repeated.
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
