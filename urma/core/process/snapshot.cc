// SPDX-License-Identifier: MIT
#include "urma/core/process/snapshot.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "urma/core/process/core.h"
#include "urma/core/process/inspect_protocol.h"
#include "urma/core/process/settings.h"

namespace urma::core {
namespace {

template <typename Record>
constexpr size_t kMost = kMaxInspectBytes / sizeof(Record);

// Disjoint from the handles of providers.
constexpr uint64_t kEnded = 1ULL << 62;

urma_ext_segment_t describe(const PageTable::LeftPages& pages) {
  urma_ext_segment_t described = {};
  described.handle = kEnded | pages.va;
  described.va = pages.va;
  described.len = pages.len;
  described.token_id = pages.audience.token_id;
  described.access = pages.audience.access;
  described.part_count = 1;
  described.part = {pages.va, pages.len, URMA_EXT_PATH_MAPPED, URMA_EXT_REASON_ENDED};
  return described;
}

}  // namespace

std::vector<urma_ext_queue_t> queues_now() {
  std::vector<urma_ext_queue_t> queues;
  for (const auto* inspector : device_table().inspectors()) {
    inspector->list_queues(kMost<urma_ext_queue_t>, &queues);
  }
  std::sort(queues.begin(), queues.end(), [](const auto& a, const auto& b) {
    return std::tuple(std::string_view(a.device), a.kind, a.id) <
           std::tuple(std::string_view(b.device), b.kind, b.id);
  });
  return queues;
}

std::vector<urma_ext_segment_t> segments_now() {
  std::vector<urma_ext_segment_t> segments;
  for (const auto* inspector : device_table().inspectors()) {
    inspector->list_segments(kMost<urma_ext_segment_t>, &segments);
  }
  for (const auto& pages : shared_pages().left_pages()) segments.push_back(describe(pages));
  return segments;
}

std::vector<urma_ext_connection_t> connections_now() {
  std::vector<urma_ext_connection_t> connections;
  for (const auto* inspector : device_table().inspectors()) {
    inspector->list_connections(kMost<urma_ext_connection_t>, &connections);
  }
  return connections;
}

std::vector<urma_ext_setting_t> settings_now() { return settings().report(); }

std::vector<urma_ext_provider_t> providers_now() {
  auto providers = device_table().providers();
  const auto skipped = loader().skipped();
  providers.insert(providers.end(), skipped.begin(), skipped.end());
  return providers;
}

}  // namespace urma::core
