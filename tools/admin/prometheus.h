// SPDX-License-Identifier: MIT
//
// The counters of queues in the text format that Prometheus reads, for a node exporter's folder of
// text files.
#ifndef TOOLS_ADMIN_PROMETHEUS_H_
#define TOOLS_ADMIN_PROMETHEUS_H_

#include <string>

#include "tools/admin/queue_samples.h"

namespace admin {

// Totals since each queue was made. Processes that do not answer are left out, and counted.
std::string prometheus_text(const QueueAnswers& answers);

}  // namespace admin

#endif  // TOOLS_ADMIN_PROMETHEUS_H_
