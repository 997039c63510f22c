// SPDX-License-Identifier: MIT
//
// Devices that a kernel module shows in a sysfs class directory.
#ifndef URMA_CORE_PROCESS_SYSFS_H_
#define URMA_CORE_PROCESS_SYSFS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "urma_types.h"

namespace urma::core {

struct SysfsDevice {
  std::string path;  // its directory
  std::string name;
  std::string driver_name;
  urma_transport_type_t type;
  uint16_t vendor_id;
  uint16_t device_id;
};

// The devices of <root>/ubcore, else <root>/uburma.
std::vector<SysfsDevice> list_sysfs_devices(const std::string& root);

// As urma_read_sysfs_file: the bytes that were read; -1 if there is no such file, or `size` is too
// small for it and an ending zero.
ssize_t read_sysfs_file(const char* dir, const char* file, char* buf, size_t size);

// A missing file counts as 0.
urma_device_attr_t read_sysfs_attr(const std::string& path);
// A file of a device's folder, as read_sysfs_attr() reads it.
struct AttributeFile {
  std::string name;  // "port0/state"
  std::string text;
  bool writable;
};

// The files of a device. States of ports are writable if `ports_writable`.
std::vector<AttributeFile> sysfs_files(const std::string& name, const std::string& driver,
                                       urma_transport_type_t type, const urma_device_attr_t& attr,
                                       const std::vector<urma_eid_info_t>& eids,
                                       bool ports_writable);

// The nonzero entries.
std::vector<urma_eid_info_t> read_sysfs_eids(const std::string& path, uint32_t max_eid_cnt);

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_SYSFS_H_
