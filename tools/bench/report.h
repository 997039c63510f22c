// SPDX-License-Identifier: MIT
//
// The table at the end.
#ifndef TOOLS_BENCH_REPORT_H_
#define TOOLS_BENCH_REPORT_H_

#include <map>
#include <string>
#include <vector>

#include "tools/bench/process.h"

namespace bench {

// The results for one figure, over the rounds.
struct Samples {
  std::vector<double> values;
  std::vector<double> lock_free;                      // the same with lock_free queues
  std::vector<std::map<std::string, double>> beside;  // for each value, the figures beside it
  std::string note;                                   // see Outcome::note
  std::string error;                                  // if not empty: why it could not be measured
};
using Results = std::map<std::string, Samples>;

// Prints the place and time of the measurement.
void print_machine(Cores cores, int rounds);

// Prints a row for each figure that is in `results`: for people, or for programs.
void print_table(const Results& results);
void print_json(const Results& results);

bool all_measured(const Results& results);

}  // namespace bench

#endif  // TOOLS_BENCH_REPORT_H_
