// SPDX-License-Identifier: MIT
#include "test/verbs/module_fixture.h"

namespace urma::verbs {

std::unique_ptr<FakeVerbs> fake;

const Api& system_verbs() { return *fake->api(); }

}  // namespace urma::verbs
