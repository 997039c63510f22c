// SPDX-License-Identifier: MIT
#include "tools/admin/show_queues.h"

#include <map>
#include <optional>
#include <tuple>

#include "third_party/fmt/format.h"
#include "tools/admin/names.h"
#include "tools/admin/processes.h"
#include "tools/admin/queue_samples.h"
#include "tools/admin/text.h"

namespace admin {
namespace {

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
          {"polls", queue.polls},
          {"near_ways", queue.near_ways},
          {"far_ways", queue.far_ways}};
}

Table queue_table() {
  return Table({"device", "kind", "id", "state", "mode", "fill/depth", "jfc", "jfr", "posts",
                "refused", "completions", "errors", "bytes", "rnr", "wakeups", "polls", "near",
                "far"});
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
          number_or_dash(jfc, queue.polls),
          number_or_dash(!jfc, queue.near_ways),
          number_or_dash(!jfc, queue.far_ways)};
}

// The errors and their counts, below the table.
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

std::string describe(const std::vector<urma_ext_queue_t>& queues, Json* list) {
  Table table = queue_table();
  for (const auto& queue : queues) {
    list->push_back(queue_json(queue));
    table.add(queue_row(queue));
  }
  return table.text() + error_lines(queues);
}

// -------------------------------------------------------------------------------------------------
// Figures for each second
// -------------------------------------------------------------------------------------------------

// Adds what each queue did in a second since the sample before.
void add_rates(const Sample& before, const Sample& now, Report* report) {
  const double seconds = seconds_between(before, now);
  const Past past(before);
  Table table({"process", "device", "kind", "id", "posts/s", "completions/s", "errors/s", "MB/s",
               "rnr/s", "wakeups/s", "polls/s"});
  Json rates = Json::array();
  for (const auto& [key, queue] : queues_by_key(now.answers)) {
    const Rates rates_of = rates_between(past.of(std::get<0>(key), queue), queue, seconds);
    const double values[] = {rates_of.posts, rates_of.completions, rates_of.errors, rates_of.bytes,
                             rates_of.rnr,   rates_of.wakeups,     rates_of.polls};
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

Report watch_queues(const Options& options) {
  Interval interval(*options.watch);
  const Library library;
  if (!options.device.empty()) library.device(options.device);
  const auto filter = device_filter(options);
  std::optional<Sample> before;
  for (uint64_t i = 1;; ++i) {
    Sample now = take_sample(options, filter);
    Report report = report_of(now.answers, "queues", describe);
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
  return report_of(answers, "queues", describe);
}

Report show_queues(const Options& options) {
  if (options.watch) return watch_queues(options);
  const Library library;
  if (!options.device.empty()) library.device(options.device);
  return queues_report(options, device_filter(options), "");
}

}  // namespace admin
