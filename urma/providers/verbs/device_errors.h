// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_DEVICE_ERRORS_H_
#define URMA_PROVIDERS_VERBS_DEVICE_ERRORS_H_

#include <string>

#include "urma/providers/verbs/device.h"

namespace urma::verbs {

// Throws Error for what a device has refused with this errno number: with the status that the
// contract has for it, and a text that says what to do.
[[noreturn]] void fail_device(const DeviceInfo& info, const std::string& doing, int error);

// "65536 bytes", or "unlimited": how much memory this process may lock.
std::string locked_limit();

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_DEVICE_ERRORS_H_
