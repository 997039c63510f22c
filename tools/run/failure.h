// SPDX-License-Identifier: MIT
#ifndef TOOLS_RUN_FAILURE_H_
#define TOOLS_RUN_FAILURE_H_

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace run {

// The reason why urma_run failed, in one line.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// If not `done`, throws Failure with the text of errno.
inline void check(bool done, const std::string& what) {
  if (!done) throw Failure(what + ": " + std::strerror(errno));
}

}  // namespace run

#endif  // TOOLS_RUN_FAILURE_H_
