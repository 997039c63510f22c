// SPDX-License-Identifier: MIT
//
// Commands that change the kernel's state where there is UnifiedBus hardware. Here there is no
// kernel module: each command checks its arguments, succeeds if nothing has to change, and
// otherwise throws Failure with the reason and an alternative.
#ifndef TOOLS_ADMIN_REFUSED_H_
#define TOOLS_ADMIN_REFUSED_H_

#include "tools/admin/options.h"
#include "tools/admin/report.h"

namespace admin {

Report eid_add(const Options& options);
Report eid_delete(const Options& options);
Report eid_set(const Options& options);
Report set_eid_mode(const Options& options);

Report device_set(const Options& options);
Report device_expose(const Options& options);
Report set_device_ns(const Options& options);

Report main_eid_change(const Options& options);

Report system_show(const Options& options);
Report system_set(const Options& options);
Report set_ns_mode(const Options& options);

Report aggregate_add(const Options& options);
Report aggregate_change(const Options& options);

}  // namespace admin

#endif  // TOOLS_ADMIN_REFUSED_H_
