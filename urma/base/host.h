// SPDX-License-Identifier: MIT
//
// What exists once in a process lives in liburma.so.0 and reaches each provider module through this
// table. A module needs no symbol of liburma; it exports one function, kModuleEntry.
#ifndef URMA_BASE_HOST_H_
#define URMA_BASE_HOST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "urma/base/log.h"
#include "urma/base/runtime.h"
#include "urma/base/service.h"
#include "urma/base/settings.h"
#include "urma/base/shared_pages.h"
#include "urma_ext.h"
#include "urma_provider.h"

namespace urma {

class Logger {
 public:
  virtual ~Logger() = default;
  virtual bool enabled(urma_vlog_level_t level) const = 0;
  virtual void write(urma_vlog_level_t level, const LogSite& site, std::string_view message) = 0;
};

// Lists the objects of a provider. From any thread, also the service thread: must not wait for
// locks that a program's calls hold while they move data.
class SegmentInspector {
 public:
  virtual ~SegmentInspector() = default;
  // How the parts of a segment, registered or imported, are reached.
  virtual std::vector<urma_ext_part_t> parts(const urma_target_seg_t& segment) const = 0;
  // Append the active queues and the segments, one entry per part, of all its devices. Throw
  // Error(URMA_ENOMEM) before the list exceeds `most` entries.
  virtual void list_queues(size_t most, std::vector<urma_ext_queue_t>* queues) const = 0;
  virtual void list_segments(size_t most, std::vector<urma_ext_segment_t>* segments) const = 0;
  // The same for connections, if the provider has any.
  virtual void list_connections(size_t /*most*/,
                                std::vector<urma_ext_connection_t>* /*connections*/) const {}
};

// Implements urma_ext_register_dmabuf, as urma_ops_t::register_seg implements urma_register_seg.
using RegisterDmabuf = urma_target_seg_t* (*)(urma_context_t* ctx, urma_seg_cfg_t* cfg, int fd,
                                              uint64_t offset);

// A provider's part of the calls of urma_ext.h for memory of devices. No argument is NULL.
struct DeviceMemoryCalls {
  void* (*allocate)(urma_context_t* ctx, urma_ext_pool_t pool, uint64_t bytes);
  urma_status_t (*deallocate)(void* memory);
  urma_status_t (*query)(const void* address, urma_ext_address_t* info);
  // The address of an imported segment, once that is known; NULL if it is not attached.
  void* (*attached)(urma_target_seg_t* segment);
  // As urma_ops_t::register_seg, for a signal: the provider chooses its address for peers.
  urma_target_seg_t* (*register_signal)(urma_context_t* ctx, urma_seg_cfg_t* cfg, uint64_t signal);
  // As `attached`, for a signal; 0 if it is not attached.
  uint64_t (*attached_signal)(urma_target_seg_t* segment);
};

// Gets what was written to the file of a port's state, see docs/reference/shm.md.
class PortControl {
 public:
  virtual ~PortControl() = default;
  // On the service thread. Does nothing if the port is in this state already.
  virtual void set_port(uint32_t port, bool up) = 0;
};

// The details of a device, by default.
constexpr urma_ext_device_t ordinary_details() {
  urma_ext_device_t details = {};
  details.immediate = 1;
  return details;
}

// A module's description of one of its devices. Copied by add_device.
struct DeviceDescription {
  const char* name;
  urma_transport_type_t type;
  urma_device_attr_t attr;
  const urma_eid_t* eids;  // index is eid_index
  uint32_t eid_count;
  const SegmentInspector* inspector;               // NULL: cannot tell; outlives the device
  urma_ext_device_t details = ordinary_details();  // except the provider's name
  RegisterDmabuf register_dmabuf = nullptr;        // NULL: not supported
  const DeviceMemoryCalls* memory = nullptr;       // NULL: none
  PortControl* ports = nullptr;  // NULL: nothing can be written; outlives the device
  uint32_t aggregated_eid = 0;  // index of the EID of aggregated devices over it, in eids or behind
};

// The devices and providers of the process. Everything a module adds is forgotten at urma_uninit.
class Registry {
 public:
  virtual ~Registry() = default;
  virtual void add_provider(urma_provider_ops_t* ops) = 0;
  // From the provider's init: the device exists once init has returned URMA_SUCCESS.
  virtual void add_device(urma_provider_ops_t* ops, const DeviceDescription& device) = 0;
  // From the provider's init, if it succeeds with fewer devices than expected: the reason, for
  // lists of the providers. Not logged.
  virtual void explain(urma_provider_ops_t* ops, const std::string& reason) = 0;
  // The interface by which other providers pin memory of GPUs; NULL: none.
  virtual void set_rdma_interface(const urma_ext_rdma_interface_t* /*interface*/) {}
  virtual const urma_ext_rdma_interface_t* rdma_interface() const { return nullptr; }
  // Sets the reported state of a port of an added device. From any thread.
  virtual void set_port_state(const char* device, uint32_t port, urma_port_state_t state) = 0;
  // Sets the EIDs of an added device, as DeviceDescription does. From any thread.
  virtual void set_eids(const char* /*device*/, std::span<const urma_eid_t> /*eids*/) {}
};

}  // namespace urma

inline constexpr uint32_t kUrmaHostVersion = 8;

// The versioned table. The first call of runtime() makes the Runtime; it throws Error if the
// runtime directory cannot be used.
struct urma_host {
  uint32_t version;
  urma::Logger* logger;
  urma::Settings* settings;
  urma::Registry* registry;
  urma::Service* service;
  urma::Runtime* (*runtime)();
  urma::SharedPages* pages;
};

// The function that each of our modules exports. Called at every urma_init, before the providers'
// init; the module registers its provider with host->registry. Returns 0, or -1 on another version.
extern "C" typedef int urma_module_entry_fn(uint32_t version, const urma_host* host);
inline constexpr char kModuleEntry[] = "urma_module_entry";

namespace urma {

// The table that this copy of the base code was given; NULL before.
const urma_host* host();
void set_host(const urma_host* table);

// The body of the exported function of a module with one provider.
int enter_module(uint32_t version, const urma_host* table, urma_provider_ops_t* ops) noexcept;

}  // namespace urma

#endif  // URMA_BASE_HOST_H_
