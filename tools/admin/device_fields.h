// SPDX-License-Identifier: MIT
//
// Everything known of a device.
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

// In the order of display; a port's fields follow its "portN".
std::vector<Field> fields_of(const Device& device);
// The meaning of each priority.
std::string priority_table(const Device& device);
Json whole_json(const Device& device);

}  // namespace admin

#endif  // TOOLS_ADMIN_DEVICE_FIELDS_H_
