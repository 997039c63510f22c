// SPDX-License-Identifier: MIT
#ifndef TOOLS_RUN_MOUNTS_H_
#define TOOLS_RUN_MOUNTS_H_

#include <string>

namespace run {

// In a mount namespace of this process alone: shows the folders ubcore and uburma of `view` in
// /sys/class and /dev. Existing entries stay as they are. Throws Failure.
void show_by_mounts(const std::string& view);

}  // namespace run

#endif  // TOOLS_RUN_MOUNTS_H_
