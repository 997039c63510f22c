// SPDX-License-Identifier: MIT
#ifndef TOOLS_ADMIN_SHOW_CONNECTIONS_H_
#define TOOLS_ADMIN_SHOW_CONNECTIONS_H_

#include <string>

#include "tools/admin/options.h"
#include "tools/admin/report.h"

namespace admin {

// The RC jettys of processes on a device, and the reliable connections of all its queues; with an
// id, those of that queue. If there are none, `missing` is the Failure, unless it is empty.
Report show_connections(const Options& options, const std::string& missing);

// Adds the streams between processes on the device, for all their queues.
void add_streams(const Options& options, Report* report);

}  // namespace admin

#endif  // TOOLS_ADMIN_SHOW_CONNECTIONS_H_
