// SPDX-License-Identifier: MIT
//
// The library's settings and loaded providers: in this process, or in another one.
#ifndef TOOLS_ADMIN_SHOW_SETTINGS_H_
#define TOOLS_ADMIN_SHOW_SETTINGS_H_

#include "tools/admin/options.h"
#include "tools/admin/report.h"

namespace admin {

Report show_config(const Options& options);
Report show_providers(const Options& options);

}  // namespace admin

#endif  // TOOLS_ADMIN_SHOW_SETTINGS_H_
