// SPDX-License-Identifier: MIT
//
// The boundary between C callers and C++ code. No exception passes it; each becomes its status, one
// log line, and, for calls that return a pointer, NULL with errno set.
#ifndef URMA_BASE_GUARD_H_
#define URMA_BASE_GUARD_H_

#include <cerrno>
#include <type_traits>

#include "urma/base/log.h"

namespace urma {

// Logs the exception in flight and returns its status: Error's own, URMA_ENOMEM for bad_alloc, else
// URMA_FAIL. To be called from a catch block only.
int status_of_current_exception(const LogSite& site);

template <typename Result>
Result failure_result(int status) {
  if constexpr (std::is_void_v<Result>) {
    return;
  } else if constexpr (std::is_pointer_v<Result>) {
    errno = status == URMA_FAIL ? EIO : status;
    return nullptr;
  } else {
    return static_cast<Result>(status);
  }
}

// Runs body; see the head of this file for what happens to an exception.
template <typename Body>
auto guarded(const LogSite& site, Body&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    return failure_result<decltype(body())>(status_of_current_exception(site));
  }
}

// The same for calls that return a count: a failure is minus the status.
template <typename Body>
int guarded_count(const LogSite& site, Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return -status_of_current_exception(site);
  }
}

}  // namespace urma

#endif  // URMA_BASE_GUARD_H_
