// SPDX-License-Identifier: MIT
#include "tools/run/library.h"

#include "tools/run/failure.h"

namespace run {

Library::Library() {
  if (urma_init(nullptr) != URMA_SUCCESS) throw Failure("urma_init failed; see its log");
}

char* device_to_extend() {
  static char name[] = "urma_shm0";
  return name;
}

std::vector<urma_eid_t> eids_of(urma_device_t* device) {
  std::vector<urma_eid_t> eids;
  uint32_t count = 0;
  urma_eid_info_t* list = device == nullptr ? nullptr : urma_get_eid_list(device, &count);
  for (uint32_t i = 0; list != nullptr && i < count; ++i) eids.push_back(list[i].eid);
  if (list != nullptr) urma_free_eid_list(list);
  return eids;
}

std::vector<urma_device_t*> own_devices() {
  int count = 0;
  urma_device_t** list = urma_get_device_list(&count);
  std::vector<urma_device_t*> devices;
  for (int i = 0; list != nullptr && i < count; ++i) {
    if (list[i]->path[0] == '\0') devices.push_back(list[i]);
  }
  if (list != nullptr) urma_free_device_list(list);
  return devices;
}

}  // namespace run
