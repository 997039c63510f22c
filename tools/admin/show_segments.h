// SPDX-License-Identifier: MIT
//
// The segments of running processes: how each part is reached, and why.
#ifndef TOOLS_ADMIN_SHOW_SEGMENTS_H_
#define TOOLS_ADMIN_SHOW_SEGMENTS_H_

#include <functional>
#include <string>

#include "tools/admin/options.h"
#include "tools/admin/report.h"
#include "urma_ext.h"

namespace admin {

Report show_segments(const Options& options);

using SegmentFilter = std::function<bool(const urma_ext_segment_t&)>;
// Segments that pass the filter. If there is none, throws Failure with `missing`, what was looked
// for, unless that is empty.
Report segments_report(const Options& options, const SegmentFilter& filter,
                       const std::string& missing);

}  // namespace admin

#endif  // TOOLS_ADMIN_SHOW_SEGMENTS_H_
