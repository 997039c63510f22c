// SPDX-License-Identifier: MIT
#include "tools/bench/report.h"

#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "tools/bench/measure.h"
#include "tools/bench/timing.h"
#include "urma_ext.h"

namespace bench {
namespace {

enum class Unit { kTime, kMessages, kBytes };

// One line of the table: a figure, the figures to compare with (the best one counts), and the
// target: a ratio, a maximum for times and a minimum for others, or a time if there is nothing to
// compare with.
struct Row {
  std::string figure;
  std::string title;
  Unit unit = Unit::kTime;
  std::vector<std::string> limits = {};
  double target_ratio = 0;
  double target_ns = 0;
  // If not empty, limits are multiplied by one of these figures divided by the other.
  std::string gain = {};
  std::string gain_beside = {};
};

std::vector<Row> fixed_rows() {
  return {
      {"line latency", "bare: cache line between two threads"},
      {"ring latency", "bare: ring between two processes"},
      {"eventfd round trip", "bare: eventfd round trip, both asleep"},
      {"ring rate", "bare: ring, messages", Unit::kMessages},
      {"memcpy of 64 KiB", "bare: memcpy of 64 KiB", Unit::kBytes},
      {"memcpy of 1 MiB", "bare: memcpy of 1 MiB", Unit::kBytes},
      {"TCP round trip", "bare: TCP, 8 B, round trip"},
      {"half a TCP round trip", "bare: TCP, 8 B, half a round trip"},
      {"TCP round trip, asleep", "bare: TCP, 8 B, round trip, both asleep"},
      {"TCP, 64 KiB", "bare: TCP, pieces of 64 KiB", Unit::kBytes},
      {"TCP, 1 MiB", "bare: TCP, pieces of 1 MiB", Unit::kBytes},
      {"share by pwrite", "bare: share 1 GiB, pwrite and mmap"},
      {"share by memcpy", "bare: share 1 GiB, memcpy and mremap"},
      {"undo by pread", "bare: undo 1 GiB, pread and mremap"},
      {"undo by userfaultfd", "bare: undo 1 GiB, UFFDIO_COPY"},
      {"write latency, RM", "write 8 B, RM", Unit::kTime, {"line latency"}, 1.10},
      {"write latency, RC", "write 8 B, RC", Unit::kTime, {"line latency"}, 1.10},
      {"send latency, RM", "send 8 B, RM", Unit::kTime, {"line latency"}, 1.30},
      {"send latency, RC", "send 8 B, RC", Unit::kTime, {"line latency"}, 1.30},
      {"fetch-add latency", "fetch-add 8 B", Unit::kTime, {"line latency"}, 0.27},
      {"compare-and-swap latency", "compare-and-swap 8 B", Unit::kTime, {"line latency"}, 0.27},
      {"send latency, RM", "send 8 B beside write 8 B", Unit::kTime, {"write latency, RM"}, 1.25},
      {"event round trip",
       "send 8 B, round trip, both asleep",
       Unit::kTime,
       {"eventfd round trip"},
       1.10},
      {"share 1 GiB",
       "share 1 GiB in place",
       Unit::kTime,
       {"share by pwrite", "share by memcpy"},
       1.5},
      {"undo 1 GiB",
       "make 1 GiB private again",
       Unit::kTime,
       {"undo by pread", "undo by userfaultfd"},
       1.5},
      {"share 64 GiB untouched", "share 64 GiB, untouched", Unit::kTime, {}, 0, 5e6},
      {"undo 64 GiB untouched", "make 64 GiB private again, untouched", Unit::kTime, {}, 0, 5e6},
      {"read latency", "read 8 B", Unit::kTime, {"line latency"}},
      {"send rate", "messages of 8 B", Unit::kMessages, {"ring rate"}},
      {"send rate, chains", "messages of 8 B, chains of 16", Unit::kMessages, {"ring rate"}, 0.20},
      {"write rate", "writes of 8 B", Unit::kMessages, {"ring rate"}, 0.27},
      {"write bandwidth, 64 KiB", "writes of 64 KiB", Unit::kBytes, {"memcpy of 64 KiB"}, 0.95},
      {"write bandwidth, 1 MiB", "writes of 1 MiB", Unit::kBytes, {"memcpy of 1 MiB"}, 0.95},
      {"read bandwidth, 64 KiB", "reads of 64 KiB", Unit::kBytes, {"memcpy of 64 KiB"}, 0.95},
      {"read bandwidth, 1 MiB", "reads of 1 MiB", Unit::kBytes, {"memcpy of 1 MiB"}, 0.95},
      {"send bandwidth, 64 KiB", "sends of 64 KiB", Unit::kBytes, {"memcpy of 64 KiB"}, 0.85},
      {"send bandwidth, 1 MiB", "sends of 1 MiB", Unit::kBytes, {"memcpy of 1 MiB"}, 0.80},
  };
}

// Over urma_net0.
std::vector<Row> network_rows() {
  const std::string tcp = "TCP round trip";
  const std::string asleep = "TCP round trip, asleep";
  return {
      {"net send latency", "net: send 8 B", Unit::kTime, {"half a TCP round trip"}, 1.35},
      {"net write latency", "net: write 8 B", Unit::kTime, {tcp}, 1.25},
      {"net read latency", "net: read 8 B", Unit::kTime, {tcp}, 1.25},
      {"net fetch-add latency", "net: fetch-add 8 B", Unit::kTime, {tcp}, 1.25},
      {"net write latency, asleep", "net: write 8 B, target asleep", Unit::kTime, {asleep}, 0.8},
      {"net read latency, asleep", "net: read 8 B, target asleep", Unit::kTime, {asleep}, 0.8},
      {"net fetch-add latency, asleep",
       "net: fetch-add 8 B, target asleep",
       Unit::kTime,
       {asleep},
       0.8},
      {"net send rate", "net: messages of 8 B", Unit::kMessages, {"net send rate, chains"}},
      {"net send rate, chains",
       "net: messages of 8 B, chains of 16",
       Unit::kMessages,
       {"net send rate"},
       5.0},
      {"net write bandwidth, 64 KiB", "net: writes of 64 KiB", Unit::kBytes, {"TCP, 64 KiB"}, 0.95},
      {"net write bandwidth, 1 MiB", "net: writes of 1 MiB", Unit::kBytes, {"TCP, 1 MiB"}, 0.95},
      {"net send bandwidth, 64 KiB", "net: sends of 64 KiB", Unit::kBytes, {"TCP, 64 KiB"}, 0.95},
      {"net send bandwidth, 1 MiB", "net: sends of 1 MiB", Unit::kBytes, {"TCP, 1 MiB"}, 0.95},
  };
}

// Over bonding_dev_0: peers of one runtime directory, and of two.
std::vector<Row> bond_rows() {
  return {
      {"bond write latency", "bond: write 8 B", Unit::kTime, {"write latency, RM"}, 1.05},
      {"bond send latency", "bond: send 8 B", Unit::kTime, {"send latency, RM"}, 1.05},
      {"bond fetch-add latency", "bond: fetch-add 8 B", Unit::kTime, {"fetch-add latency"}, 1.05},
      {"bond send latency, far", "bond: send 8 B, far", Unit::kTime, {"net send latency"}, 1.05},
      {"bond write latency, far", "bond: write 8 B, far", Unit::kTime, {"net write latency"}, 1.05},
      {"bond fetch-add latency, far",
       "bond: fetch-add 8 B, far",
       Unit::kTime,
       {"net fetch-add latency"},
       1.05},
  };
}

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = [] {
    std::vector<Row> all = fixed_rows();
    for (Row& row : network_rows()) all.push_back(std::move(row));
    for (Row& row : bond_rows()) all.push_back(std::move(row));
    for (const ScaleRow& row : ring_rows()) {
      all.push_back({row.figure, row.title, Unit::kMessages});
    }
    for (const ScaleRow& row : scale_rows()) {
      all.push_back({row.figure,
                     row.title,
                     Unit::kMessages,
                     {row.beside},
                     row.target_ratio,
                     0,
                     row.gain,
                     row.gain_beside});
    }
    return all;
  }();
  return kRows;
}

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

std::string show(double value, Unit unit) {
  if (unit == Unit::kMessages) return format("%.2f M/s", value / 1e6);
  if (unit == Unit::kBytes) return format("%.2f GB/s", value / 1e9);
  if (value < 100) return format("%.1f ns", value);
  if (value < 1e4) return format("%.0f ns", value);
  if (value < 1e6) return format("%.1f us", value / 1e3);
  return format(value < 1e8 ? "%.2f ms" : "%.0f ms", value / 1e6);
}

struct Limit {
  std::string name;
  double value;
  double ratio;  // of our figure to the one beside it
};

std::optional<double> figure_of(const std::map<std::string, double>& figures,
                                const std::string& name) {
  const auto found = figures.find(name);
  return found == figures.end() ? std::nullopt : std::optional(found->second);
}

// The figure to compare with in one round.
std::optional<double> limit_of(const std::map<std::string, double>& figures, const Row& row,
                               const std::string& name) {
  const std::optional<double> limit = figure_of(figures, name);
  if (row.gain.empty() || !limit) return limit;
  const std::optional<double> more = figure_of(figures, row.gain);
  const std::optional<double> one = figure_of(figures, row.gain_beside);
  return more && one ? std::optional(*limit * *more / *one) : std::nullopt;
}

std::optional<Limit> compare(const Samples& samples, const Row& row, const std::string& name) {
  std::vector<double> values, ratios;
  for (size_t i = 0; i < samples.values.size(); i++) {
    const std::optional<double> limit = limit_of(samples.beside[i], row, name);
    if (!limit) continue;
    values.push_back(*limit);
    ratios.push_back(samples.values[i] / *limit);
  }
  if (values.empty()) return std::nullopt;
  return Limit{row.gain.empty() ? name : name + ", times the gain of rings", median(values),
               median(ratios)};
}

// Of several bare alternatives the fastest one counts.
std::optional<Limit> find_limit(const Samples& samples, const Row& row) {
  std::optional<Limit> best;
  for (const std::string& name : row.limits) {
    std::optional<Limit> limit = compare(samples, row, name);
    if (limit && (!best || limit->value < best->value)) best = std::move(limit);
  }
  return best;
}

// The contents of one row.
struct Line {
  const Row* row;
  std::string error;  // if not empty: why there is no figure
  std::string note;   // see Outcome::note
  double ours = 0;
  std::optional<double> lock_free = {};
  std::optional<Limit> limit = {};
  std::optional<bool> reached = {};  // nothing if there is no target, or no figure to judge

  // A figure of the machine itself.
  bool bare() const { return row->limits.empty() && row->target_ns == 0; }
};

std::optional<bool> judge(const Row& row, double ours, const std::optional<Limit>& limit) {
  if (row.target_ns > 0) return ours <= row.target_ns;
  if (row.target_ratio == 0 || !limit) return std::nullopt;
  return row.unit == Unit::kTime ? limit->ratio <= row.target_ratio
                                 : limit->ratio >= row.target_ratio;
}

Line make_line(const Results& results, const Row& row) {
  const Samples& samples = results.at(row.figure);
  if (!samples.error.empty()) return {&row, samples.error, {}};
  Line line = {&row, {}, samples.note, median(samples.values)};
  if (!samples.lock_free.empty()) line.lock_free = median(samples.lock_free);
  line.limit = find_limit(samples, row);
  line.reached = judge(row, line.ours, line.limit);
  return line;
}

std::vector<Line> make_lines(const Results& results) {
  std::vector<Line> lines;
  for (const Row& row : rows()) {
    if (results.contains(row.figure)) lines.push_back(make_line(results, row));
  }
  return lines;
}

using Cells = std::array<std::string, 7>;

std::string show_target(const Row& row) {
  if (row.target_ns > 0) return "<= " + show(row.target_ns, Unit::kTime);
  if (row.target_ratio == 0) return {};
  return (row.unit == Unit::kTime ? "<= " : ">= ") + format("%.2f", row.target_ratio);
}

std::string verdict(const Line& line) {
  if (show_target(*line.row).empty()) return line.note;
  if (!line.reached) return "not known";
  if (!line.note.empty()) return "no: " + line.note;
  return *line.reached ? "yes" : "no";
}

Cells make_cells(const Line& line) {
  const Row& row = *line.row;
  if (!line.error.empty()) return {row.title, "not measured: " + line.error};
  if (line.bare()) return {row.title, "", "", show(line.ours, row.unit), "", "", ""};
  Cells cells = {row.title, show(line.ours, row.unit), "", "", "", show_target(row), verdict(line)};
  if (line.lock_free) cells[2] = show(*line.lock_free, row.unit);
  if (line.limit) {
    cells[3] = show(line.limit->value, row.unit) + ", " + line.limit->name;
    cells[4] = format("%.2f", line.limit->ratio);
  } else if (!row.limits.empty()) {
    cells[3] = "not measured";
  }
  return cells;
}

const char* unit_name(Unit unit) {
  switch (unit) {
    case Unit::kTime:
      return "time";
    case Unit::kMessages:
      return "rate";
    case Unit::kBytes:
      return "bandwidth";
  }
  return "";
}

nlohmann::ordered_json make_json(const Line& line) {
  const Row& row = *line.row;
  nlohmann::ordered_json json = {{"title", row.title},         {"unit", unit_name(row.unit)},
                                 {"bare", line.bare()},        {"error", line.error},
                                 {"note", line.note},          {"ours", line.ours},
                                 {"lock_free", nullptr},       {"limit", nullptr},
                                 {"limit_name", nullptr},      {"ratio", nullptr},
                                 {"target", row.target_ratio}, {"target_ns", row.target_ns},
                                 {"reached", nullptr}};
  if (line.lock_free) json["lock_free"] = *line.lock_free;
  if (line.limit) {
    json["limit"] = line.limit->value;
    json["limit_name"] = line.limit->name;
    json["ratio"] = line.limit->ratio;
  }
  if (line.reached) json["reached"] = *line.reached && line.note.empty();
  return json;
}

void print_cells(const Cells& cells, const std::array<size_t, 7>& widths) {
  for (size_t i = 0; i < cells.size(); i++) {
    std::printf("| %-*s ", static_cast<int>(widths[i]), cells[i].c_str());
  }
  std::printf("|\n");
}

// The value of the first line `key : value` of /proc/cpuinfo.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

}  // namespace

void print_machine(Cores cores, int rounds) {
  utsname system;
  if (::uname(&system) != 0) fail_errno("uname");
  const time_t now = ::time(nullptr);
  tm local;
  char date[64];
  ::strftime(date, sizeof(date), "%Y-%m-%d %H:%M %z", ::localtime_r(&now, &local));
  double load = 0;
  (void)::getloadavg(&load, 1);
  std::printf("machine  %s, %ld cores\n", processor().c_str(), ::sysconf(_SC_NPROCESSORS_ONLN));
  std::printf("system   %s %s %s\n", system.sysname, system.release, system.machine);
  std::printf("date     %s, load before %.1f\n", date, load);
  std::printf("library  liburma %s\n", urma_ext_version());
  std::printf("method   medians of %d rounds, processes pinned to cores %d and %d\n\n", rounds,
              cores.first, cores.second);
}

void print_table(const Results& results) {
  std::vector<Cells> table = {{"figure", "ours", "lock_free", "limit", "ratio", "target", "ok?"}};
  for (const Line& line : make_lines(results)) table.push_back(make_cells(line));
  std::array<size_t, 7> widths = {};
  for (const Cells& cells : table) {
    for (size_t i = 0; i < widths.size(); i++) widths[i] = std::max(widths[i], cells[i].size());
  }
  print_cells(table.front(), widths);
  Cells rule;
  for (size_t i = 0; i < widths.size(); i++) rule[i] = std::string(widths[i], '-');
  print_cells(rule, widths);
  for (size_t i = 1; i < table.size(); i++) print_cells(table[i], widths);
}

void print_json(const Results& results) {
  nlohmann::ordered_json json = {{"library", urma_ext_version()},
                                 {"rows", nlohmann::ordered_json::array()}};
  for (const Line& line : make_lines(results)) json["rows"].push_back(make_json(line));
  std::printf("%s\n", json.dump(1).c_str());
}

bool all_measured(const Results& results) {
  return std::all_of(results.begin(), results.end(),
                     [](const auto& result) { return result.second.error.empty(); });
}

}  // namespace bench
