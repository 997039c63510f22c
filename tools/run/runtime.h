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

// Gives these EIDs to the directory that URMA_RUNTIME_DIR names, if it has none yet. Throws
// Failure.
void offer_eids(const std::vector<urma_eid_t>& eids);

// Throws Failure if urma_shm0 has other EIDs. The library must be started.
void expect_eids(const std::vector<urma_eid_t>& eids);

// The value of a setting of the library, from the environment or a file. Throws Failure.
std::string value_of(const char* name);

// The directory in use. The library must be started.
std::string runtime_directory();

}  // namespace run

#endif  // TOOLS_RUN_RUNTIME_H_
