// SPDX-License-Identifier: MIT
//
// Preloaded into a program that uses the library: says on stderr of each queue that it makes
// whether it is an ordinary or a lock_free one.
#include <dlfcn.h>
#include <unistd.h>

#include <string_view>

#include "urma_api.h"

namespace urma_test {
namespace {

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// One call for each line: processes write at the same time.
void tell(bool lock_free) {
  const std::string_view line = lock_free ? "queue: lock_free\n" : "queue: ordinary\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace
}  // namespace urma_test

#define KINDS_EXPORT extern "C" __attribute__((visibility("default")))

KINDS_EXPORT urma_jfc_t* urma_create_jfc(urma_context_t* ctx, urma_jfc_cfg_t* cfg) {
  urma_test::tell(cfg->flag.bs.lock_free != 0);
  return urma_test::real<decltype(urma_create_jfc)>("urma_create_jfc")(ctx, cfg);
}

KINDS_EXPORT urma_jfr_t* urma_create_jfr(urma_context_t* ctx, urma_jfr_cfg_t* cfg) {
  urma_test::tell(cfg->flag.bs.lock_free != 0);
  return urma_test::real<decltype(urma_create_jfr)>("urma_create_jfr")(ctx, cfg);
}

KINDS_EXPORT urma_jetty_t* urma_create_jetty(urma_context_t* ctx, urma_jetty_cfg_t* cfg) {
  urma_test::tell(cfg->jfs_cfg.flag.bs.lock_free != 0);
  return urma_test::real<decltype(urma_create_jetty)>("urma_create_jetty")(ctx, cfg);
}
