// SPDX-License-Identifier: MIT
//
// The verbs of a module of the provider that has no device but the bare one.
#include "test/verbs/bare_device.h"

namespace urma::verbs {

const Api& system_verbs() { return *urma_test_bare_device()->api; }

}  // namespace urma::verbs
