// SPDX-License-Identifier: MIT
#include "tools/perftest/handles.h"

#include <array>
#include <cerrno>
#include <system_error>

namespace perftest {
namespace {

std::string error_text(int number) { return std::generic_category().message(number); }

constexpr std::array kCompletionNames = {
    "URMA_CR_SUCCESS",
    "URMA_CR_UNSUPPORTED_OPCODE_ERR",
    "URMA_CR_LOC_LEN_ERR",
    "URMA_CR_LOC_OPERATION_ERR",
    "URMA_CR_LOC_ACCESS_ERR",
    "URMA_CR_REM_RESP_LEN_ERR",
    "URMA_CR_REM_UNSUPPORTED_REQ_ERR",
    "URMA_CR_REM_OPERATION_ERR",
    "URMA_CR_REM_ACCESS_ABORT_ERR",
    "URMA_CR_ACK_TIMEOUT_ERR",
    "URMA_CR_RNR_RETRY_CNT_EXC_ERR",
    "URMA_CR_WR_FLUSH_ERR",
    "URMA_CR_WR_SUSPEND_DONE",
    "URMA_CR_WR_FLUSH_ERR_DONE",
    "URMA_CR_WR_UNHANDLED",
    "URMA_CR_LOC_DATA_POISON",
    "URMA_CR_REM_DATA_POISON",
};

}  // namespace

void fail_errno(const std::string& what) {
  const int number = errno;
  throw RunError(what + " failed" + (number == 0 ? "" : ": " + error_text(number)));
}

void ok(urma_status_t status, const char* what) {
  if (status == URMA_SUCCESS) return;
  const std::string text = status == URMA_FAIL ? "URMA_FAIL" : error_text(status);
  throw RunError(std::string(what) + " failed: " + text);
}

std::string completion_text(urma_cr_status_t status) {
  const auto index = static_cast<size_t>(status);
  const std::string name = index < kCompletionNames.size() ? kCompletionNames[index] : "unknown";
  return name + " (" + std::to_string(index) + ")";
}

}  // namespace perftest
