// SPDX-License-Identifier: MIT
//
// A provider module as others write them: it registers itself when loaded, and drives devices found
// in sysfs.
#include "urma_provider.h"

namespace {

urma_status_t init(urma_init_attr_t*) { return URMA_SUCCESS; }
urma_status_t uninit() { return URMA_SUCCESS; }
urma_context_t* create_context(urma_device_t*, uint32_t, int) { return nullptr; }

urma_match_entry_t match_table[] = {{0xcc08, 0xa001}, {0, 0}};
urma_provider_ops_t provider{};

__attribute__((constructor)) void on_load() {
  provider.name = "foreign";
  provider.match_table = match_table;
  provider.init = init;
  provider.uninit = uninit;
  provider.create_context = create_context;
  urma_register_provider_ops(&provider);
}

}  // namespace
