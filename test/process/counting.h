// SPDX-License-Identifier: MIT
//
// The parts of a program whose calls callgrind counts. The program starts without collection, dumps
// the cost of each kind of call under its name, and prints the number of calls.
#ifndef TEST_PROCESS_COUNTING_H_
#define TEST_PROCESS_COUNTING_H_

#include <gtest/gtest.h>
#include <valgrind/callgrind.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include "test/process/endpoint.h"

namespace urma_test {

// The functions to count: each round makes all calls, and one of them is counted.
enum class Counting { kNothing, kPost, kReceivePost, kPoll, kReceivePoll };

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

template <typename Call>
auto call(Counting counted, Counting mine, Call&& make) {
  if (counted != mine) return make();
  CALLGRIND_TOGGLE_COLLECT;
  const auto result = make();
  CALLGRIND_TOGGLE_COLLECT;
  return result;
}

inline void dump(const std::string& name, int calls) {
  CALLGRIND_DUMP_STATS_AT(name.c_str());
  std::printf("%d %s\n", calls, name.c_str());
}

// The main() of such a program. Exit is not counted, and tears nothing down.
template <typename Run>
int count_in(const Run& run) {
  ::testing::GTEST_FLAG(throw_on_failure) = true;
  constexpr int kCannotStart = 3;  // SYNC(counted-program)
  try {
    if (urma_init(nullptr) != URMA_SUCCESS) return kCannotStart;
    (void)find_device();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return kCannotStart;
  }
  (void)urma_uninit();
  try {
    run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace urma_test

#endif  // TEST_PROCESS_COUNTING_H_
