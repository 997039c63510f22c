// SPDX-License-Identifier: MIT
#include "tools/admin/processes.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <thread>

#include "third_party/fmt/format.h"
#include "tools/admin/text.h"

namespace admin {
namespace {

constexpr size_t kMaxThreads = 64;

std::vector<urma_ext_process_t> other_processes() {
  const auto own = static_cast<uint32_t>(::getpid());
  auto processes = fetch_all<urma_ext_process_t>(urma_ext_list_processes, /*pid=*/0);
  std::erase_if(processes, [own](const auto& process) { return process.pid == own; });
  return processes;
}

std::string program_of(const urma_ext_process_t& process) {
  return printable(process.program, sizeof process.program);
}

// As date --iso-8601=seconds prints it, in UTC.
std::string time_text(uint64_t since_1970_ns) {
  if (since_1970_ns == 0) return "-";
  const auto seconds = static_cast<time_t>(since_1970_ns / 1'000'000'000);
  tm parts;
  char text[32];
  if (::gmtime_r(&seconds, &parts) == nullptr) return "-";
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace

const char kNoProcess[] = "no other process of this user and runtime directory uses the library";

std::string no_answer_reason(uint32_t pid, urma_status_t status) {
  if (pid == 0) {
    return urma::format("the library cannot tell (status {}); the line before says why",
                        static_cast<int>(status));
  }
  switch (status) {
    case URMA_ENOPERM:
      return urma::format(
          "no process of this user and this runtime directory has the pid {}; see show processes",
          pid);
    case URMA_ETIMEOUT:
      return urma::format("process {} does not answer; it may be stopped", pid);
    default:
      return urma::format(
          "process {} cannot be asked (status {}): it has ended, or uses another "
          "version of the library",
          pid, static_cast<int>(status));
  }
}

std::vector<urma_ext_process_t> asked_processes(const Options& options) {
  auto processes = other_processes();
  if (!options.pid) return processes;
  std::vector<std::string> pids;
  for (const auto& process : processes) {
    if (process.pid == *options.pid) return {process};
    pids.push_back(process_text(process));
  }
  throw Failure(urma::format(
      "no other process of this user and this runtime directory has the pid {}; there are: {}",
      *options.pid, pids.empty() ? "none" : joined(pids, ", ")));
}

void for_each_at_once(size_t count, const std::function<void(size_t)>& ask) {
  for (size_t begin = 0; begin < count; begin += kMaxThreads) {
    std::vector<std::jthread> threads;  // joined, even if starting one fails
    for (size_t i = begin; i < std::min(count, begin + kMaxThreads); ++i) {
      threads.emplace_back(ask, i);
    }
  }
}

Json process_json(const urma_ext_process_t& process) {
  return {{"pid", process.pid}, {"program", program_of(process)}};
}

std::string process_text(const urma_ext_process_t& process) {
  return urma::format("{} ({})", process.pid, program_of(process));
}

Report show_processes(const Options& /*options*/) {
  const Library library;
  Report report{{{"processes", Json::array()}}, ""};
  Table table({"pid", "program", "uasid", "slot", "started"});
  for (const auto& process : other_processes()) {
    Json json = process_json(process);
    json["uasid"] = process.uasid;
    json["slot"] = process.slot;
    json["uid"] = process.uid;
    json["start_time_ns"] = process.start_time_ns;
    report.json["processes"].push_back(json);
    table.add({urma::format("{}", process.pid), program_of(process),
               urma::format("{}", process.uasid), urma::format("{}", process.slot),
               time_text(process.start_time_ns)});
  }
  report.text = table.empty() ? std::string(kNoProcess) + '\n' : table.text();
  return report;
}

}  // namespace admin
