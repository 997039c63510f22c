// SPDX-License-Identifier: MIT
//
// The common part of all calls that register a segment.
#ifndef URMA_CORE_API_REGISTRATION_H_
#define URMA_CORE_API_REGISTRATION_H_

#include <functional>

#include "urma_types.h"

namespace urma::core {

// Registers a complete configuration with the provider.
using Register = std::function<urma_target_seg_t*(urma_seg_cfg_t*)>;

// Checks the configuration, gives it a private token id if it has none, and counts references. NULL
// with errno if it is refused; one log line says why.
urma_target_seg_t* register_checked(const char* call, urma_context_t* ctx, urma_seg_cfg_t* seg_cfg,
                                    const Register& do_register);

}  // namespace urma::core

#endif  // URMA_CORE_API_REGISTRATION_H_
