// SPDX-License-Identifier: MIT
//
// The calls that start and end the library, and those of providers that a program brings along.
#include <cerrno>
#include <new>

#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/process/core.h"
#include "urma_api.h"

using namespace urma::core;

URMA_EXPORT urma_status_t urma_init(urma_init_attr_t* conf) {
  return entry(__func__, [&](const char*) { return init(conf); });
}

URMA_EXPORT urma_status_t urma_uninit() {
  return entry(__func__, [](const char*) { return uninit(); });
}

URMA_EXPORT urma_status_t urma_get_uasid(uint32_t* result) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!given(call, "uasid", result)) return URMA_EINVAL;
    *result = uasid();
    return URMA_SUCCESS;
  });
}

URMA_EXPORT int urma_register_provider_ops(urma_provider_ops_t* provider_ops) {
  if (provider_ops == nullptr || provider_ops->name == nullptr) return -1;
  try {
    loader().add_foreign(provider_ops);
    return 0;
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
}

URMA_EXPORT int urma_unregister_provider_ops(urma_provider_ops_t* provider_ops) {
  if (provider_ops == nullptr || provider_ops->name == nullptr) return -1;
  loader().remove_foreign(provider_ops);
  return 0;
}
