// SPDX-License-Identifier: MIT
//
// The operations on JFC, JFS, JFR and jetty that are not on the way of a request.
#ifndef URMA_PROVIDERS_LOCAL_QUEUE_OPS_H_
#define URMA_PROVIDERS_LOCAL_QUEUE_OPS_H_

#include "urma_provider.h"

namespace urma::local {

void add_queue_ops(urma_ops_t* ops);

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_QUEUE_OPS_H_
