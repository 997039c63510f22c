// SPDX-License-Identifier: MIT
//
// The objects that processes have on one device, by kind.
#ifndef TOOLS_ADMIN_SHOW_OBJECTS_H_
#define TOOLS_ADMIN_SHOW_OBJECTS_H_

#include "tools/admin/options.h"
#include "tools/admin/report.h"

namespace admin {

// options.what names the kind, options.id one of them.
Report show_objects(const Options& options);

}  // namespace admin

#endif  // TOOLS_ADMIN_SHOW_OBJECTS_H_
