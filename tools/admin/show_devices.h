// SPDX-License-Identifier: MIT
//
// The devices, and what they can do.
#ifndef TOOLS_ADMIN_SHOW_DEVICES_H_
#define TOOLS_ADMIN_SHOW_DEVICES_H_

#include "tools/admin/options.h"
#include "tools/admin/report.h"

namespace admin {

Report show_devices(const Options& options);
Report show_topology(const Options& options);

}  // namespace admin

#endif  // TOOLS_ADMIN_SHOW_DEVICES_H_
