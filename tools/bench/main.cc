// SPDX-License-Identifier: MIT
//
// urma_bench [--rounds N] [--cores A,B] [--json] [--list] [--ordinary] [FILTER]: measures the
// library, and in the same minutes the machine, and prints both in one table. See
// docs/reference/performance.md.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/measure.h"
#include "tools/bench/process.h"
#include "tools/bench/report.h"

namespace bench {
namespace {

constexpr const char* kUsage =
    "usage: urma_bench [--rounds N] [--cores A,B] [--json] [--list] [--ordinary] [FILTER]\n"
    "  --rounds N   rounds of all measurements, of which medians are taken (5)\n"
    "  --cores A,B  cores for the two processes (the first two that may be used)\n"
    "  --json       print JSON instead of a table\n"
    "  --ordinary   measure nothing with lock_free queues\n"
    "  --list       print the names of the measurements, and measure nothing\n"
    "  FILTER       only measurements with FILTER in their name\n";

struct Options {
  int rounds = 5;
  std::optional<Cores> cores;
  bool json = false;
  bool list = false;
  bool ordinary = false;
  std::string filter;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    const std::string argument = argv[i];
    Cores cores = {};
    if (argument == "--rounds" && i + 1 < argc) {
      options.rounds = std::atoi(argv[++i]);
      if (options.rounds < 1) return std::nullopt;
    } else if (argument == "--cores" && i + 1 < argc) {
      if (std::sscanf(argv[++i], "%d,%d", &cores.first, &cores.second) != 2) return std::nullopt;
      options.cores = cores;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--list") {
      options.list = true;
    } else if (argument == "--ordinary") {
      options.ordinary = true;
    } else if (argument[0] != '-' && options.filter.empty()) {
      options.filter = argument;
    } else {
      return std::nullopt;
    }
  }
  return options;
}

// What others are measured beside, by name.
std::map<std::string, Measure> comparable_measures() {
  std::map<std::string, Measure> comparable;
  for (const auto& list : {limit_measures(), page_measures(), socket_measures(), thread_measures(),
                           latency_measures(/*lock_free=*/false)}) {
    for (const Measure& measure : list) comparable.emplace(measure.name, measure);
  }
  return comparable;
}

// Those that are measured with lock_free queues too, by name.
std::map<std::string, Measure> lock_free_measures() {
  std::map<std::string, Measure> found;
  for (const auto list : {latency_measures, rate_measures, scale_measures}) {
    for (Measure& measure : list(/*lock_free=*/true)) found.emplace(measure.name, measure);
  }
  return found;
}

std::vector<Measure> select(const std::string& filter,
                            const std::map<std::string, Measure>& comparable) {
  std::vector<Measure> selected;
  for (const auto& list :
       {latency_measures(/*lock_free=*/false), rate_measures(/*lock_free=*/false),
        sharing_measures(), scale_measures(/*lock_free=*/false)}) {
    for (const Measure& measure : list) {
      for (const std::string& name : measure.beside) {
        require(comparable.contains(name),
                measure.name + " is compared with no measurement, " + name);
      }
      if (measure.name.find(filter) != std::string::npos) selected.push_back(measure);
    }
  }
  require(!selected.empty(), "no measurement has '" + filter + "' in its name");
  return selected;
}

bool failed(const Measure& measure, const Results& results) {
  const auto found = results.find(measure.figures.front());
  return found != results.end() && !found->second.error.empty();
}

// The figures of one run.
Outcome run_once(const Measure& measure, Cores cores) {
  Outcome outcome = run(measure, cores);
  require(outcome.values.size() == measure.figures.size(), "a figure is missing");
  return outcome;
}

void measure_once(const Measure& measure, Cores cores, Results& results,
                  const std::map<std::string, double>& others) {
  try {
    const Outcome outcome = run_once(measure, cores);
    std::map<std::string, double> beside = others;
    for (size_t i = 0; i < measure.figures.size(); i++) {
      beside[measure.figures[i]] = outcome.values[i];
    }
    for (size_t i = 0; i < measure.figures.size(); i++) {
      Samples& samples = results[measure.figures[i]];
      samples.values.push_back(outcome.values[i]);
      samples.beside.push_back(beside);
      if (!outcome.note.empty()) samples.note = outcome.note;
    }
  } catch (const std::exception& error) {
    for (const std::string& figure : measure.figures) results[figure].error = error.what();
  }
}

// `measure`: as it is with lock_free queues.
void measure_lock_free(const Measure& measure, Cores cores, Results& results) {
  try {
    const Outcome outcome = run_once(measure, cores);
    for (size_t i = 0; i < measure.figures.size(); i++) {
      results[measure.figures[i]].lock_free.push_back(outcome.values[i]);
    }
  } catch (const std::exception& error) {
    for (const std::string& figure : measure.figures) {
      results[figure].error = std::string("with lock_free queues: ") + error.what();
    }
  }
}

// Runs what `measure` is compared with, and returns the figures.
std::map<std::string, double> measure_beside(const Measure& measure, Cores cores, Results& results,
                                             const std::map<std::string, Measure>& comparable) {
  std::map<std::string, double> figures;
  for (const std::string& name : measure.beside) {
    const Measure& other = comparable.at(name);
    measure_once(other, cores, results, {});
    if (failed(other, results)) continue;
    for (const std::string& figure : other.figures) {
      figures[figure] = results.at(figure).values.back();
    }
  }
  return figures;
}

int list_all(const Options& options) {
  for (const Measure& measure : select(options.filter, comparable_measures())) {
    std::puts(measure.name.c_str());
  }
  return EXIT_SUCCESS;
}

int measure_all(const Options& options) {
  const Cores cores = options.cores ? *options.cores : pick_cores();
  const std::map<std::string, Measure> comparable = comparable_measures();
  const std::vector<Measure> measures = select(options.filter, comparable);
  const std::map<std::string, Measure> lock_free =
      options.ordinary ? std::map<std::string, Measure>() : lock_free_measures();
  if (!options.json) print_machine(cores, options.rounds);
  std::fflush(stdout);  // a child would print it again
  Results results;
  for (int round = 1; round <= options.rounds; round++) {
    std::fprintf(stderr, "round %d of %d\n", round, options.rounds);
    for (const Measure& measure : measures) {
      if (failed(measure, results)) continue;  // it would fail again
      measure_once(measure, cores, results, measure_beside(measure, cores, results, comparable));
      const auto twin = lock_free.find(measure.name);
      if (twin != lock_free.end()) measure_lock_free(twin->second, cores, results);
    }
  }
  if (options.json) {
    print_json(results);
  } else {
    print_table(results);
  }
  return all_measured(results) ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  try {
    const std::optional<bench::Options> options = bench::parse(argc, argv);
    if (!options) {
      std::fputs(bench::kUsage, stderr);
      return 2;
    }
    return options->list ? bench::list_all(*options) : bench::measure_all(*options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "urma_bench: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
