// SPDX-License-Identifier: MIT
//
// Queries to running processes.
#ifndef TOOLS_ADMIN_PROCESSES_H_
#define TOOLS_ADMIN_PROCESSES_H_

#include <algorithm>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "tools/admin/library.h"
#include "tools/admin/options.h"
#include "tools/admin/report.h"
#include "urma_ext.h"

namespace admin {

// All entries of a list that `query` returns, like those of urma_ext.h. Throws Failure, with the
// meaning of the status for process `pid`; 0: no other process is asked.
template <typename Entry>
std::vector<Entry> fetch_all(const std::function<urma_status_t(Entry*, uint32_t*)>& query,
                             uint32_t pid);

// The processes that the options ask about: one, or all but this one.
std::vector<urma_ext_process_t> asked_processes(const Options& options);

// The answer of a process, or the reason why there is none.
template <typename Entry>
struct Answer {
  urma_ext_process_t process;
  std::vector<Entry> entries;
  std::string error;
};

std::string no_answer_reason(uint32_t pid, urma_status_t status);
// The text if there is no process to ask.
extern const char kNoProcess[];
// The common start of each process's report.
Json process_json(const urma_ext_process_t& process);
std::string process_text(const urma_ext_process_t& process);

// Calls `ask` for all processes at the same time, since each may take a second to time out.
void for_each_at_once(size_t count, const std::function<void(size_t)>& ask);

template <typename Entry>
std::vector<Entry> fetch_all(const std::function<urma_status_t(Entry*, uint32_t*)>& query,
                             uint32_t pid) {
  // The list may grow between two calls; one that keeps growing is cut.
  constexpr uint32_t kSpare = 16;
  constexpr int kAttempts = 3;
  std::vector<Entry> entries;
  uint32_t count = 0;
  urma_status_t status = query(nullptr, &count);
  for (int i = 0; i < kAttempts && status == URMA_SUCCESS && count >= entries.size(); ++i) {
    entries.resize(count + kSpare);
    count = static_cast<uint32_t>(entries.size());
    status = query(entries.data(), &count);
  }
  if (status != URMA_SUCCESS) throw Failure(no_answer_reason(pid, status));
  entries.resize(std::min<size_t>(count, entries.size()));
  return entries;
}

// Asks each process. If only one was requested, its silence is a Failure.
template <typename Entry>
std::vector<Answer<Entry>> ask_processes(const Options& options,
                                         urma_status_t (*query)(uint32_t, Entry*, uint32_t*)) {
  std::vector<Answer<Entry>> answers;
  for (const auto& process : asked_processes(options)) answers.push_back({process, {}, ""});
  for_each_at_once(answers.size(), [&](size_t i) {
    const uint32_t pid = answers[i].process.pid;
    try {
      answers[i].entries = fetch_all<Entry>(
          [=](Entry* entries, uint32_t* count) { return query(pid, entries, count); }, pid);
    } catch (const std::exception& failure) {
      answers[i].error = failure.what();
    }
  });
  if (options.pid && !answers.front().error.empty()) throw Failure(answers.front().error);
  return answers;
}

// A report of the entries of each process, or why it did not answer. `describe` adds an object for
// each entry to the JSON list `name` of its process, and returns the text.
template <typename Entry, typename Describe>
Report report_of(const std::vector<Answer<Entry>>& answers, const char* name, Describe describe) {
  Report report{{{"processes", Json::array()}}, ""};
  for (const auto& answer : answers) {
    Json json = process_json(answer.process);
    report.text += "process " + process_text(answer.process) + '\n';
    if (!answer.error.empty()) {
      json["error"] = answer.error;
      report.text += answer.error + '\n';
    }
    json[name] = Json::array();
    if (!answer.entries.empty()) {
      report.text += describe(answer.entries, &json[name]);
    } else if (answer.error.empty()) {
      report.text += std::string("no ") + name + '\n';
    }
    report.json["processes"].push_back(std::move(json));
  }
  if (answers.empty()) report.text = std::string(kNoProcess) + '\n';
  return report;
}

Report show_processes(const Options& options);

}  // namespace admin

#endif  // TOOLS_ADMIN_PROCESSES_H_
