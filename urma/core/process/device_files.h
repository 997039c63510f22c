// SPDX-License-Identifier: MIT
//
// The attributes of devices as files, for programs, scripts and cat. Devices of providers are in
// <runtime directory>/class/ubcore/<device>, as those of the kernel in /sys/class/ubcore/<device>.
#ifndef URMA_CORE_PROCESS_DEVICE_FILES_H_
#define URMA_CORE_PROCESS_DEVICE_FILES_H_

#include <string>
#include <vector>

#include "urma/base/host.h"
#include "urma/base/own_fd.h"
#include "urma/core/process/janitor.h"
#include "urma/core/process/sysfs.h"

namespace urma::core {

// A device, as it is written to files.
struct ShownDevice {
  std::string name;
  std::vector<AttributeFile> files;
  uint32_t ports;
  PortControl* control;  // NULL: nothing can be written
};

// The files exist while any process that shares the directory holds them; the last one removes
// them. The next process removes those of a killed one. To be made and destroyed on the service
// thread.
class DeviceFiles {
 public:
  // Throws Error.
  DeviceFiles(Janitor& janitor, const std::string& runtime_path, uint32_t slot,
              const std::vector<ShownDevice>& devices);
  ~DeviceFiles();
  DeviceFiles(const DeviceFiles&) = delete;
  DeviceFiles& operator=(const DeviceFiles&) = delete;

 private:
  bool try_hold();
  void open_folder();
  void remove_folder();
  void write_device(const ShownDevice& device);
  void watch(const std::vector<ShownDevice>& devices);

  Janitor& janitor_;
  const std::string path_;
  const std::string away_;
  const uint32_t slot_;
  OwnFd held_;
  std::vector<int> watched_;
};

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_DEVICE_FILES_H_
