// SPDX-License-Identifier: MIT
#ifndef JETTY_CONTROL_OPS_H_
#define JETTY_CONTROL_OPS_H_

#include "urma_provider.h"

namespace urma {

// Fills in the operations that move no data: channels, notifiers, groups, addresses, advice.
void add_control_ops(urma_ops_t* ops);

}  // namespace urma

#endif  // JETTY_CONTROL_OPS_H_
