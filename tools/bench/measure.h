// SPDX-License-Identifier: MIT
//
// A measurement: what one or two processes do, and the resulting figures.
#ifndef TOOLS_BENCH_MEASURE_H_
#define TOOLS_BENCH_MEASURE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tools/bench/process.h"

namespace bench {

// The result of a measurement in one round.
struct Outcome {
  std::vector<double> values;  // one for each of Measure::figures
  std::string note;            // if not empty: why the targets do not apply
};

struct Measure {
  std::string name;
  std::vector<std::string> figures;  // times in ns, or amounts per second
  // Each runs in its own process, pinned to its own core. The second one may be empty.
  std::function<Outcome(Channel&)> first;
  std::function<void(Channel&)> second;
  // The measurements to compare with: bare ones, or latencies of the library. They run right before
  // it each time, because the speed of a virtual machine changes within seconds.
  std::vector<std::string> beside = {};
};

// The machine's own speed. Another measurement names each in its `beside`.
std::vector<Measure> limit_measures();   // a line, a ring, eventfds, memcpy
std::vector<Measure> page_measures();    // pages that change between private and shared
std::vector<Measure> socket_measures();  // TCP
std::vector<Measure> thread_measures();  // rings of several threads

// The library's speed on it. With lock_free queues there is less: nothing over a network or the
// bonded device, where it would change little, and no queue that threads share.
std::vector<Measure> latency_measures(bool lock_free);
std::vector<Measure> rate_measures(bool lock_free);
std::vector<Measure> scale_measures(bool lock_free);
std::vector<Measure> sharing_measures();  // uses no queue

// The rows of scale_measures() depend on how many cores there are. Each figure is compared with
// another one of the same measurement; if `gain` is not empty, with that one times what the machine
// gains: a figure of thread_measures() beside the one for one thread.
struct ScaleRow {
  std::string figure;
  std::string title;
  std::string beside;
  double target_ratio = 0;
  std::string gain = {};
  std::string gain_beside = {};
};
std::vector<ScaleRow> scale_rows();
std::vector<ScaleRow> ring_rows();  // of thread_measures()
// Powers of two, up to the cores that this process may use.
std::vector<size_t> thread_counts();

}  // namespace bench

#endif  // TOOLS_BENCH_MEASURE_H_
