// SPDX-License-Identifier: MIT
#include "tools/admin/prometheus.h"

#include <functional>

#include "third_party/fmt/format.h"
#include "tools/admin/names.h"
#include "tools/admin/text.h"
#include "urma_types_str.h"

namespace admin {
namespace {

struct Metric {
  const char* name;
  const char* type;
  const char* help;
  uint64_t urma_ext_queue_t::*value;
};

constexpr Metric kCounters[] = {
    {"urma_queue_posts_total", "counter", "Work requests accepted.", &urma_ext_queue_t::posts},
    {"urma_queue_refused_total", "counter", "Work requests refused.", &urma_ext_queue_t::refused},
    {"urma_queue_bytes_total", "counter", "Bytes of successful requests.",
     &urma_ext_queue_t::bytes},
    {"urma_queue_rnr_total", "counter", "Messages that found no receive posted.",
     &urma_ext_queue_t::rnr},
    {"urma_queue_wakeups_total", "counter", "Events signalled to the JFCE.",
     &urma_ext_queue_t::wakeups},
    {"urma_queue_polls_total", "counter", "Polls of the JFC.", &urma_ext_queue_t::polls},
};

std::string escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
  return text;
}

std::string labels_of(const urma_ext_process_t& process, const urma_ext_queue_t& queue) {
  return urma::format("pid=\"{}\",program=\"{}\",device=\"{}\",kind=\"{}\",id=\"{}\"", process.pid,
                      escaped(printable(process.program, sizeof process.program)),
                      escaped(device_of(queue)), kind_name(queue.kind), queue.id);
}

void head(const char* name, const char* type, const char* help, std::string* text) {
  *text += urma::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

using Lines = std::function<std::string(const std::string& labels, const urma_ext_queue_t& queue)>;

void add_queues(const QueueAnswers& answers, const Lines& lines, std::string* text) {
  for (const auto& answer : answers) {
    for (const auto& queue : answer.entries)
      *text += lines(labels_of(answer.process, queue), queue);
  }
}

// One line for each status that has occurred.
std::string completion_lines(const std::string& labels, const urma_ext_queue_t& queue) {
  std::string text;
  for (int i = 0; i < URMA_EXT_MAX_STATUS; ++i) {
    if (i != URMA_CR_SUCCESS && queue.by_status[i] == 0) continue;
    text += urma::format("urma_queue_completions_total{{{},status=\"{}\"}} {}\n", labels,
                         urma_cr_status_to_string(static_cast<urma_cr_status_t>(i)),
                         queue.by_status[i]);
  }
  return text;
}

void add_gauge(const char* name, const char* help, uint32_t urma_ext_queue_t::*value,
               const QueueAnswers& answers, std::string* text) {
  head(name, "gauge", help, text);
  const auto line = [=](const std::string& labels, const urma_ext_queue_t& queue) {
    return urma::format("{}{{{}}} {}\n", name, labels, queue.*value);
  };
  add_queues(answers, line, text);
}

}  // namespace

std::string prometheus_text(const QueueAnswers& answers) {
  std::string text;
  size_t silent = 0;
  for (const auto& answer : answers) silent += answer.error.empty() ? 0 : 1;
  head("urma_processes", "gauge", "Processes that use the library and have answered.", &text);
  text += urma::format("urma_processes {}\n", answers.size() - silent);
  head("urma_silent_processes", "gauge", "Processes that have not answered.", &text);
  text += urma::format("urma_silent_processes {}\n", silent);
  add_gauge("urma_queue_fill", "Places in use.", &urma_ext_queue_t::fill, answers, &text);
  add_gauge("urma_queue_depth", "Places in all.", &urma_ext_queue_t::depth, answers, &text);
  head("urma_queue_completions_total", "counter", "Requests that have ended, by status.", &text);
  add_queues(answers, completion_lines, &text);
  for (const auto& metric : kCounters) {
    head(metric.name, metric.type, metric.help, &text);
    const auto line = [&](const std::string& labels, const urma_ext_queue_t& queue) {
      return urma::format("{}{{{}}} {}\n", metric.name, labels, queue.*metric.value);
    };
    add_queues(answers, line, &text);
  }
  return text;
}

}  // namespace admin
