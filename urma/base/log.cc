// SPDX-License-Identifier: MIT
#include "urma/base/log.h"

#include <span>

#include "urma/base/clock.h"
#include "urma/base/host.h"

namespace urma {
namespace {

constexpr uint64_t kWindowNs = 1'000'000'000;
constexpr uint32_t kLinesPerWindow = 16;

}  // namespace

bool log_enabled(urma_vlog_level_t level) {
  return host() != nullptr && host()->logger->enabled(level);
}

void log_line(urma_vlog_level_t level, const LogSite& site, std::string_view message) noexcept {
  if (host() != nullptr) host()->logger->write(level, site, message);
}

void log_format(urma_vlog_level_t level, const LogSite& site, uint64_t dropped,
                fmt::string_view format, fmt::format_args args) noexcept {
  char line[kMaxLogLine];
  size_t length = format_into(line, format, args);
  if (dropped != 0) {
    length += format_into(std::span(line).subspan(length), " ({} like this left out)",
                          fmt::make_format_args(dropped));
  }
  log_line(level, site, {line, length});
}

bool LogThrottle::admit(uint64_t* dropped) {
  const uint64_t now = monotonic_ns();
  uint64_t start = window_start_ns_.load(std::memory_order_relaxed);
  if (start == 0 || now - start > kWindowNs) {
    if (window_start_ns_.compare_exchange_strong(start, now, std::memory_order_relaxed)) {
      in_window_.store(0, std::memory_order_relaxed);
    }
  }
  if (in_window_.fetch_add(1, std::memory_order_relaxed) >= kLinesPerWindow) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  *dropped = dropped_.exchange(0, std::memory_order_relaxed);
  return true;
}

}  // namespace urma
