// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/hsa_api.h"

#include <dlfcn.h>

#include "urma/base/log.h"
#include "urma/base/text.h"

namespace urma::rocm {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

bool load_hsa(const char* library, HsaApi* api, std::string* why) {
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    *why = urma::format("the HSA runtime cannot be opened: {}; install ROCm, or libhsa-runtime64-1",
                        ::dlerror());
    return false;
  }
  const char* missing = nullptr;
#define URMA_ROCM_FIND(name) \
  if (!find(handle, #name, &api->name)) missing = #name;
  URMA_ROCM_FUNCTIONS(URMA_ROCM_FIND)
#undef URMA_ROCM_FIND
  if (missing != nullptr) {
    *why = urma::format("{} is too old: it has no {}; install ROCm 5.2 or newer", library, missing);
    ::dlclose(handle);
    return false;
  }
  find(handle, "hsa_amd_portable_export_dmabuf", &api->export_dmabuf);
  find(handle, "hsa_amd_portable_close_dmabuf", &api->close_dmabuf);
  find(handle, "hsa_amd_memory_async_copy_on_engine", &api->copy_on_engine);
  find(handle, "hsa_amd_memory_copy_engine_status", &api->copy_engine_status);
  return true;
}

hsa_status_t pointer_info(const HsaApi& api, const void* address, hsa_amd_pointer_info_t* info) {
  *info = {};
  info->size = sizeof(*info);
  return api.hsa_amd_pointer_info(address, info, nullptr, nullptr, nullptr);
}

std::string status_text(const HsaApi& api, hsa_status_t status) {
  const char* text = nullptr;
  if (api.hsa_status_string(status, &text) != HSA_STATUS_SUCCESS || text == nullptr) text = "?";
  return urma::format("{:#x} {:.120}", static_cast<uint32_t>(status), text);
}

}  // namespace urma::rocm
