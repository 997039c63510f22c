// SPDX-License-Identifier: MIT
//
// Running the program as a child, if something remains to be done after its end.
#ifndef TOOLS_RUN_ATTEND_H_
#define TOOLS_RUN_ATTEND_H_

#include <functional>

namespace run {

// Runs `body` in a child, which exits with the status it returns unless it executes a program.
// Passes signals for this process alone on to the child, which dies with this process. Returns the
// child's wait status. Throws Failure.
int attend(const std::function<int()>& body);

// Ends this process as the child ended.
[[noreturn]] void end_as(int status);

}  // namespace run

#endif  // TOOLS_RUN_ATTEND_H_
