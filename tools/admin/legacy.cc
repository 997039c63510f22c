// SPDX-License-Identifier: MIT
#include "tools/admin/legacy.h"

#include <span>

#include "third_party/fmt/format.h"
#include "tools/admin/show_objects.h"
#include "tools/admin/show_queues.h"
#include "tools/admin/text.h"

namespace admin {
namespace {

// The kinds of object that --resource_type takes. The numbers are UMDK's.
struct ResourceType {
  uint64_t number;
  const char* kind;
};
constexpr ResourceType kStatsTypes[] = {{4, "jfs"}, {5, "jfr"}, {6, "jetty"}, {8, "dev"}};
constexpr ResourceType kResourceTypes[] = {{5, "jfs"}, {6, "jfr"}, {7, "jetty"}, {8, "jetty_group"},
                                           {9, "jfc"}, {10, "rc"}, {11, "seg"}};

std::string kind_of(const Options& options, std::span<const ResourceType> types) {
  if (options.device.empty()) throw UsageError("--dev is missing");
  std::vector<std::string> allowed;
  for (const auto& type : types) {
    if (options.resource_type == type.number) return type.kind;
    allowed.push_back(urma::format("{} ({})", type.number, type.kind));
  }
  if (!options.resource_type) {
    throw UsageError(
        urma::format("--resource_type is missing; it takes {}", joined(allowed, ", ")));
  }
  throw UsageError(urma::format("--resource_type '{}' is not one of {}", *options.resource_type,
                                joined(allowed, ", ")));
}

Report show_kind(Options options, const std::string& kind, std::optional<uint64_t> id) {
  options.what = kind;
  options.id = id;
  return show_objects(options);
}

}  // namespace

Report show_stats(const Options& options) {
  const std::string kind = kind_of(options, kStatsTypes);
  if (kind == "dev") return show_queues(options);
  return show_kind(options, kind, options.key);
}

Report show_resource(const Options& options) {
  const std::string kind = kind_of(options, kResourceTypes);
  if (!options.key) throw UsageError("--key is missing");
  return show_kind(options, kind, options.key);
}

Report list_resources(const Options& options) {
  return show_kind(options, kind_of(options, kResourceTypes), std::nullopt);
}

}  // namespace admin
