// SPDX-License-Identifier: MIT
#include "tools/admin/show_objects.h"

#include <string>

#include "third_party/fmt/format.h"
#include "tools/admin/library.h"
#include "tools/admin/show_connections.h"
#include "tools/admin/show_devices.h"
#include "tools/admin/show_queues.h"
#include "tools/admin/show_segments.h"
#include "tools/admin/text.h"

namespace admin {
namespace {

// Whether the user's `kind` includes this queue.
bool is_of_kind(const urma_ext_queue_t& queue, const std::string& kind) {
  switch (queue.kind) {
    case URMA_EXT_QUEUE_JFC:
      return kind == "jfc";
    case URMA_EXT_QUEUE_JFS:
      return kind == "jfs";
    case URMA_EXT_QUEUE_JFR:
      return kind == "jfr";
    case URMA_EXT_QUEUE_JETTY:
      return kind == "jetty";
  }
  return false;
}

std::string missing_text(const Options& options) {
  if (!options.id) return "";
  return urma::format("no process of this user has a {} {} on {}", options.what, *options.id,
                      options.device);
}

Report show_segments_of_device(const Options& options) {
  return segments_report(
      options,
      [&options](const urma_ext_segment_t& segment) {
        return printable(segment.device, sizeof segment.device) == options.device &&
               (!options.id || segment.token_id == *options.id);
      },
      missing_text(options));
}

Report show_queues_of_device(const Options& options) {
  return queues_report(
      options,
      [&options](const urma_ext_queue_t& queue) {
        return printable(queue.device, sizeof queue.device) == options.device &&
               is_of_kind(queue, options.what) && (!options.id || queue.id == *options.id);
      },
      missing_text(options));
}

// Transport channels of our devices have no state, so none exists.
Report show_channels(const Options& options) {
  if (options.id) throw Failure(missing_text(options));
  const std::string note = urma::format(
      "{} has no transport channels to show: queues reach each other directly; see show queues",
      options.device);
  return {{{"device", options.device}, {options.what, Json::array()}, {"note", note}}, note + '\n'};
}

}  // namespace

Report show_objects(const Options& options) {
  if (options.what.empty()) {
    Report report = show_devices(options);
    const Library library;
    // Only these providers have any: other processes need not be asked.
    const std::string provider = library.device(options.device).further.provider;
    const bool any = provider == "tcp" || provider == "bond";
    if (any) add_streams(options, &report);
    return report;
  }
  const Library library;
  library.device(options.device);
  if (options.what == "tp" || options.what == "tpreuse") return show_channels(options);
  if (options.what == "rc") return show_connections(options, missing_text(options));
  if (options.what == "seg") return show_segments_of_device(options);
  if (options.what == "jetty_group") {
    throw Failure(
        "the library does not tell other processes of jetty groups; their members are listed: "
        "urma_admin show dev D jetty");
  }
  return show_queues_of_device(options);
}

}  // namespace admin
