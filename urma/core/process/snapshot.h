// SPDX-License-Identifier: MIT
//
// The objects of this process, as the calls of urma_ext.h list them: copies of this moment. From
// any thread. Throw Error(URMA_ENOMEM) if the list would exceed kMaxInspectBytes.
#ifndef URMA_CORE_PROCESS_SNAPSHOT_H_
#define URMA_CORE_PROCESS_SNAPSHOT_H_

#include <vector>

#include "urma_ext.h"

namespace urma::core {

std::vector<urma_ext_queue_t> queues_now();
std::vector<urma_ext_segment_t> segments_now();
std::vector<urma_ext_connection_t> connections_now();
std::vector<urma_ext_setting_t> settings_now();
std::vector<urma_ext_provider_t> providers_now();

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_SNAPSHOT_H_
