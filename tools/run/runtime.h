// SPDX-License-Identifier: MIT
//
// The runtime directory of a run.
#ifndef TOOLS_RUN_RUNTIME_H_
#define TOOLS_RUN_RUNTIME_H_

#include <string>
#include <vector>

#include "urma_api.h"

namespace run {

// A private directory, named by URMA_RUNTIME_DIR from now on. Throws Failure.
std::string make_private_directory();

// Gives these EIDs to the directory that URMA_RUNTIME_DIR names, in the environment or in a file,
// if it has none yet. Throws Failure. The library must not be started.
void offer_eids(const std::vector<urma_eid_t>& eids);

// Throws Failure if urma_shm0 has other EIDs. The library must be started.
void expect_eids(const std::vector<urma_eid_t>& eids);

// What the environment or a file says of a setting of the library, "" if neither does. Throws
// Failure.
std::string value_of(const char* name);

// The directory in use. Throws Failure. The library must be started.
std::string runtime_directory();

}  // namespace run

#endif  // TOOLS_RUN_RUNTIME_H_
