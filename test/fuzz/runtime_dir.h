// SPDX-License-Identifier: MIT
#ifndef TEST_FUZZ_RUNTIME_DIR_H_
#define TEST_FUZZ_RUNTIME_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "test/fuzz/bytes.h"

namespace urma_fuzz {

// Called once, before the library: a runtime directory of its own, removed with the program, and no
// log.
inline void enter_runtime_dir() {
  static std::string dir = "/tmp/urma-fuzz-XXXXXX";
  require(::mkdtemp(dir.data()) != nullptr, "a directory");
  ::setenv("URMA_RUNTIME_DIR", dir.c_str(), 1);
  ::setenv("URMA_LOG_SINK", "off", 1);
  std::atexit([] {
    std::error_code ignored;
    std::filesystem::remove_all(dir, ignored);
  });
}

}  // namespace urma_fuzz

#endif  // TEST_FUZZ_RUNTIME_DIR_H_
