// SPDX-License-Identifier: MIT
//
// A provider module for the loader's tests: one device with two EIDs, whose contexts do nothing.
#include <cstdlib>
#include <cstring>

#include "urma/base/host.h"

namespace {

urma_provider_ops_t provider;
urma_ops_t operations{};

urma_status_t init(urma_init_attr_t*) {
  // Fails if the test has made the runtime directory unusable.
  try {
    urma::host()->runtime();
  } catch (const std::exception&) {
    return URMA_FAIL;
  }
  if (const char* reason = std::getenv("URMA_TEST_EXPLAIN")) {
    urma::host()->registry->explain(&provider, reason);
  }
  urma::DeviceDescription device{};
  device.name = "urma_test0";
  device.type = URMA_TRANSPORT_UB;
  device.attr.dev_cap.max_eid_cnt = 4;
  device.attr.dev_cap.max_jfc = 123;
  const auto eids = urma::host()->runtime()->eids();
  device.eids = eids.data();
  device.eid_count = static_cast<uint32_t>(eids.size());
  urma::host()->registry->add_device(&provider, device);
  return URMA_SUCCESS;
}

urma_status_t uninit() { return std::getenv("URMA_TEST_FAIL_UNINIT") ? URMA_FAIL : URMA_SUCCESS; }

urma_context_t* create_context(urma_device_t*, uint32_t, int) {
  auto* ctx = new urma_context_t{};
  operations.name = "test";
  ctx->ops = &operations;
  return ctx;
}

urma_status_t delete_context(urma_context_t* ctx) {
  delete ctx;
  return URMA_SUCCESS;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  if (version != kUrmaHostVersion) return -1;
  urma::set_host(host);
  provider.name = "test";
  provider.init = init;
  provider.uninit = uninit;
  provider.create_context = create_context;
  provider.delete_context = delete_context;
  host->registry->add_provider(&provider);
  return 0;
}
