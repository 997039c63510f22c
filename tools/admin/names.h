// SPDX-License-Identifier: MIT
//
// Names of the numbers that processes report of their queues.
#ifndef TOOLS_ADMIN_NAMES_H_
#define TOOLS_ADMIN_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace admin {

const char* kind_name(uint32_t kind);
std::string mode_name(uint32_t mode);
// Without its URMA_CR_.
std::string status_name(size_t status);

}  // namespace admin

#endif  // TOOLS_ADMIN_NAMES_H_
