// SPDX-License-Identifier: MIT
#include "tools/admin/library.h"

#include "third_party/fmt/format.h"
#include "tools/admin/report.h"
#include "tools/admin/text.h"

namespace admin {
namespace {

Device describe(urma_device_t* handle) {
  Device device = {handle, handle->name, {}, {}, {}};
  const urma_status_t status = urma_query_device(handle, &device.attr);
  if (status != URMA_SUCCESS) {
    throw Failure(urma::format("querying device {} failed (status {})", device.name,
                               static_cast<int>(status)));
  }
  urma_ext_query_device(handle, &device.further);
  uint32_t count = 0;
  if (urma_eid_info_t* eids = urma_get_eid_list(handle, &count); eids != nullptr) {
    device.eids.assign(eids, eids + count);
    urma_free_eid_list(eids);
  }
  return device;
}

}  // namespace

bool Device::aggregated() const { return name.starts_with("bonding"); }

Library::Library() {
  const urma_status_t status = urma_init(nullptr);
  if (status != URMA_SUCCESS) {
    throw Failure(urma::format("the library cannot be started (urma_init returns {})",
                               static_cast<int>(status)));
  }
}

Library::~Library() { urma_uninit(); }

std::vector<Device> Library::devices() const {
  int count = 0;
  std::vector<Device> devices;
  if (urma_device_t** list = urma_get_device_list(&count); list != nullptr) {
    const std::vector<urma_device_t*> handles(list, list + count);
    urma_free_device_list(list);
    for (urma_device_t* handle : handles) devices.push_back(describe(handle));
  }
  return devices;
}

Device Library::device(const std::string& name) const {
  std::vector<std::string> names;
  for (auto& device : devices()) {
    if (device.name == name) return device;
    names.push_back(device.name);
  }
  if (names.empty()) {
    throw Failure(urma::format("no device '{}', and no other device; see show providers", name));
  }
  throw Failure(urma::format("no device '{}'; there are: {}", name, joined(names, ", ")));
}

}  // namespace admin
