// SPDX-License-Identifier: MIT
//
// The ways to show a program folders where there are none.
#ifndef TOOLS_RUN_WAYS_H_
#define TOOLS_RUN_WAYS_H_

#include <string>

namespace run {

enum class Way {
  kMount,    // in a mount namespace of its own
  kUserns,   // the same, in a user namespace that permits it
  kPreload,  // by a library that the program loads before libc
};

// In the order in which they are tried.
inline constexpr Way kWays[] = {Way::kMount, Way::kUserns, Way::kPreload};

// As --way takes it.
const char* name_of(Way way);
// For people.
const char* about(Way way);

// Shows this process, and what it starts, the folders ubcore and uburma of `view` in /sys/class and
// /dev. It has one thread. Throws Failure; the process is of no use for another way then.
void enter(Way way, const std::string& view);

// Tries a way in a process of its own; "" where it works, else why it does not.
std::string why_not(Way way, const std::string& view);

}  // namespace run

#endif  // TOOLS_RUN_WAYS_H_
