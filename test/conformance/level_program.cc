// SPDX-License-Identifier: MIT
//
// Exits with the log level that the library has taken from the environment when loaded.
#include "urma_api.h"

int main() { return urma_log_get_level(); }
