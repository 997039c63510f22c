// SPDX-License-Identifier: MIT
#include "tools/admin/show_segments.h"

#include <algorithm>

#include "third_party/fmt/format.h"
#include "tools/admin/processes.h"
#include "tools/admin/text.h"

namespace admin {
namespace {

const char* path_name(urma_ext_path_t path) {
  static constexpr const char* kNames[] = {"mapped", "copied", "staged", "device"};
  return static_cast<size_t>(path) < std::size(kNames) ? kNames[path] : "unknown";
}

// The names in urma_ext_reason_t, for programs that read the JSON.
const char* reason_name(urma_ext_reason_t reason) {
  static constexpr const char* kNames[] = {
      "NONE",        "NOT_IMPORTED", "OFF",    "RAGGED",    "NO_FREEZE", "FILE",    "SHARED",
      "HUGETLB",     "PINNED",       "SEALED", "PROTECTED", "WIPED",     "WATCHED", "LIMIT",
      "OTHER_TOKEN", "STACK",        "KERNEL", "UNMAPPED",  "PART",      "PEER",    "ENDED"};
  return static_cast<size_t>(reason) < std::size(kNames) ? kNames[reason] : "UNKNOWN";
}

std::string why(urma_ext_reason_t reason) {
  return reason == URMA_EXT_REASON_NONE ? "" : urma_ext_reason_text(reason);
}

std::vector<std::string> access_names(uint32_t access) {
  return bit_names(access, [](uint8_t bit) {
    static constexpr const char* kNames[] = {"LOCAL_ONLY", "READ", "WRITE", "ATOMIC"};
    return bit < std::size(kNames) ? kNames[bit] : "UNKNOWN";
  });
}

std::string device_of(const urma_ext_segment_t& segment) {
  return printable(segment.device, sizeof segment.device);
}

// Pages left shared by a segment that is gone. They belong to no device any more.
bool has_ended(const urma_ext_segment_t& segment) {
  return segment.part.reason == URMA_EXT_REASON_ENDED;
}

const char* state_name(const urma_ext_segment_t& segment) {
  if (has_ended(segment)) return "ended";
  return segment.imported != 0 ? "imported" : "registered";
}

Json segment_json(const urma_ext_segment_t& segment) {
  return {{"device", device_of(segment)},
          {"handle", segment.handle},
          {"imported", segment.imported != 0},
          {"ended", has_ended(segment)},
          {"va", segment.va},
          {"len", segment.len},
          {"token_id", segment.token_id},
          {"access", access_names(segment.access)},
          {"parts", Json::array()}};
}

Json part_json(const urma_ext_part_t& part) {
  return {{"va", part.va},
          {"len", part.len},
          {"path", path_name(part.path)},
          {"reason", reason_name(part.reason)},
          {"reason_text", why(part.reason)}};
}

// A row for each part; values common to the segment are in its first row.
std::vector<std::string> part_row(const urma_ext_segment_t& segment, bool first) {
  std::vector<std::string> row(6);
  if (first) {
    row = {has_ended(segment) ? "-" : device_of(segment),
           state_name(segment),
           urma::format("{:#x}", segment.va),
           urma::format("{}", segment.len),
           urma::format("{}", segment.token_id),
           segment.access == 0 ? "-" : joined(access_names(segment.access), "|")};
  }
  const auto& part = segment.part;
  row.insert(row.end(), {urma::format("{:#x}", part.va), urma::format("{}", part.len),
                         path_name(part.path), why(part.reason)});
  return row;
}

std::string describe(const std::vector<urma_ext_segment_t>& entries, Json* list) {
  Table table(
      {"device", "segment", "va", "len", "token_id", "access", "part", "part_len", "way", "why"});
  for (const auto& entry : entries) {
    const bool first = list->empty() || list->back()["handle"] != entry.handle;
    if (first) list->push_back(segment_json(entry));
    list->back()["parts"].push_back(part_json(entry.part));
    table.add(part_row(entry, first));
  }
  return table.text();
}

}  // namespace

Report segments_report(const Options& options, const SegmentFilter& filter,
                       const std::string& missing) {
  auto answers = ask_processes(options, urma_ext_query_segments_of);
  bool none = true;
  for (auto& answer : answers) {
    std::erase_if(answer.entries, std::not_fn(filter));
    none = none && answer.entries.empty();
  }
  if (none && !missing.empty()) throw Failure(missing);
  return report_of(answers, "segments", describe);
}

Report show_segments(const Options& options) {
  const Library library;
  if (!options.device.empty()) library.device(options.device);
  return segments_report(
      options,
      [&options](const urma_ext_segment_t& segment) {
        return options.device.empty() || device_of(segment) == options.device;
      },
      "");
}

}  // namespace admin
