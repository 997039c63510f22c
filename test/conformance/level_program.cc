// SPDX-License-Identifier: MIT
//
// Ends with the level of the log that the library has taken from the environment while it was
// loaded.
#include "urma_api.h"

int main() { return urma_log_get_level(); }
