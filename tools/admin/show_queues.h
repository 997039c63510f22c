// SPDX-License-Identifier: MIT
//
// The queues of running processes, and their counters.
#ifndef TOOLS_ADMIN_SHOW_QUEUES_H_
#define TOOLS_ADMIN_SHOW_QUEUES_H_

#include <functional>
#include <string>

#include "tools/admin/options.h"
#include "tools/admin/report.h"
#include "urma_ext.h"

namespace admin {

// Once; with --watch repeatedly, with rates since the last time.
Report show_queues(const Options& options);

using QueueFilter = std::function<bool(const urma_ext_queue_t&)>;
// Queues that pass the filter. If there is none, throws Failure with `missing`, what was looked
// for, unless that is empty.
Report queues_report(const Options& options, const QueueFilter& filter, const std::string& missing);

}  // namespace admin

#endif  // TOOLS_ADMIN_SHOW_QUEUES_H_
