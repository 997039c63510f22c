// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_API_DESCRIPTORS_H_
#define URMA_CORE_API_DESCRIPTORS_H_

#include "urma_types.h"

namespace urma::core {

// What a peer needs to import the jetty. It has a shared JFR.
urma_rjetty_t describe(const urma_jetty_t& jetty);

}  // namespace urma::core

#endif  // URMA_CORE_API_DESCRIPTORS_H_
