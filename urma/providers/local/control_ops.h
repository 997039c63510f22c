// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_LOCAL_CONTROL_OPS_H_
#define URMA_PROVIDERS_LOCAL_CONTROL_OPS_H_

#include "urma_provider.h"

namespace urma::local {

// Fills in the operations that move no data: channels, notifiers, groups, addresses, advice.
void add_control_ops(urma_ops_t* ops);

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_CONTROL_OPS_H_
