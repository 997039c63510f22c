// SPDX-License-Identifier: MIT
#ifndef TOOLS_RUN_LIBRARY_H_
#define TOOLS_RUN_LIBRARY_H_

#include <vector>

#include "urma_api.h"

namespace run {

// The library, running while this lives.
class Library {
 public:
  Library();  // throws Failure
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { (void)urma_uninit(); }
};

// The device for --name and --eid.
char* device_to_extend();

// In the order of the library; none if the device is NULL.
std::vector<urma_eid_t> eids_of(urma_device_t* device);

// Devices of the library's providers, without those that the kernel shows.
std::vector<urma_device_t*> own_devices();

}  // namespace run

#endif  // TOOLS_RUN_LIBRARY_H_
