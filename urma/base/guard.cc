// SPDX-License-Identifier: MIT
#include "urma/base/guard.h"

#include <cstring>
#include <new>

#include "urma/base/error.h"

namespace urma {

int status_of_current_exception(const LogSite& site) {
  try {
    throw;
  } catch (const Error& error) {
    log_line(URMA_VLOG_LEVEL_ERR, site, error.what());
    return error.status();
  } catch (const std::bad_alloc&) {
    log_line(URMA_VLOG_LEVEL_ERR, site, "out of memory");
    return URMA_ENOMEM;
  } catch (const std::exception& error) {
    log_line(URMA_VLOG_LEVEL_ERR, site, error.what());
    return URMA_FAIL;
  } catch (...) {
    return URMA_FAIL;
  }
}

void fail_errno(int status, const std::string& doing) {
  const int code = errno;
  throw Error(status, urma::format("{}: {}", doing, std::strerror(code)));
}

}  // namespace urma
