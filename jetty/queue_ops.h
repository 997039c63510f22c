// SPDX-License-Identifier: MIT
//
// The operations on JFC, JFS, JFR and jetty that are not on the way of a request.
#ifndef JETTY_QUEUE_OPS_H_
#define JETTY_QUEUE_OPS_H_

#include "urma_provider.h"

namespace urma {

void add_queue_ops(urma_ops_t* ops);

}  // namespace urma

#endif  // JETTY_QUEUE_OPS_H_
