// SPDX-License-Identifier: MIT
//
// Logging for the library and its modules. A line is formatted here and handed to the one sink of
// the process, which lives in liburma.so.0 (see host.h).
#ifndef URMA_BASE_LOG_H_
#define URMA_BASE_LOG_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "third_party/fmt/format.h"
#include "urma_types.h"

namespace urma {

// Bytes of a whole line, with the ending zero.
inline constexpr size_t kMaxLogLine = 512;

// Where a line was written; the sink prints it in the documented line format.
struct LogSite {
  const char* file;
  const char* function;
  int line;
};

// True if a line of this level would reach the sink or a callback.
bool log_enabled(urma_vlog_level_t level);
void log_line(urma_vlog_level_t level, const LogSite& site, std::string_view message) noexcept;
// The same for a line that is formatted here, in place and without memory: what does not fit into a
// line of the log is cut off. `dropped`: the lines like it that were left out before.
void log_format(urma_vlog_level_t level, const LogSite& site, uint64_t dropped,
                fmt::string_view format, fmt::format_args args) noexcept;

template <typename... Args>
void log_formatted(urma_vlog_level_t level, const LogSite& site, uint64_t dropped,
                   fmt::format_string<Args...> format, Args&&... args) noexcept {
  log_format(level, site, dropped, format, fmt::make_format_args(args...));
}

// Passes a burst, then one line per interval, and counts those left out. One object for each call
// site of a message that a program can provoke at will.
class LogThrottle {
 public:
  // True if this line may be written; *dropped is then the number left out since the last one.
  bool admit(uint64_t* dropped);

 private:
  std::atomic<uint64_t> window_start_ns_{0};
  std::atomic<uint32_t> in_window_{0};
  std::atomic<uint64_t> dropped_{0};
};

}  // namespace urma

#define URMA_LOG_SITE \
  ::urma::LogSite { __FILE__, __func__, __LINE__ }

// Never throws: a line with an argument for which there is no memory says that instead.
#define URMA_LOG_FORMATTED(level, dropped, ...)                                            \
  do {                                                                                     \
    try {                                                                                  \
      ::urma::log_formatted(URMA_VLOG_LEVEL_##level, URMA_LOG_SITE, dropped, __VA_ARGS__); \
    } catch (...) {                                                                        \
      ::urma::log_line(URMA_VLOG_LEVEL_##level, URMA_LOG_SITE, "out of memory");           \
    }                                                                                      \
  } while (0)

// URMA_LOG(ERR, "jfc: depth {} is over the limit of {}", depth, limit);
#define URMA_LOG(level, ...)                            \
  do {                                                  \
    if (::urma::log_enabled(URMA_VLOG_LEVEL_##level)) { \
      URMA_LOG_FORMATTED(level, 0, __VA_ARGS__);        \
    }                                                   \
  } while (0)

// The same for messages on the path of a request: rate-limited at each site.
#define URMA_LOG_LIMITED(level, ...)                                                \
  do {                                                                              \
    static ::urma::LogThrottle throttle;                                            \
    uint64_t dropped = 0;                                                           \
    if (::urma::log_enabled(URMA_VLOG_LEVEL_##level) && throttle.admit(&dropped)) { \
      URMA_LOG_FORMATTED(level, dropped, __VA_ARGS__);                              \
    }                                                                               \
  } while (0)

#endif  // URMA_BASE_LOG_H_
