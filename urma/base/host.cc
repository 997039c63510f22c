// SPDX-License-Identifier: MIT
#include "urma/base/host.h"

#include <atomic>

namespace urma {
namespace {

std::atomic<const urma_host*> the_host{nullptr};

}  // namespace

// Acquire pairs with the release in set_host: whoever sees the table sees what it points to.
const urma_host* host() { return the_host.load(std::memory_order_acquire); }

void set_host(const urma_host* table) { the_host.store(table, std::memory_order_release); }

}  // namespace urma
