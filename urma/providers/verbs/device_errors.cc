// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/device_errors.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "urma/base/error.h"

namespace urma::verbs {

std::string locked_limit() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? std::string("unlimited")
                                         : urma::format("{} bytes", limit.rlim_cur);
}

void fail_device(const DeviceInfo& info, const std::string& doing, int error) {
  switch (error) {
    case ENOMEM:
    case EAGAIN:
      fail(URMA_ENOMEM,
           "{}: {} has no room left, or no more memory may be locked for it: `ulimit -l` allows "
           "{}; raise it, or delete what is not used",
           doing, info.name, locked_limit());
    case EACCES:
    case EPERM:
      fail(URMA_ENOPERM,
           "{}: this user may not; give it read and write access to /dev/infiniband/uverbs*, and "
           "see what a container or cgroup (rdma.max) leaves it",
           doing);
    case EIO:
    case ENODEV:
    case ENXIO:
      fail(URMA_FAIL,
           "{}: {} has failed, or was removed; delete its contexts, and call urma_init anew once "
           "it is back",
           doing, info.name);
    default:
      fail(error == 0 ? URMA_FAIL : error, "{}: {}", doing,
           error == 0 ? "the device gives no reason" : std::strerror(error));
  }
}

}  // namespace urma::verbs
