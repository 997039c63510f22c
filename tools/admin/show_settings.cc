// SPDX-License-Identifier: MIT
#include "tools/admin/show_settings.h"

#include <optional>

#include "third_party/fmt/format.h"
#include "tools/admin/processes.h"
#include "tools/admin/text.h"

namespace admin {
namespace {

// The answer of the process that the options name, else of this one.
template <typename Entry>
std::vector<Entry> ask_one(const Options& options,
                           urma_status_t (*query)(uint32_t, Entry*, uint32_t*)) {
  const uint32_t pid = options.pid ? asked_processes(options).front().pid : 0;
  return fetch_all<Entry>(
      [=](Entry* entries, uint32_t* count) { return query(pid, entries, count); }, pid);
}

const char* origin_name(urma_ext_origin_t origin) {
  switch (origin) {
    case URMA_EXT_ORIGIN_DEFAULT:
      return "default";
    case URMA_EXT_ORIGIN_ENVIRONMENT:
      return "environment";
    case URMA_EXT_ORIGIN_REFUSED:
      return "refused";
    case URMA_EXT_ORIGIN_IGNORED:
      return "ignored";
    case URMA_EXT_ORIGIN_SYSTEM_FILE:
      return "/etc/urma.conf";
    case URMA_EXT_ORIGIN_USER_FILE:
      return "urma.conf of the user";
  }
  return "unknown";
}

std::string origin_text(const urma_ext_setting_t& setting) {
  switch (setting.origin) {
    case URMA_EXT_ORIGIN_REFUSED:
      return urma::format("default: '{}' is not allowed; allowed: {}",
                          printable(setting.given, sizeof setting.given),
                          printable(setting.range, sizeof setting.range));
    case URMA_EXT_ORIGIN_IGNORED:
      return "default: set-user-id programs ignore the variable";
    default:
      return origin_name(setting.origin);
  }
}

Json setting_json(const urma_ext_setting_t& setting) {
  return {{"name", printable(setting.name, sizeof setting.name)},
          {"value", printable(setting.value, sizeof setting.value)},
          {"origin", origin_name(setting.origin)},
          {"given", printable(setting.given, sizeof setting.given)},
          {"default", printable(setting.fallback, sizeof setting.fallback)},
          {"range", printable(setting.range, sizeof setting.range)},
          {"help", printable(setting.help, sizeof setting.help)}};
}

Json provider_json(const urma_ext_provider_t& provider) {
  return {{"name", printable(provider.name, sizeof provider.name)},
          {"loaded", provider.loaded != 0},
          {"devices", provider.devices},
          {"path", printable(provider.path, sizeof provider.path)},
          {"reason", printable(provider.reason, sizeof provider.reason)}};
}

// Starts as far as possible: users ask why a provider was not loaded above all when none was.
class LibraryIfAny {
 public:
  LibraryIfAny() {
    try {
      library_.emplace();
    } catch (const Failure&) {
    }
  }

 private:
  std::optional<Library> library_;
};

}  // namespace

Report show_config(const Options& options) {
  const Library library;
  Report report{{{"settings", Json::array()}}, ""};
  Table table({"variable", "value", "comes from"});
  for (const auto& setting : ask_one(options, urma_ext_query_settings)) {
    report.json["settings"].push_back(setting_json(setting));
    table.add({printable(setting.name, sizeof setting.name),
               printable(setting.value, sizeof setting.value), origin_text(setting)});
  }
  report.text = table.text();
  return report;
}

Report show_providers(const Options& options) {
  const LibraryIfAny library;
  Report report{{{"providers", Json::array()}}, ""};
  Table table({"provider", "loaded", "devices", "path", "why not"});
  for (const auto& provider : ask_one(options, urma_ext_query_providers)) {
    report.json["providers"].push_back(provider_json(provider));
    table.add({printable(provider.name, sizeof provider.name), provider.loaded != 0 ? "yes" : "no",
               urma::format("{}", provider.devices), printable(provider.path, sizeof provider.path),
               printable(provider.reason, sizeof provider.reason)});
  }
  report.text = table.empty() ? "no provider was found\n" : table.text();
  return report;
}

}  // namespace admin
