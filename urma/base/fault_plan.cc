// SPDX-License-Identifier: MIT
#include "urma/base/fault_plan.h"

#include <charconv>
#include <string>

#include "urma/base/error.h"

namespace urma {
namespace {

enum Option : uint32_t {
  kOp = 1,
  kChance = 2,
  kAfter = 4,
  kEvery = 8,
  kCount = 16,
  kMs = 32,
  kAt = 64,
  kFor = 128,
  kIndex = 256,
};
constexpr uint32_t kWhich = kChance | kAfter | kEvery | kCount;

struct KindRow {
  std::string_view name;
  FaultKind kind;
  uint32_t options;
  uint32_t needed;
  FaultRule fallback;
};

constexpr KindRow kKinds[] = {
    {"delay", FaultKind::kDelay, kWhich | kOp | kMs, kMs, {FaultKind::kDelay}},
    {"drop", FaultKind::kDrop, kWhich | kOp, 0, {FaultKind::kDrop}},
    {"rnr", FaultKind::kRnr, kWhich, 0, {FaultKind::kRnr, kFaultSend}},
    {"token", FaultKind::kToken, kWhich | kOp, 0, {FaultKind::kToken}},
    {"jfc", FaultKind::kJfc, kWhich | kOp, 0, {FaultKind::kJfc}},
    {"queue", FaultKind::kQueue, kWhich | kOp, 0, {FaultKind::kQueue}},
    {"jfr", FaultKind::kReceive, kWhich, 0, {FaultKind::kReceive}},
    {"port", FaultKind::kPort, kAt | kFor, 0, {FaultKind::kPort}},
    {"eid", FaultKind::kEid, kAt | kIndex, 0, {FaultKind::kEid}},
    {"fatal", FaultKind::kFatal, kAt, 0, {FaultKind::kFatal}},
};

struct OptionRow {
  std::string_view name;
  Option option;
  uint64_t min;
  uint64_t max;
};

constexpr uint64_t kDay = 86'400'000;
constexpr OptionRow kOptions[] = {
    {"after", kAfter, 0, UINT64_MAX},
    {"every", kEvery, 1, UINT64_MAX},
    {"count", kCount, 1, UINT64_MAX},
    {"ms", kMs, 1, kDay},
    {"at", kAt, 0, kDay},
    {"for", kFor, 1, kDay},
    {"index", kIndex, 0, 1023},
};

// Removes and returns the next part of the text, up to the separator.
std::string_view take(std::string_view* text, char separator) {
  const size_t end = text->find(separator);
  const std::string_view part = text->substr(0, end);
  *text = end == std::string_view::npos ? std::string_view() : text->substr(end + 1);
  return part;
}

uint64_t number(std::string_view name, std::string_view text, uint64_t min, uint64_t max) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    fail(URMA_EINVAL, "{}={}: not a number from {} to {}", name, text, min, max);
  }
  return value;
}

// A percentage with at most 4 decimals.
uint32_t millionths(std::string_view text) {
  constexpr uint64_t kWhole = 100;
  std::string_view rest = text;
  const bool has_point = text.find('.') != std::string_view::npos;
  const uint64_t whole = number("p", take(&rest, '.'), 0, kWhole);
  std::string digits(rest);
  if (has_point && (digits.empty() || digits.size() > 4)) {
    fail(URMA_EINVAL, "p={}: use 1 to 4 decimals", text);
  }
  digits.resize(4, '0');
  const uint64_t value = whole * 10'000 + number("p", digits, 0, 9'999);
  if (value == 0 || value > 1'000'000) {
    fail(URMA_EINVAL, "p={}: not a percentage above 0 and up to 100", text);
  }
  return static_cast<uint32_t>(value);
}

uint32_t ops(std::string_view text) {
  if (text == "send") return kFaultSend;
  if (text == "write") return kFaultWrite;
  if (text == "read") return kFaultRead;
  if (text == "atomic") return kFaultAtomic;
  if (text == "any") return kFaultAny;
  fail(URMA_EINVAL, "op={}: use send, write, read, atomic or any", text);
}

void store(Option option, uint64_t value, FaultRule* rule) {
  switch (option) {
    case kAfter:
      rule->after = value;
      break;
    case kEvery:
      rule->every = value;
      break;
    case kCount:
      rule->count = value;
      break;
    case kMs:
      rule->ms = value;
      break;
    case kAt:
      rule->at_ms = value;
      break;
    case kFor:
      rule->for_ms = value;
      break;
    default:
      rule->index = static_cast<uint32_t>(value);
  }
}

// Returns which option that was.
uint32_t read_option(const KindRow& kind, std::string_view text, FaultRule* rule) {
  std::string_view value = text;
  const std::string_view name = take(&value, '=');
  uint32_t option = 0;
  if (name == "p") {
    option = kChance;
  } else if (name == "op") {
    option = kOp;
  }
  for (const OptionRow& row : kOptions) {
    if (row.name == name) option = row.option;
  }
  if ((kind.options & option) == 0) fail(URMA_EINVAL, "{} has no option {}", kind.name, name);
  if (option == kChance) {
    rule->millionths = millionths(value);
  } else if (option == kOp) {
    rule->ops = ops(value);
  }
  for (const OptionRow& row : kOptions) {
    if (row.option == option) store(row.option, number(name, value, row.min, row.max), rule);
  }
  return option;
}

FaultRule read_rule(std::string_view text) {
  const std::string_view name = take(&text, ':');
  for (const KindRow& kind : kKinds) {
    if (kind.name != name) continue;
    FaultRule rule = kind.fallback;
    uint32_t seen = 0;
    while (!text.empty()) seen |= read_option(kind, take(&text, ','), &rule);
    if ((seen & kind.needed) != kind.needed) fail(URMA_EINVAL, "{} needs ms=", name);
    return rule;
  }
  fail(URMA_EINVAL, "{}: use seed=N, delay, drop, rnr, token, jfc, queue, jfr, port, eid or fatal",
       name);
}

}  // namespace

FaultPlan parse_faults(std::string_view text) {
  constexpr std::string_view kSeed = "seed=";
  FaultPlan plan;
  while (!text.empty()) {
    const std::string_view item = take(&text, ';');
    if (item.substr(0, kSeed.size()) == kSeed) {
      plan.seed = number("seed", item.substr(kSeed.size()), 0, UINT64_MAX);
    } else {
      plan.rules.push_back(read_rule(item));
    }
  }
  return plan;
}

}  // namespace urma
