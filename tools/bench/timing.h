// SPDX-License-Identifier: MIT
//
// Clock, medians and the ping-pong that several measurements share.
#ifndef TOOLS_BENCH_TIMING_H_
#define TOOLS_BENCH_TIMING_H_

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace bench {

// A clock, in nanoseconds.
inline double now_ns() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// The median; `values` must not be empty.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The number of repetitions: in batches that are short compared to a scheduler time slice, so that
// most are undisturbed, and long compared to the clock.
struct Batches {
  uint64_t count;
  uint64_t steps;  // of a batch
  uint64_t total() const { return count * steps; }
};

// For steps that move this many bytes each: 4 MiB in a batch.
inline Batches large_batches(uint64_t bytes) { return {60, (4 << 20) / bytes}; }

// Runs step(0), step(1), ... and returns the time of one step: the median over the batches. The
// first tenth of the batches only warms up. After `budget_ns`, fewer batches have to do.
template <typename Step>
double time_steps(Batches batches, Step&& step,
                  double budget_ns = std::numeric_limits<double>::infinity()) {
  std::vector<double> times;
  times.reserve(batches.count);
  uint64_t i = 0;
  const double deadline = now_ns() + budget_ns;
  for (uint64_t batch = 0; batch < batches.count; batch++) {
    const double start = now_ns();
    if (start > deadline && !times.empty()) break;
    for (uint64_t end = i + batches.steps; i < end; i++) step(i);
    const double time = (now_ns() - start) / static_cast<double>(batches.steps);
    if (batch >= batches.count / 10) times.push_back(time);
  }
  return median(std::move(times));
}

// The two sides of a ping-pong. An `End` has send(i) and await(i). lead() returns the time of a
// round trip.
template <typename End>
double lead(End& end, Batches batches) {
  return time_steps(batches, [&end](uint64_t i) {
    end.send(i);
    end.await(i);
  });
}

template <typename End>
void follow(End& end, Batches batches) {
  for (uint64_t i = 0; i < batches.total(); i++) {
    end.await(i);
    end.send(i);
  }
}

}  // namespace bench

#endif  // TOOLS_BENCH_TIMING_H_
