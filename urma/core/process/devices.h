// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_DEVICES_H_
#define URMA_CORE_PROCESS_DEVICES_H_

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "urma/base/fd.h"
#include "urma/base/host.h"
#include "urma/base/mutex.h"
#include "urma/core/process/aliases.h"
#include "urma/core/process/device_files.h"
#include "urma/core/process/sysfs.h"
#include "urma_ext.h"
#include "urma_provider.h"
#include "urma_types.h"

// What the library knows of a device beyond the public struct.
struct urma_sysfs_dev {
  urma_device_t device{};
  bool made_by_provider = false;  // else found in sysfs
  bool present = true;            // still in sysfs; alias: no device has its name
  const urma::SegmentInspector* inspector = nullptr;
  urma_ext_device_t details = urma::ordinary_details();
  urma::RegisterDmabuf register_dmabuf = nullptr;
  const urma::DeviceMemoryCalls* memory = nullptr;
  urma::PortControl* ports = nullptr;
  std::vector<urma_eid_info_t> eids;
  // That of aggregated devices over it, with the provider's index; else the first of the above.
  std::optional<urma_eid_info_t> aggregated_eid;
  // The last one is in force. Older ones are kept for callers that still read them.
  std::vector<std::unique_ptr<const urma_device_attr_t>> attrs;
  // Of an alias: its device. Only that has the members above, except the struct.
  urma_sysfs_dev* base = nullptr;
  // Of an alias that is treated as an aggregated device, which has its own attributes.
  urma_provider_ops_t aggregated_ops{};

  bool aggregated() const { return aggregated_ops.name != nullptr; }
};

namespace urma::core {

class DeviceTable final : public Registry {
 public:
  void add_provider(urma_provider_ops_t* ops) override;
  void add_device(urma_provider_ops_t* ops, const DeviceDescription& device) override;
  void explain(urma_provider_ops_t* ops, const std::string& reason) override;
  void set_rdma_interface(const urma_ext_rdma_interface_t* interface) override {
    // Release pairs with the acquire in rdma_interface().
    rdma_interface_.store(interface, std::memory_order_release);
  }
  const urma_ext_rdma_interface_t* rdma_interface() const override {
    return rdma_interface_.load(std::memory_order_acquire);
  }
  void set_port_state(const char* device, uint32_t port, urma_port_state_t state) override;
  void set_eids(const char* device, std::span<const urma_eid_t> eids) override;

  bool has_providers() const;
  // Drops each provider whose init fails; afterwards the devices exist.
  void init_providers(urma_init_attr_t* conf);
  // False if one of them failed.
  bool uninit_providers();
  // Forgets all devices and providers.
  void clear();

  // Sets the aliases, also of devices that appear later. Logs one line for each that names no
  // device now, or has the name of a device.
  void set_aliases(std::vector<Alias> aliases);

  // Reads the devices of sysfs again.
  void rescan();
  std::vector<urma_device_t*> list() const;
  urma_device_t* find(const std::string& name) const;
  urma_device_t* find(const urma_eid_t& eid, urma_transport_type_t type) const;

  // NULL for an unknown device, whose struct is not read.
  const urma_device_attr_t* attr_of(const urma_device_t* device) const;
  // NULL for a device that cannot tell.
  const SegmentInspector* inspector_of(const urma_device_t* device) const;
  // NULL for a device that does not support them.
  RegisterDmabuf dmabufs_of(const urma_device_t* device) const;
  // NULL for a device without memory.
  const DeviceMemoryCalls* memory_of(const urma_device_t* device) const;
  // Nothing for an unknown device.
  std::optional<urma_ext_device_t> details_of(const urma_device_t* device) const;
  // Of all devices, each once.
  std::vector<const SegmentInspector*> inspectors() const;
  // The providers in use, then those whose init failed in the last init_providers().
  std::vector<urma_ext_provider_t> providers() const;
  bool is_from_sysfs(const urma_device_t* device) const;
  // The device of an alias; any other device itself.
  urma_device_t* real_device(urma_device_t* device) const;
  // Reads attributes and EIDs of a sysfs device again. Throws Error if it cannot be reached.
  void refresh(urma_device_t* device);
  std::vector<urma_eid_info_t> eids_of(const urma_device_t* device) const;
  // The EID of this index, with the provider's index; nothing if there is none.
  std::optional<urma_eid_info_t> provider_eid(const urma_device_t* device,
                                              uint32_t eid_index) const;
  // The same, read again for a sysfs device.
  std::vector<urma_eid_info_t> current_eids(const urma_device_t* device);

  // The files of devices that providers have made.
  std::vector<ShownDevice> shown() const;

  // A uasid from a provider; nothing if none gives one.
  std::optional<uint32_t> provider_uasid() const;

 private:
  struct Provider {
    urma_provider_ops_t* ops;
    bool ready;  // its init has succeeded
    // Made in urma_init: asking the dynamic linker may block, and the service thread must not.
    urma_ext_provider_t described;
  };

  urma_sysfs_dev* listed(const urma_device_t* device) const URMA_REQUIRES(mutex_);
  // Of an alias: that of its device.
  urma_sysfs_dev* entry_of(const urma_device_t* device) const URMA_REQUIRES(mutex_);
  // How many EIDs the real device has room for.
  uint32_t eid_slots(const urma_device_t* device) const;
  // Its EIDs with the provider's indexes.
  std::vector<urma_eid_info_t> provider_eids(const urma_device_t* device) const
      URMA_REQUIRES(mutex_);
  // rescan() without log lines: *complaints gets one for each alias that a device of its name hides
  // from now on.
  void look_again(std::vector<std::string>* complaints);
  // Whether there is a device of this name now that is not an alias.
  bool has_device(const std::string& name) const URMA_REQUIRES(mutex_);
  // The setting that asks for an alias of this name; NULL: none does.
  const char* asking_for(const std::string& name) const URMA_REQUIRES(mutex_);
  urma_sysfs_dev* named(const std::string& name) const URMA_REQUIRES(mutex_);
  // False if the name is taken or the device does not exist yet.
  bool add_alias(const Alias& alias) URMA_REQUIRES(mutex_);
  void add_aliases(std::vector<Alias> aliases, std::vector<std::string>* complaints);
  urma_provider_ops_t* match(const SysfsDevice& device) const URMA_REQUIRES(mutex_);
  urma_sysfs_dev* add(urma_provider_ops_t* ops, const std::string& name, urma_transport_type_t type,
                      const urma_device_attr_t& attr) URMA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Provider> providers_ URMA_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<urma_sysfs_dev>> devices_ URMA_GUARDED_BY(mutex_);
  std::vector<Alias> aliases_ URMA_GUARDED_BY(mutex_);
  std::vector<urma_ext_provider_t> failed_ URMA_GUARDED_BY(mutex_);
  std::map<const urma_provider_ops_t*, std::string> reasons_
      URMA_GUARDED_BY(mutex_);  // of explain()

  std::atomic<const urma_ext_rdma_interface_t*> rdma_interface_{nullptr};
};

// The kernel's end of a sysfs device. Throws Error if it cannot be opened.
Fd open_char_device(const urma_device_t* device);

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_DEVICES_H_
