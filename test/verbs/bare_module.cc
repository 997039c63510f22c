// SPDX-License-Identifier: MIT
//
// The verbs of a provider module whose only device is the bare one.
#include "test/verbs/bare_device.h"

namespace urma::verbs {

const Api& system_verbs() { return *urma_test_bare_device()->api; }

}  // namespace urma::verbs
