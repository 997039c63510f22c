// SPDX-License-Identifier: MIT
//
// Prints whether it runs set-user-id, and what it reads from the environment.
#include <sys/auxv.h>

#include <cstdio>

#include "urma/core/process/settings.h"

int main() {
  urma::core::settings().load();
  std::printf("%s %s\n", ::getauxval(AT_SECURE) != 0 ? "secure" : "plain",
              urma::core::settings().text("URMA_ROCM_IPC").c_str());
}
