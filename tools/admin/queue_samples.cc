// SPDX-License-Identifier: MIT
#include "tools/admin/queue_samples.h"

#include <functional>

#include "tools/admin/text.h"
#include "urma_types_str.h"

namespace admin {

Sample take_sample(const Options& options, const QueueFilter& filter) {
  Sample sample{std::chrono::steady_clock::now(), ask_processes(options, urma_ext_query_queues)};
  for (auto& answer : sample.answers) std::erase_if(answer.entries, std::not_fn(filter));
  return sample;
}

double seconds_between(const Sample& before, const Sample& now) {
  return std::chrono::duration<double>(now.time - before.time).count();
}

QueueFilter device_filter(const Options& options) {
  return [device = options.device](const urma_ext_queue_t& queue) {
    return device.empty() || device_of(queue) == device;
  };
}

QueueKey key_of(uint32_t pid, const urma_ext_queue_t& queue) {
  return {pid, device_of(queue), queue.kind, queue.id};
}

std::map<QueueKey, urma_ext_queue_t> queues_by_key(const QueueAnswers& answers) {
  std::map<QueueKey, urma_ext_queue_t> queues;
  for (const auto& answer : answers) {
    for (const auto& queue : answer.entries) {
      queues[key_of(answer.process.pid, queue)] = queue;
    }
  }
  return queues;
}

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

Rates rates_between(const urma_ext_queue_t& old, const urma_ext_queue_t& queue, double seconds) {
  const auto rate = [seconds](uint64_t first, uint64_t second) {
    return static_cast<double>(second >= first ? second - first : second) / seconds;
  };
  return {rate(old.posts, queue.posts),
          rate(old.completions, queue.completions),
          rate(errors_of(old), errors_of(queue)),
          rate(old.bytes, queue.bytes),
          rate(old.rnr, queue.rnr),
          rate(old.wakeups, queue.wakeups),
          rate(old.polls, queue.polls)};
}

Past::Past(const Sample& sample) : queues_(queues_by_key(sample.answers)) {
  for (const auto& answer : sample.answers) {
    if (!answer.error.empty()) silent_.insert(answer.process.pid);
  }
}

const urma_ext_queue_t& Past::of(uint32_t pid, const urma_ext_queue_t& now) const {
  static constexpr urma_ext_queue_t kNothing = {};
  if (silent_.contains(pid)) return now;
  const auto found = queues_.find(key_of(pid, now));
  return found == queues_.end() ? kNothing : found->second;
}

}  // namespace admin
