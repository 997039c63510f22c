// SPDX-License-Identifier: MIT
//
// Names that one process at a time can hold: those of sockets in the abstract namespace, which
// belongs to the network namespace, as addresses do. They go with the process.
#ifndef URMA_BASE_HELD_NAME_H_
#define URMA_BASE_HELD_NAME_H_

#include <memory>
#include <string>

namespace urma {

// Holds the name while the pointer lives. NULL if another holds it; throws Error on other failures.
std::shared_ptr<void> hold_name(const std::string& name);
// Whether anybody holds it. Throws Error if that cannot be determined.
bool is_name_held(const std::string& name);

}  // namespace urma

#endif  // URMA_BASE_HELD_NAME_H_
