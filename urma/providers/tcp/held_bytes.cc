// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/held_bytes.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace urma::tcp {
namespace {

uint64_t memory_of_host() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
}

// As a container sees it; others have no such file.
uint64_t memory_of_group() {
  uint64_t bytes = 0;
  std::ifstream file("/sys/fs/cgroup/memory.max");
  return file >> bytes ? bytes : UINT64_MAX;
}

// RLIM_INFINITY is the greatest number.
uint64_t limit_of(int resource) {
  rlimit limit = {};
  return ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 ? limit.rlim_cur
                                                                              : UINT64_MAX;
}

}  // namespace

uint64_t memory_for_peers() {
  return std::min(
             {memory_of_host(), memory_of_group(), limit_of(RLIMIT_DATA), limit_of(RLIMIT_AS)}) /
         4;
}

}  // namespace urma::tcp
