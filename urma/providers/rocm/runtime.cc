// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/runtime.h"

#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "urma/base/fd.h"
#include "urma/base/log.h"

namespace urma::rocm {
namespace {

constexpr char kUsualLibrary[] = "libhsa-runtime64.so.1";
constexpr char kDriver[] = "/dev/kfd";
constexpr char kNodesOfDriver[] = "/sys/class/kfd/kfd/topology/nodes/*/gpu_id";

// Why the runtime has not found what it needs: the machine nearly always shows it.
std::string look_at_machine() {
  if (::access(kDriver, F_OK) != 0) {
    return "there is no /dev/kfd: load the kernel module amdgpu";
  }
  const Fd driver(::open(kDriver, O_RDWR | O_CLOEXEC));
  if (!driver.valid()) {
    return urma::format("/dev/kfd cannot be opened: {}; become a member of the group render",
                        std::strerror(errno));
  }
  glob_t nodes = {};
  std::string found;
  if (::glob("/dev/dri/renderD*", 0, nullptr, &nodes) == 0) {
    for (size_t i = 0; i < nodes.gl_pathc && found.empty(); ++i) {
      if (::access(nodes.gl_pathv[i], R_OK | W_OK) != 0) {
        found = urma::format("{} cannot be opened: {}; become a member of the group render",
                             nodes.gl_pathv[i], std::strerror(errno));
      }
    }
  }
  ::globfree(&nodes);
  return found;
}

// Whether the driver names its nodes, and none is a GPU. A node that cannot be read may be one.
bool driver_has_no_gpu() {
  glob_t nodes = {};
  const bool found = ::glob(kNodesOfDriver, 0, nullptr, &nodes) == 0;
  bool none = found;
  for (size_t i = 0; i < nodes.gl_pathc && none; ++i) {
    const Fd node(::open(nodes.gl_pathv[i], O_RDONLY | O_CLOEXEC));
    char id[2] = {};
    none = node.valid() && ::read(node.get(), id, sizeof(id)) == 2 && id[0] == '0' && id[1] == '\n';
  }
  ::globfree(&nodes);
  return none;
}

std::string because(std::string what) {
  const std::string machine = look_at_machine();
  if (!machine.empty()) what += "; " + machine;
  return what;
}

}  // namespace

std::unique_ptr<HsaRuntime> HsaRuntime::open(const std::string& library, bool with_cpus,
                                             std::string* why) {
  why->clear();
  if (library.empty() && ::access(kDriver, F_OK) != 0) {
    *why = "this machine has no AMD GPU: there is no /dev/kfd (kernel module amdgpu)";
    return nullptr;
  }
  // Without work for it the runtime is not started: it makes threads, and prints.
  if (library.empty() && !with_cpus && driver_has_no_gpu()) {
    *why =
        "this machine has no AMD GPU: the kernel module amdgpu knows none (URMA_ROCM_CPU=1 makes "
        "devices of its CPUs)";
    return nullptr;
  }
  HsaApi api;
  if (!load_hsa(library.empty() ? kUsualLibrary : library.c_str(), &api, why)) return nullptr;
  const auto status = api.hsa_init();
  if (status != HSA_STATUS_SUCCESS) {
    *why = because(urma::format("hsa_init: {}", status_text(api, status)));
    return nullptr;
  }
  std::unique_ptr<HsaRuntime> runtime(new HsaRuntime(api));
  runtime->topology_ = find_agents(runtime->api_);
  if (runtime->topology_.cpu() == nullptr) {
    *why = "the HSA runtime has no CPU agent with memory";
    return nullptr;
  }
  if (!runtime->topology_.has_gpu() && !with_cpus) {
    *why = because(
        "the HSA runtime has no GPU with memory (URMA_ROCM_CPU=1 makes devices of its "
        "CPUs)");
    return nullptr;
  }
  return runtime;
}

HsaRuntime::~HsaRuntime() { api_.hsa_shut_down(); }

}  // namespace urma::rocm
