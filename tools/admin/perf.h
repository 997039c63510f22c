// SPDX-License-Identifier: MIT
//
// Measuring the calls of the data path in running processes.
#ifndef TOOLS_ADMIN_PERF_H_
#define TOOLS_ADMIN_PERF_H_

#include "tools/admin/options.h"
#include "tools/admin/report.h"

namespace admin {

Report perf_start(const Options& options);
Report perf_stop(const Options& options);
Report perf_show(const Options& options);

}  // namespace admin

#endif  // TOOLS_ADMIN_PERF_H_
