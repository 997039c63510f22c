// SPDX-License-Identifier: MIT
#include "tools/admin/perf.h"

#include <charconv>
#include <sstream>

#include "third_party/fmt/format.h"
#include "tools/admin/processes.h"

namespace admin {
namespace {

constexpr size_t kFirstGuess = 8192;  // bytes of a table

std::string table_of(uint32_t pid) {
  std::string text(kFirstGuess, '\0');
  auto length = static_cast<uint32_t>(text.size());
  urma_status_t status = urma_ext_perf(pid, URMA_EXT_PERF_SHOW, text.data(), &length);
  if (status == URMA_EINVAL && length > text.size()) {
    text.resize(length);
    status = urma_ext_perf(pid, URMA_EXT_PERF_SHOW, text.data(), &length);
  }
  if (status != URMA_SUCCESS) throw Failure(no_answer_reason(pid, status));
  text.resize(std::min<size_t>(length, text.size()));
  return text.c_str();
}

// The rows of the table: the kind of call and seven numbers.
Json calls_of(const std::string& table) {
  static constexpr const char* kKeys[] = {"count",  "avg_ns", "min_ns", "max_ns",
                                          "p50_ns", "p90_ns", "p99_ns"};
  Json calls = Json::array();
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string type;
    words >> type;
    Json call = {{"type", type}};
    for (const char* key : kKeys) {
      uint64_t number = 0;
      if (words >> number) call[key] = number;
    }
    if (call.size() == std::size(kKeys) + 1) calls.push_back(std::move(call));
  }
  return calls;
}

std::string without_controls(std::string text) {
  std::erase_if(text, [](char c) { return c != '\n' && (c < ' ' || c > '~'); });
  return text;
}

// Calls `ask` in each process that the options name, and reports the answers.
Report for_processes(const Options& options,
                     const std::function<void(uint32_t pid, Json* json, std::string* text)>& ask) {
  const Library library;
  const auto processes = asked_processes(options);
  if (processes.empty()) throw Failure(kNoProcess);
  std::vector<Json> answers(processes.size());
  std::vector<std::string> texts(processes.size());
  for_each_at_once(processes.size(), [&](size_t i) {
    answers[i] = process_json(processes[i]);
    texts[i] = urma::format("process {}: ", process_text(processes[i]));
    try {
      ask(processes[i].pid, &answers[i], &texts[i]);
    } catch (const std::exception& failure) {
      answers[i]["error"] = failure.what();
      texts[i] += std::string(failure.what()) + '\n';
    }
  });
  if (options.pid && answers.front().contains("error")) {
    throw Failure(answers.front()["error"].get<std::string>());
  }
  Report report{{{"processes", answers}}, ""};
  for (const auto& text : texts) report.text += text;
  return report;
}

Report switch_perf(const Options& options, urma_ext_perf_op_t operation, bool measuring) {
  return for_processes(options, [=](uint32_t pid, Json* json, std::string* text) {
    const urma_status_t status = urma_ext_perf(pid, operation, nullptr, nullptr);
    if (status != URMA_SUCCESS) throw Failure(no_answer_reason(pid, status));
    (*json)["measuring"] = measuring;
    *text += measuring ? "measuring\n" : "stopped\n";
  });
}

}  // namespace

Report perf_start(const Options& options) {
  return switch_perf(options, URMA_EXT_PERF_START, true);
}

Report perf_stop(const Options& options) { return switch_perf(options, URMA_EXT_PERF_STOP, false); }

Report perf_show(const Options& options) {
  return for_processes(options, [](uint32_t pid, Json* json, std::string* text) {
    const std::string table = without_controls(table_of(pid));
    (*json)["calls"] = calls_of(table);
    *text += '\n' + table;
  });
}

}  // namespace admin
