// SPDX-License-Identifier: MIT
//
// Kills processes at random instructions.
#ifndef TEST_PROCESS_CRASH_KILLER_H_
#define TEST_PROCESS_CRASH_KILLER_H_

#include <cstdint>
#include <random>
#include <string>

#include "test/process/harness.h"

namespace urma_test {

enum class Method { kTimer, kSteps };

// Why processes cannot be single-stepped; empty if they can.
std::string why_no_steps();

struct Death {
  int64_t begin_ns;  // just before the kill
  int64_t end_ns;    // the kernel has ended it
};

// kTimer: after a random time of at most `longest`. kSteps: the same, then one of its threads
// single-steps a random number of instructions.
Death kill_at_random(Child& child, Method method, milliseconds longest, std::mt19937_64& random);

}  // namespace urma_test

#endif  // TEST_PROCESS_CRASH_KILLER_H_
