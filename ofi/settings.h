/* SPDX-License-Identifier: MIT */

// Settings of the provider: FI_URMA_* in the environment.

#ifndef OFI_SETTINGS_H
#define OFI_SETTINGS_H

#include <chrono>
#include <cstddef>
#include <string>

namespace urma_fi {

// Makes the settings known to libfabric, which lists them by `fi_info -e`. Once.
void define_settings();

// The device that alone is offered; empty: all are.
std::string only_device();

// How long a request for a connection waits for its answer.
std::chrono::milliseconds connect_timeout();

// Requests that a queue holds where the caller does not say.
size_t default_send_depth();
size_t default_receive_depth();

}  // namespace urma_fi

#endif  // OFI_SETTINGS_H
