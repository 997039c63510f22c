// SPDX-License-Identifier: MIT
//
// What all calls that register a segment have in common.
#ifndef URMA_CORE_API_REGISTRATION_H_
#define URMA_CORE_API_REGISTRATION_H_

#include <functional>

#include "urma_types.h"

namespace urma::core {

// What the provider does with a configuration that is complete.
using Register = std::function<urma_target_seg_t*(urma_seg_cfg_t*)>;

// Checks the configuration, gives it a token id of its own where it has none, and counts
// references. NULL with errno where it is refused; one line in the log says why.
urma_target_seg_t* register_checked(const char* call, urma_context_t* ctx, urma_seg_cfg_t* seg_cfg,
                                    const Register& do_register);

}  // namespace urma::core

#endif  // URMA_CORE_API_REGISTRATION_H_
