// SPDX-License-Identifier: MIT
//
// The ways to show a program folders that do not exist.
#ifndef TOOLS_RUN_WAYS_H_
#define TOOLS_RUN_WAYS_H_

#include <string>

namespace run {

enum class Way {
  kMount,    // in a mount namespace of its own
  kUserns,   // the same, in a user namespace that permits it
  kPreload,  // with a library that the program loads before libc
};

// In the order of attempts.
inline constexpr Way kWays[] = {Way::kMount, Way::kUserns, Way::kPreload};

// The name that --way takes.
const char* name_of(Way way);
// For people.
const char* about(Way way);

// Shows this process and its children the folders ubcore and uburma of `view` in /sys/class and
// /dev. It must have one thread. Throws Failure; the process cannot be used for another way then.
void enter(Way way, const std::string& view);

// Tries a way in a separate process; "" if it works, else the reason why not.
std::string why_not(Way way, const std::string& view);

}  // namespace run

#endif  // TOOLS_RUN_WAYS_H_
