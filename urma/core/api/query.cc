// SPDX-License-Identifier: MIT
//
// Extensions that query one of our providers.
#include <algorithm>

#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/process/core.h"
#include "urma_ext.h"

using namespace urma::core;  // NOLINT(build/namespaces)

URMA_EXPORT urma_status_t urma_ext_query_segment(const urma_target_seg_t* tseg,
                                                 urma_ext_part_t* parts, uint32_t* count) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call, context_of(tseg)) || !given(call, "count", count) ||
        (*count != 0 && !given(call, "parts", parts))) {
      return URMA_EINVAL;
    }
    const auto* inspector = device_table().inspector_of(tseg->urma_ctx->dev);
    if (inspector == nullptr) {
      URMA_LOG_LIMITED(ERR, "{}: device {} does not support this; use a device of shared memory",
                       call, tseg->urma_ctx->dev->name);
      return URMA_EINVAL;
    }
    const std::vector<urma_ext_part_t> found = inspector->parts(*tseg);
    std::copy_n(found.begin(), std::min<size_t>(*count, found.size()), parts);
    *count = static_cast<uint32_t>(found.size());
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_ext_query_device(const urma_device_t* dev,
                                                urma_ext_device_t* device) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!check_device(call, dev) || !given(call, "device", device)) return URMA_EINVAL;
    *device = *device_table().details_of(dev);
    return URMA_SUCCESS;
  });
}
