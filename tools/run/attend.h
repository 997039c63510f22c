// SPDX-License-Identifier: MIT
//
// Running the program as a child, where something is to be done after its end.
#ifndef TOOLS_RUN_ATTEND_H_
#define TOOLS_RUN_ATTEND_H_

#include <functional>

namespace run {

// Runs `body` in a child, which ends with the status that it gives unless it executes a program.
// Signals that come for this process alone are passed on to the child, which dies with this
// process. Gives the child's wait status. Throws Failure.
int attend(const std::function<int()>& body);

// Ends this process as the child has ended.
[[noreturn]] void end_as(int status);

}  // namespace run

#endif  // TOOLS_RUN_ATTEND_H_
