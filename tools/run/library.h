// SPDX-License-Identifier: MIT
#ifndef TOOLS_RUN_LIBRARY_H_
#define TOOLS_RUN_LIBRARY_H_

#include <vector>

#include "urma_api.h"

namespace run {

// The library, from start to end.
class Library {
 public:
  Library();  // throws Failure
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { (void)urma_uninit(); }
};

// The device that --name and --eid are about.
char* device_to_extend();

// In the order of the library; none where the device is NULL.
std::vector<urma_eid_t> eids_of(urma_device_t* device);

// Those of the library's providers. Devices that the kernel shows are not among them.
std::vector<urma_device_t*> own_devices();

}  // namespace run

#endif  // TOOLS_RUN_LIBRARY_H_
