// SPDX-License-Identifier: MIT
//
// Lines about requests that end with an error.
#ifndef JETTY_FAILURES_H_
#define JETTY_FAILURES_H_

#include "urma/base/log.h"

namespace urma {

// Whether the log level shows why a request failed.
inline bool failures_are_read() { return log_enabled(URMA_VLOG_LEVEL_INFO); }

}  // namespace urma

// Logs why a request failed: a line for each at level debug, else rate-limited lines.
#define URMA_LOG_FAILED(...)                          \
  do {                                                \
    if (::urma::log_enabled(URMA_VLOG_LEVEL_DEBUG)) { \
      URMA_LOG(DEBUG, __VA_ARGS__);                   \
    } else {                                          \
      URMA_LOG_LIMITED(INFO, __VA_ARGS__);            \
    }                                                 \
  } while (0)

#endif  // JETTY_FAILURES_H_
