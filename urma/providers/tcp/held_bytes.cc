// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/held_bytes.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "third_party/fmt/format.h"

namespace urma::tcp {
namespace {

uint64_t memory_of_host() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
}

// The least limit of a group and those around it. One without a limit has no number there.
uint64_t least_limit(const std::string& hierarchy, std::string group, const std::string& name) {
  uint64_t least = UINT64_MAX;
  for (;;) {
    uint64_t bytes = 0;
    std::ifstream file(urma::format("{}{}/{}", hierarchy, group, name));
    if (file >> bytes) least = std::min(least, bytes);
    if (group.empty()) return least;
    group.resize(group.rfind('/'));
  }
}

// RLIM_INFINITY is the greatest number.
uint64_t limit_of(int resource) {
  rlimit limit = {};
  return ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 ? limit.rlim_cur
                                                                              : UINT64_MAX;
}

}  // namespace

uint64_t memory_of_groups(const std::string& groups, const std::string& mounted) {
  uint64_t least = UINT64_MAX;
  std::ifstream file(groups);
  // Number, controllers, path; a path begins with a slash, and that of the root is only that.
  for (std::string line; std::getline(file, line);) {
    const size_t controllers = line.find(':') + 1;
    const size_t path = line.find(":/", controllers) + 1;
    if (controllers == 0 || path == 0) continue;
    const std::string which = line.substr(controllers, path - 1 - controllers);
    const std::string group = path + 1 == line.size() ? "" : line.substr(path);
    if (which.empty()) {
      least = std::min(least, least_limit(mounted, group, "memory.max"));
    } else if (which == "memory") {
      least = std::min(least, least_limit(mounted + "/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

uint64_t memory_for_peers() {
  return std::min({memory_of_host(), memory_of_groups("/proc/self/cgroup", "/sys/fs/cgroup"),
                   limit_of(RLIMIT_DATA), limit_of(RLIMIT_AS)}) /
         4;
}

}  // namespace urma::tcp
