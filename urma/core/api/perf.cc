// SPDX-License-Identifier: MIT
//
// The calls of urma_perf.h.
#include "urma/core/process/perf.h"

#include <cstring>

#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma_perf.h"

using namespace urma::core;  // NOLINT(build/namespaces)

URMA_EXPORT urma_status_t urma_start_perf() {
  return entry(__func__, [](const char* call) -> urma_status_t {
    if (!open_gate(call)) return URMA_EINVAL;
    perf::start();
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_stop_perf() {
  return entry(__func__, [](const char* call) -> urma_status_t {
    if (!open_gate(call)) return URMA_EINVAL;
    perf::stop();
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_get_perf_info(char* perf_buf, uint32_t* length) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call) || !given(call, "perf_buf", perf_buf) || !given(call, "length", length)) {
      return URMA_EINVAL;
    }
    const std::string table = perf::table();
    if (*length < table.size() + 1) {
      URMA_LOG_LIMITED(ERR,
                       "urma_get_perf_info: length {} is too small for the table; pass {} or "
                       "more",
                       *length, table.size() + 1);
      return URMA_EINVAL;
    }
    std::memcpy(perf_buf, table.c_str(), table.size() + 1);
    *length = static_cast<uint32_t>(table.size() + 1);
    return URMA_SUCCESS;
  });
}
