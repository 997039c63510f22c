// SPDX-License-Identifier: MIT
#include "jetty/faults.h"

namespace urma {
namespace {

// One step of splitmix64.
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

Faults::Faults(const FaultPlan& plan) {
  uint64_t seed = plan.seed;
  for (const FaultRule& rule : plan.rules) {
    if (rule.kind >= FaultKind::kPort) {
      timed_.push_back(rule);
      continue;
    }
    seed = mix(seed);
    auto made = std::make_unique<Rule>();
    made->what = rule;
    made->seed = seed;
    rules_.push_back(std::move(made));
  }
}

std::unique_ptr<Faults> Faults::parse(std::string_view text) {
  return text.empty() ? nullptr : std::make_unique<Faults>(parse_faults(text));
}

uint32_t Faults::of_op(OpKind kind) {
  switch (kind) {
    case OpKind::kSend:
      return kFaultSend;
    case OpKind::kWriteImm:
      // It also uses up a receive.
      return kFaultSend | kFaultWrite;
    case OpKind::kWrite:
    case OpKind::kWriteNotify:
      return kFaultWrite;
    case OpKind::kRead:
      return kFaultRead;
    case OpKind::kAtomic:
    case OpKind::kWriteAtomic:
      return kFaultAtomic;
    default:
      return 0;
  }
}

Faults::Group Faults::group_of(FaultKind kind) {
  if (kind == FaultKind::kQueue) return kOfQueues;
  return kind == FaultKind::kReceive ? kOfReceivers : kOfRequests;
}

// Relaxed: the numbers only have to differ.
bool Faults::Rule::hit() {
  const uint64_t number = candidates.fetch_add(1, std::memory_order_relaxed);
  if (number < what.after || (number - what.after) % what.every != 0) return false;
  if (mix(seed ^ mix(number)) % 1'000'000 >= what.millionths) return false;
  return hits.fetch_add(1, std::memory_order_relaxed) < what.count;
}

// The first rule that hits; the later rules do not count this candidate.
std::optional<Fault> Faults::find(uint32_t op, Group group) {
  for (const auto& rule : rules_) {
    if (group_of(rule->what.kind) != group || (rule->what.ops & op) == 0) continue;
    if (rule->hit()) return Fault{rule->what.kind, rule->what.ms};
  }
  return std::nullopt;
}

}  // namespace urma
