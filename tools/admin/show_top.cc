// SPDX-License-Identifier: MIT
#include "tools/admin/show_top.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "third_party/fmt/format.h"
#include "tools/admin/names.h"
#include "tools/admin/prometheus.h"
#include "tools/admin/queue_samples.h"
#include "tools/admin/text.h"

namespace admin {
namespace {

constexpr uint64_t kUsualSeconds = 1;
constexpr size_t kLinesOfHead = 4;  // sum, empty line, titles, rule
constexpr char kClearScreen[] = "\033[H\033[2J";

struct Line {
  uint32_t pid;
  std::string program;
  urma_ext_queue_t queue;
  Rates rates;
};

std::vector<Line> lines_between(const Sample& before, const Sample& now) {
  const double seconds = seconds_between(before, now);
  const Past past(before);
  std::vector<Line> lines;
  for (const auto& answer : now.answers) {
    const uint32_t pid = answer.process.pid;
    const std::string program = printable(answer.process.program, sizeof answer.process.program);
    for (const auto& queue : answer.entries) {
      lines.push_back({pid, program, queue, rates_between(past.of(pid, queue), queue, seconds)});
    }
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return a.rates.posts + a.rates.completions > b.rates.posts + b.rates.completions;
  });
  return lines;
}

// Work requests are counted once: a JFC repeats what its queues have done.
Rates sum_of(const std::vector<Line>& lines) {
  Rates sum = {};
  for (const auto& line : lines) {
    if (line.queue.kind == URMA_EXT_QUEUE_JFC) continue;
    sum.posts += line.rates.posts;
    sum.completions += line.rates.completions;
    sum.errors += line.rates.errors;
    sum.bytes += line.rates.bytes;
    sum.rnr += line.rates.rnr;
  }
  return sum;
}

Json line_json(const Line& line) {
  return {{"pid", line.pid},
          {"program", line.program},
          {"device", device_of(line.queue)},
          {"kind", kind_name(line.queue.kind)},
          {"id", line.queue.id},
          {"state", state_name(line.queue)},
          {"fill", line.queue.fill},
          {"depth", line.queue.depth},
          {"posts_per_second", line.rates.posts},
          {"completions_per_second", line.rates.completions},
          {"bytes_per_second", line.rates.bytes},
          {"errors_per_second", line.rates.errors},
          {"rnr_per_second", line.rates.rnr},
          {"errors", errors_of(line.queue)}};
}

std::vector<std::string> line_row(const Line& line) {
  const auto whole = [](double number) { return urma::format("{:.0f}", number); };
  return {urma::format("{}", line.pid),
          line.program,
          device_of(line.queue),
          kind_name(line.queue.kind),
          urma::format("{}", line.queue.id),
          state_name(line.queue),
          urma::format("{}/{}", line.queue.fill, line.queue.depth),
          whole(line.rates.posts),
          whole(line.rates.completions),
          urma::format("{:.2f}", line.rates.bytes / (1 << 20)),
          whole(line.rates.errors),
          urma::format("{}", errors_of(line.queue)),
          whole(line.rates.rnr)};
}

// The terminal lines left for queues; all if stdout is not a terminal.
size_t room_for_lines() {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return SIZE_MAX;
  return size.ws_row > kLinesOfHead + 2 ? size.ws_row - kLinesOfHead - 2 : 1;
}

Report report_of(const Sample& before, const Sample& now, size_t room) {
  const auto lines = lines_between(before, now);
  const Rates sum = sum_of(lines);
  Report report{{{"seconds", seconds_between(before, now)}, {"queues", Json::array()}}, ""};
  report.text = urma::format(
      "{} processes, {} queues: {:.0f} posts/s, {:.0f} completions/s, {:.2f} MB/s, {:.0f} "
      "errors/s, {:.0f} rnr/s\n",
      now.answers.size(), lines.size(), sum.posts, sum.completions, sum.bytes / (1 << 20),
      sum.errors, sum.rnr);
  for (const auto& answer : now.answers) {
    if (!answer.error.empty()) report.text += answer.error + '\n';
  }
  Table table({"pid", "program", "device", "kind", "id", "state", "fill/depth", "posts/s",
               "completions/s", "MB/s", "errors/s", "errors", "rnr/s"});
  for (const auto& line : lines) {
    report.json["queues"].push_back(line_json(line));
    if (room > 0) {
      table.add(line_row(line));
      --room;
    }
  }
  if (!table.empty()) report.text += '\n' + table.text();
  return report;
}

Report show_totals(const Options& options) {
  const Library library;
  if (!options.device.empty()) library.device(options.device);
  return {Json::object(), prometheus_text(take_sample(options, device_filter(options)).answers)};
}

}  // namespace

Report show_top(const Options& options) {
  if (options.prometheus) return show_totals(options);
  Interval interval(options.watch.value_or(kUsualSeconds));
  const Library library;
  if (!options.device.empty()) library.device(options.device);
  const auto filter = device_filter(options);
  const bool terminal = ::isatty(STDOUT_FILENO) == 1 && !options.json;
  Sample before = take_sample(options, filter);
  for (uint64_t i = 1; interval.wait(); ++i) {
    Sample now = take_sample(options, filter);
    Report report = report_of(before, now, terminal ? room_for_lines() : SIZE_MAX);
    if (terminal) {
      report.text = kClearScreen + report.text;
    } else if (i > 1) {
      report.text = '\n' + report.text;
    }
    print_one_of_many(report, options.json);
    if (i == options.count) break;
    before = std::move(now);
  }
  return {};
}

}  // namespace admin
