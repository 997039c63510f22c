/* SPDX-License-Identifier: MIT */

// Errors of URMA as libfabric's codes, and the log line of each.

#ifndef OFI_LOG_H
#define OFI_LOG_H

#include <rdma/providers/fi_log.h>

#include "urma_types.h"

namespace urma_fi {

extern struct fi_provider provider;

// The negative code of libfabric for a status of URMA that is not URMA_SUCCESS.
int error_of_status(urma_status_t status);

// The same for a call that returned NULL, from errno.
int error_of_errno();

// The positive code of libfabric for a request that failed.
int error_of_completion(urma_cr_status_t status, bool receive, bool one_sided);

// Text for what URMA calls `status`, as a provider's error number.
const char* completion_text(int status);

}  // namespace urma_fi

#define URMA_FI_WARN(subsystem, ...) FI_WARN(&urma_fi::provider, subsystem, __VA_ARGS__)

#endif  // OFI_LOG_H
