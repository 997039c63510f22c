// SPDX-License-Identifier: MIT
#include "urma/base/host.h"

#include <atomic>

#include "urma/base/guard.h"

namespace urma {
namespace {

std::atomic<const urma_host*> the_host{nullptr};

}  // namespace

// Acquire pairs with the release in set_host: a thread that sees the table sees what it points to.
const urma_host* host() { return the_host.load(std::memory_order_acquire); }

void set_host(const urma_host* table) { the_host.store(table, std::memory_order_release); }

int enter_module(uint32_t version, const urma_host* table, urma_provider_ops_t* ops) noexcept {
  if (version != kUrmaHostVersion) return -1;
  set_host(table);
  return guarded_count(URMA_LOG_SITE, [=] {
    table->registry->add_provider(ops);
    return 0;
  });
}

}  // namespace urma
