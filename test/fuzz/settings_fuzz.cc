// SPDX-License-Identifier: MIT
//
// The environment: every setting, and the grammar of URMA_FAULT.
#include <cstdlib>
#include <string>

#include "jetty/faults.h"
#include "test/fuzz/bytes.h"
#include "urma/base/error.h"
#include "urma/core/process/settings.h"

namespace {

using urma::setting_rows;
using urma::SettingRow;
using urma::SettingType;
using urma_fuzz::Bytes;
using urma_fuzz::require;

template <typename Call>
bool throws(const Call& call) {
  try {
    call();
    return false;
  } catch (const urma::Error&) {
    return true;
  }
}

void check(const urma::core::EnvSettings& settings, const SettingRow& row) {
  const std::string value = settings.text(row.name);
  const bool number = !throws([&] { static_cast<void>(settings.number(row.name)); });
  if (row.type == SettingType::kNumber) require(number, "a number's value is a number");
  if (row.type == SettingType::kBool) {
    require(value == "0" || value == "1", "a switch is off or on");
  }
  if (row.type == SettingType::kChoice) {
    require(("|" + std::string(row.range) + "|").find("|" + value + "|") != std::string::npos,
            "a choice is one of those there are");
  }
  static_cast<void>(settings.flag(row.name));
}

void load(Bytes* in) {
  const auto rows = setting_rows();
  while (!in->empty()) {
    const SettingRow& row = rows[in->below(static_cast<uint32_t>(rows.size()))];
    ::setenv(row.name, in->text('\n').c_str(), 1);
  }
  urma::core::EnvSettings settings;
  require(settings.load().size() <= rows.size(), "at most one complaint for each value");
  for (const SettingRow& row : rows) check(settings, row);
  require(settings.report().size() == rows.size(), "each setting is reported");
  for (const SettingRow& row : rows) ::unsetenv(row.name);
}

// An accepted plan counts correctly: no rule hits more often than it may.
void plan(Bytes* in) {
  const std::string text = in->text('\n');
  urma::FaultPlan plan;
  if (throws([&] { plan = urma::parse_faults(text); })) return;
  for (const urma::FaultRule& rule : plan.rules) {
    require(rule.every != 0 && rule.millionths != 0 && rule.millionths <= 1'000'000,
            "a rule's numbers are in their ranges");
  }
  const auto faults = urma::Faults::parse(text);
  require((faults == nullptr) == text.empty(), "exactly an empty text gives no plan");
  if (faults == nullptr) return;
  while (!in->empty()) {
    const auto kind = static_cast<urma::OpKind>(in->below(4));
    static_cast<void>(faults->of_request(kind));
    static_cast<void>(faults->fails_queue(kind));
    static_cast<void>(faults->fails_receiver());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes in(data, size);
  in.chance(128) ? load(&in) : plan(&in);
  return 0;
}
