// SPDX-License-Identifier: MIT
//
// Everything that a device tells of itself.
#ifndef TOOLS_ADMIN_DEVICE_FIELDS_H_
#define TOOLS_ADMIN_DEVICE_FIELDS_H_

#include <string>
#include <vector>

#include "tools/admin/library.h"
#include "tools/admin/report.h"

namespace admin {

struct Field {
  std::string name;
  std::string text;
  Json json;
};

// In the order in which they are shown; those of a port come behind its "portN".
std::vector<Field> fields_of(const Device& device);
// What each priority stands for.
std::string priority_table(const Device& device);
Json whole_json(const Device& device);

}  // namespace admin

#endif  // TOOLS_ADMIN_DEVICE_FIELDS_H_
