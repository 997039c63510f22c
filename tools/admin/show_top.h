// SPDX-License-Identifier: MIT
//
// What the queues of running processes are doing, again and again.
#ifndef TOOLS_ADMIN_SHOW_TOP_H_
#define TOOLS_ADMIN_SHOW_TOP_H_

#include "tools/admin/options.h"
#include "tools/admin/report.h"

namespace admin {

// The busiest queues first. On a terminal each report takes the place of the one before, and as
// many lines as there are.
Report show_top(const Options& options);

}  // namespace admin

#endif  // TOOLS_ADMIN_SHOW_TOP_H_
