// SPDX-License-Identifier: MIT
//
// Activity of the queues of running processes, updated repeatedly.
#ifndef TOOLS_ADMIN_SHOW_TOP_H_
#define TOOLS_ADMIN_SHOW_TOP_H_

#include "tools/admin/options.h"
#include "tools/admin/report.h"

namespace admin {

// The busiest queues first. On a terminal each report replaces the one before, and fits the screen.
Report show_top(const Options& options);

}  // namespace admin

#endif  // TOOLS_ADMIN_SHOW_TOP_H_
