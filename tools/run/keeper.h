// SPDX-License-Identifier: MIT
//
// The process that keeps the devices' files while the program runs, and then removes what was made
// for it. It is not a child of the program, so the program can take the place of urma_run.
#ifndef TOOLS_RUN_KEEPER_H_
#define TOOLS_RUN_KEEPER_H_

#include <string>

#include "tools/run/options.h"

namespace run {

class Keeper {
 public:
  // Starts it for the calling process, with its current environment. At the end it removes
  // `directory`, unless that is "". Throws Failure.
  Keeper(const Options& options, const std::string& directory);
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  // If `directory` was given: returns once everything is removed. Else the keeper goes on until the
  // calling process has ended, whatever program that executes.
  ~Keeper();

  const std::string& view() const { return view_; }

 private:
  const std::string directory_;
  int socket_;
  std::string view_;
};

}  // namespace run

#endif  // TOOLS_RUN_KEEPER_H_
