// SPDX-License-Identifier: MIT
#include "tools/admin/names.h"

#include <iterator>

#include "third_party/fmt/format.h"
#include "urma_types.h"

namespace admin {

const char* kind_name(uint32_t kind) {
  static constexpr const char* kNames[] = {"jfc", "jfs", "jfr", "jetty"};
  return kind < std::size(kNames) ? kNames[kind] : "unknown";
}

std::string mode_name(uint32_t mode) {
  switch (mode) {
    case URMA_TM_RM:
      return "RM";
    case URMA_TM_RC:
      return "RC";
    case URMA_TM_UM:
      return "UM";
    default:
      return "-";
  }
}

std::string status_name(size_t status) {
  static constexpr const char* kNames[] = {"SUCCESS",
                                           "UNSUPPORTED_OPCODE_ERR",
                                           "LOC_LEN_ERR",
                                           "LOC_OPERATION_ERR",
                                           "LOC_ACCESS_ERR",
                                           "REM_RESP_LEN_ERR",
                                           "REM_UNSUPPORTED_REQ_ERR",
                                           "REM_OPERATION_ERR",
                                           "REM_ACCESS_ABORT_ERR",
                                           "ACK_TIMEOUT_ERR",
                                           "RNR_RETRY_CNT_EXC_ERR",
                                           "WR_FLUSH_ERR",
                                           "WR_SUSPEND_DONE",
                                           "WR_FLUSH_ERR_DONE",
                                           "WR_UNHANDLED",
                                           "LOC_DATA_POISON",
                                           "REM_DATA_POISON"};
  return status < std::size(kNames) ? kNames[status] : urma::format("STATUS_{}", status);
}

}  // namespace admin
