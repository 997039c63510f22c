// SPDX-License-Identifier: MIT
//
// The log calls of the C interface. All of them work before urma_init.
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/process/log_sink.h"
#include "urma_api.h"
#include "urma_ext.h"

using urma::core::entry;
using urma::core::given;
using urma::core::log_sink;

namespace {

const char* text_or_none(const char* text) { return text == nullptr ? "" : text; }

void log(const char* file, const char* function, int line, urma_vlog_level_t level,
         const char* format, va_list arguments) {
  if (format == nullptr || urma_log_drop(level)) return;
  char text[urma::kMaxLogLine];
  std::vsnprintf(text, sizeof text, format, arguments);
  log_sink().write(level, {text_or_none(file), text_or_none(function), line}, text);
}

}  // namespace

URMA_EXPORT urma_status_t urma_register_log_func(urma_log_cb_t func) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!given(call, "func", reinterpret_cast<const void*>(func))) return URMA_EINVAL;
    log_sink().set_callback(func, nullptr);
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_register_loc_log_func(urma_loc_log_cb func) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!given(call, "func", reinterpret_cast<const void*>(func))) return URMA_EINVAL;
    log_sink().set_callback(nullptr, func);
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_unregister_log_func() {
  return entry(__func__, [](const char*) -> urma_status_t {
    log_sink().clear_callback();
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_vlog_level_t urma_log_get_level() { return log_sink().level(); }

URMA_EXPORT void urma_log_set_level(urma_vlog_level_t level) { log_sink().set_level(level); }

URMA_EXPORT const char* urma_log_get_thread_tag() { return urma::core::thread_log_tag(); }

URMA_EXPORT void urma_log_set_thread_tag(const char* tag) {
  if (tag != nullptr) urma::core::set_thread_log_tag(tag);
}

URMA_EXPORT void urma_log(const char* function, int line, urma_vlog_level_t level,
                          const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  log("", function, line, level, format, arguments);
  va_end(arguments);
}

URMA_EXPORT void urma_log_loc(const char* file, const char* function, int line,
                              urma_vlog_level_t level, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  log(file, function, line, level, format, arguments);
  va_end(arguments);
}

URMA_EXPORT bool urma_log_drop(urma_vlog_level_t level) {
  return static_cast<unsigned>(level) > static_cast<unsigned>(log_sink().level());
}

URMA_EXPORT const char* urma_ext_version() { return "0.2.0"; }
