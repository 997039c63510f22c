// SPDX-License-Identifier: MIT
#include "tools/perftest/handles.h"

#include <cerrno>
#include <system_error>

#include "urma_types_str.h"

namespace perftest {
namespace {

std::string error_text(int number) { return std::generic_category().message(number); }

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
  return std::string(urma_cr_status_to_string(status)) + " (cr_status " + std::to_string(status) +
         ")";
}

}  // namespace perftest
