// SPDX-License-Identifier: MIT

#include "tools/perftest/run.h"

namespace perftest {

std::atomic<bool> interrupted{false};

}  // namespace perftest
