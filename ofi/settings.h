/* SPDX-License-Identifier: MIT */

// Settings of the provider: FI_URMA_* in the environment.

#ifndef OFI_SETTINGS_H
#define OFI_SETTINGS_H

#include <chrono>
#include <cstddef>
#include <string>

namespace urma_fi {

// Registers the settings with libfabric, which lists them by `fi_info -e`. Once.
void define_settings();

// The only device offered; empty: all are.
std::string only_device();

// Whether libfabric's layers may use connected endpoints.
bool offers_layers();

// Timeout of a connection request.
std::chrono::milliseconds connect_timeout();

// Default depth of a queue, in requests.
size_t default_send_depth();
size_t default_receive_depth();

}  // namespace urma_fi

#endif  // OFI_SETTINGS_H
