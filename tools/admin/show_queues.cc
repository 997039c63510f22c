// SPDX-License-Identifier: MIT
#include "tools/admin/show_queues.h"

#include <signal.h>

#include <chrono>
#include <map>
#include <optional>
#include <tuple>

#include "third_party/fmt/format.h"
#include "tools/admin/names.h"
#include "tools/admin/processes.h"
#include "tools/admin/text.h"
#include "urma_types_str.h"

namespace admin {
namespace {

using Clock = std::chrono::steady_clock;
using QueueAnswers = std::vector<Answer<urma_ext_queue_t>>;

struct Sample {
  Clock::time_point time;
  QueueAnswers answers;
};

std::string state_name(const urma_ext_queue_t& queue) {
  if (queue.state > UINT8_MAX) return "INVALID";
  const auto state = static_cast<uint8_t>(queue.state);
  switch (queue.kind) {
    case URMA_EXT_QUEUE_JFC:
      return urma_jfc_state_to_string(state);
    case URMA_EXT_QUEUE_JFR:
      return urma_jfr_state_to_string(state);
    default:
      return urma_jetty_state_to_string(state);
  }
}

std::string device_of(const urma_ext_queue_t& queue) {
  return printable(queue.device, sizeof queue.device);
}

uint64_t errors_of(const urma_ext_queue_t& queue) {
  uint64_t errors = 0;
  for (size_t i = URMA_CR_SUCCESS + 1; i < URMA_EXT_MAX_STATUS; ++i) errors += queue.by_status[i];
  return errors;
}

Json errors_json(const urma_ext_queue_t& queue) {
  Json json = Json::object();
  for (size_t i = URMA_CR_SUCCESS + 1; i < URMA_EXT_MAX_STATUS; ++i) {
    if (queue.by_status[i] != 0) json["URMA_CR_" + status_name(i)] = queue.by_status[i];
  }
  return json;
}

Json queue_json(const urma_ext_queue_t& queue) {
  return {{"device", device_of(queue)},
          {"eid", eid_text(queue.eid)},
          {"kind", kind_name(queue.kind)},
          {"id", queue.id},
          {"state", state_name(queue)},
          {"trans_mode", mode_name(queue.trans_mode)},
          {"depth", queue.depth},
          {"fill", queue.fill},
          {"jfc_id", queue.jfc_id},
          {"jfr_id", queue.jfr_id},
          {"recv_jfc_id", queue.recv_jfc_id},
          {"lock_free", queue.lock_free != 0},
          {"posts", queue.posts},
          {"refused", queue.refused},
          {"completions", queue.completions},
          {"errors", errors_of(queue)},
          {"errors_by_status", errors_json(queue)},
          {"bytes", queue.bytes},
          {"rnr", queue.rnr},
          {"wakeups", queue.wakeups},
          {"polls", queue.polls}};
}

Table queue_table() {
  return Table({"device", "kind", "id", "state", "mode", "fill/depth", "jfc", "jfr", "posts",
                "refused", "completions", "errors", "bytes", "rnr", "wakeups", "polls"});
}

std::string number_or_dash(bool known, uint64_t number) {
  return known ? urma::format("{}", number) : "-";
}

std::vector<std::string> queue_row(const urma_ext_queue_t& queue) {
  const bool jfc = queue.kind == URMA_EXT_QUEUE_JFC;
  return {device_of(queue),
          kind_name(queue.kind),
          urma::format("{}", queue.id),
          state_name(queue),
          mode_name(queue.trans_mode),
          urma::format("{}/{}", queue.fill, queue.depth),
          number_or_dash(queue.jfc_id != 0, queue.jfc_id),
          number_or_dash(queue.jfr_id != 0, queue.jfr_id),
          number_or_dash(!jfc, queue.posts),
          number_or_dash(!jfc, queue.refused),
          urma::format("{}", queue.completions),
          urma::format("{}", errors_of(queue)),
          number_or_dash(!jfc, queue.bytes),
          number_or_dash(!jfc, queue.rnr),
          number_or_dash(jfc, queue.wakeups),
          number_or_dash(jfc, queue.polls)};
}

// What failed, and how often, under the table.
std::string error_lines(const std::vector<urma_ext_queue_t>& queues) {
  std::string text;
  for (const auto& queue : queues) {
    if (errors_of(queue) == 0) continue;
    text += urma::format("{} {}:", kind_name(queue.kind), queue.id);
    const Json errors = errors_json(queue);
    for (const auto& [status, count] : errors.items()) {
      text += urma::format(" {} {}", count.get<uint64_t>(), status);
    }
    text += '\n';
  }
  return text;
}

void add_process(const Answer<urma_ext_queue_t>& answer, Report* report) {
  Json json = process_json(answer.process);
  report->text += urma::format("process {}\n", process_text(answer.process));
  if (!answer.error.empty()) {
    json["error"] = answer.error;
    report->text += answer.error + '\n';
  }
  json["queues"] = Json::array();
  Table table = queue_table();
  for (const auto& queue : answer.entries) {
    json["queues"].push_back(queue_json(queue));
    table.add(queue_row(queue));
  }
  if (!table.empty()) {
    report->text += table.text() + error_lines(answer.entries);
  } else if (answer.error.empty()) {
    report->text += "no queues\n";
  }
  report->json["processes"].push_back(std::move(json));
}

Report report_of(const QueueAnswers& answers) {
  Report report{{{"processes", Json::array()}}, ""};
  for (const auto& answer : answers) add_process(answer, &report);
  if (answers.empty()) report.text = std::string(kNoProcess) + '\n';
  return report;
}

Sample take_sample(const Options& options, const QueueFilter& filter) {
  Sample sample{Clock::now(), ask_processes(options, urma_ext_query_queues)};
  for (auto& answer : sample.answers) std::erase_if(answer.entries, std::not_fn(filter));
  return sample;
}

QueueFilter device_filter(const Options& options) {
  return [device = options.device](const urma_ext_queue_t& queue) {
    return device.empty() || device_of(queue) == device;
  };
}

// -------------------------------------------------------------------------------------------------
// Figures for each second
// -------------------------------------------------------------------------------------------------

using QueueKey = std::tuple<uint32_t, std::string, int, uint32_t>;

std::map<QueueKey, urma_ext_queue_t> queues_by_key(const QueueAnswers& answers) {
  std::map<QueueKey, urma_ext_queue_t> queues;
  for (const auto& answer : answers) {
    for (const auto& queue : answer.entries) {
      queues[{answer.process.pid, device_of(queue), queue.kind, queue.id}] = queue;
    }
  }
  return queues;
}

// Adds what each queue did in a second since the sample before. A queue that was made anew under
// the same id counts from 0.
void add_rates(const Sample& before, const Sample& now, Report* report) {
  const double seconds = std::chrono::duration<double>(now.time - before.time).count();
  const auto old_queues = queues_by_key(before.answers);
  Table table({"process", "device", "kind", "id", "posts/s", "completions/s", "errors/s", "MB/s",
               "rnr/s", "wakeups/s", "polls/s"});
  Json rates = Json::array();
  for (const auto& [key, queue] : queues_by_key(now.answers)) {
    const auto found = old_queues.find(key);
    const urma_ext_queue_t old = found == old_queues.end() ? urma_ext_queue_t{} : found->second;
    const auto rate = [seconds](uint64_t first, uint64_t second) {
      return static_cast<double>(second >= first ? second - first : second) / seconds;
    };
    const double values[] = {rate(old.posts, queue.posts),
                             rate(old.completions, queue.completions),
                             rate(errors_of(old), errors_of(queue)),
                             rate(old.bytes, queue.bytes),
                             rate(old.rnr, queue.rnr),
                             rate(old.wakeups, queue.wakeups),
                             rate(old.polls, queue.polls)};
    static constexpr const char* kNames[] = {"posts", "completions", "errors", "bytes",
                                             "rnr",   "wakeups",     "polls"};
    constexpr size_t kBytes = 3;
    Json json = {{"pid", std::get<0>(key)},
                 {"device", std::get<1>(key)},
                 {"kind", kind_name(queue.kind)},
                 {"id", queue.id}};
    std::vector<std::string> row = {urma::format("{}", std::get<0>(key)), std::get<1>(key),
                                    kind_name(queue.kind), urma::format("{}", queue.id)};
    for (size_t i = 0; i < std::size(values); ++i) {
      json[urma::format("{}_per_second", kNames[i])] = values[i];
      row.push_back(i == kBytes ? urma::format("{:.2f}", values[i] / (1 << 20))
                                : urma::format("{:.0f}", values[i]));
    }
    rates.push_back(std::move(json));
    table.add(std::move(row));
  }
  report->json["seconds"] = seconds;
  report->json["rates"] = std::move(rates);
  if (!table.empty()) report->text += urma::format("in {:.2f} s\n", seconds) + table.text();
}

// Waits for the end of an interval, or for Ctrl-C, which shall not leave traces in the runtime
// directory. Returns whether to go on.
class Interval {
 public:
  explicit Interval(uint64_t seconds) : length_{static_cast<time_t>(seconds), 0} {
    ::sigemptyset(&ends_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends_, signal);
    ::pthread_sigmask(SIG_BLOCK, &ends_, nullptr);
  }
  bool wait() { return ::sigtimedwait(&ends_, nullptr, &length_) < 0; }

 private:
  timespec length_;
  sigset_t ends_;
};

Report watch_queues(const Options& options) {
  Interval interval(*options.watch);
  const Library library;
  if (!options.device.empty()) library.device(options.device);
  const auto filter = device_filter(options);
  std::optional<Sample> before;
  for (uint64_t i = 1;; ++i) {
    Sample now = take_sample(options, filter);
    Report report = report_of(now.answers);
    if (before) add_rates(*before, now, &report);
    print_one_of_many(report, options.json);
    if (i == options.count || !interval.wait()) return {};
    before = std::move(now);
  }
}

}  // namespace

Report queues_report(const Options& options, const QueueFilter& filter,
                     const std::string& missing) {
  const auto answers = take_sample(options, filter).answers;
  const bool none = std::all_of(answers.begin(), answers.end(),
                                [](const auto& answer) { return answer.entries.empty(); });
  if (none && !missing.empty()) throw Failure(missing);
  return report_of(answers);
}

Report show_queues(const Options& options) {
  if (options.watch) return watch_queues(options);
  const Library library;
  if (!options.device.empty()) library.device(options.device);
  return queues_report(options, device_filter(options), "");
}

}  // namespace admin
