// SPDX-License-Identifier: MIT
//
// Words of older scripts, with the object given by options instead of words. Those for EIDs,
// namespaces and devices are in refused.h.
#ifndef TOOLS_ADMIN_LEGACY_H_
#define TOOLS_ADMIN_LEGACY_H_

#include "tools/admin/options.h"
#include "tools/admin/report.h"

namespace admin {

Report show_stats(const Options& options);
Report show_resource(const Options& options);
Report list_resources(const Options& options);

}  // namespace admin

#endif  // TOOLS_ADMIN_LEGACY_H_
