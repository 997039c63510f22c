// SPDX-License-Identifier: MIT
#ifndef TOOLS_ADMIN_LIBRARY_H_
#define TOOLS_ADMIN_LIBRARY_H_

#include <string>
#include <vector>

#include "urma_api.h"
#include "urma_ext.h"

namespace admin {

struct Device {
  urma_device_t* handle;
  std::string name;
  urma_device_attr_t attr;
  std::vector<urma_eid_info_t> eids;
  urma_ext_device_t further;

  bool aggregated() const;
};

// The library, running while this lives.
class Library {
 public:
  Library();  // throws Failure
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  std::vector<Device> devices() const;
  // Throws Failure, with the names of the existing ones.
  Device device(const std::string& name) const;
};

}  // namespace admin

#endif  // TOOLS_ADMIN_LIBRARY_H_
