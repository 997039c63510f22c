// SPDX-License-Identifier: MIT
//
// How failures travel inside the library: as an exception that carries the status of the contract,
// caught once at the boundary (guard.h). Nothing on the short path throws.
#ifndef URMA_BASE_ERROR_H_
#define URMA_BASE_ERROR_H_

#include <stdexcept>
#include <string>
#include <utility>

#include "third_party/fmt/format.h"
#include "urma_opcode.h"

namespace urma {

// A failure with the URMA status (an errno number, or URMA_FAIL) that the caller gets.
class Error : public std::runtime_error {
 public:
  Error(int status, const std::string& what) : std::runtime_error(what), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

template <typename... Args>
[[noreturn]] void fail(int status, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(status, urma::format(format, std::forward<Args>(args)...));
}

// Throws with the text of errno: "opening /run/urma-0: No such file or directory".
[[noreturn]] void fail_errno(int status, const std::string& doing);

}  // namespace urma

#endif  // URMA_BASE_ERROR_H_
