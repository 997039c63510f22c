// SPDX-License-Identifier: MIT
//
// What exists once in a process lives in liburma.so.0 and reaches each provider module through this
// table. A module needs no symbol of liburma; it exports one function, kModuleEntry.
#ifndef URMA_BASE_HOST_H_
#define URMA_BASE_HOST_H_

#include <cstddef>
#include <cstdint>
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

// Tells what a provider has. From any thread, also the service thread: none of it may wait for
// what a program's own calls hold while they move data.
class SegmentInspector {
 public:
  virtual ~SegmentInspector() = default;
  // How the parts of a segment, registered or imported, are reached.
  virtual std::vector<urma_ext_part_t> parts(const urma_target_seg_t& segment) const = 0;
  // Append the active queues and the segments, an entry for each part, of all its devices. Throw
  // Error(URMA_ENOMEM) before there are more than `most` in the list.
  virtual void list_queues(size_t most, std::vector<urma_ext_queue_t>* queues) const = 0;
  virtual void list_segments(size_t most, std::vector<urma_ext_segment_t>* segments) const = 0;
  // The same of connections, for who has any.
  virtual void list_connections(size_t /*most*/,
                                std::vector<urma_ext_connection_t>* /*connections*/) const {}
};

// urma_ext_register_dmabuf, as urma_ops_t::register_seg is urma_register_seg.
using RegisterDmabuf = urma_target_seg_t* (*)(urma_context_t* ctx, urma_seg_cfg_t* cfg, int fd,
                                              uint64_t offset);

// The calls of urma_ext.h on memory of devices, with arguments that are there. Of a provider.
struct DeviceMemoryCalls {
  void* (*allocate)(urma_context_t* ctx, urma_ext_pool_t pool, uint64_t bytes);
  urma_status_t (*deallocate)(void* memory);
  urma_status_t (*query)(const void* address, urma_ext_address_t* info);
  // Where an imported segment is attached, once that is clear; NULL where it is not.
  void* (*attached)(urma_target_seg_t* segment);
  // As urma_ops_t::register_seg, of a signal: what peers are to call it is for the provider to say.
  urma_target_seg_t* (*register_signal)(urma_context_t* ctx, urma_seg_cfg_t* cfg, uint64_t signal);
  // As `attached`, of a signal; 0 where it is not.
  uint64_t (*attached_signal)(urma_target_seg_t* segment);
};

// Takes what somebody has written to the file of a port's state, see docs/reference/shm.md.
class PortControl {
 public:
  virtual ~PortControl() = default;
  // Service thread. Nothing happens where the port is in this state already.
  virtual void set_port(uint32_t port, bool up) = 0;
};

// What there is to know of a device whose module says nothing else.
constexpr urma_ext_device_t ordinary_details() {
  urma_ext_device_t details = {};
  details.immediate = 1;
  return details;
}

// What a module says of one of its devices. Copied by add_device.
struct DeviceDescription {
  const char* name;
  urma_transport_type_t type;
  urma_device_attr_t attr;
  const urma_eid_t* eids;  // index is eid_index
  uint32_t eid_count;
  const SegmentInspector* inspector;               // NULL where it cannot tell; outlives the device
  urma_ext_device_t details = ordinary_details();  // but for the provider's name
  RegisterDmabuf register_dmabuf = nullptr;        // NULL where it cannot
  const DeviceMemoryCalls* memory = nullptr;       // NULL where there is none
  PortControl* ports = nullptr;  // NULL where nothing can be written; as inspector
  uint32_t aggregated_eid = 0;  // index of the EID of aggregated devices over it, in eids or behind
};

// The devices and providers of the process. Everything a module adds is forgotten at urma_uninit.
class Registry {
 public:
  virtual ~Registry() = default;
  virtual void add_provider(urma_provider_ops_t* ops) = 0;
  // From the provider's init: the device is there once init has returned URMA_SUCCESS.
  virtual void add_device(urma_provider_ops_t* ops, const DeviceDescription& device) = 0;
  // From the provider's init, where it succeeds but has fewer devices than one might expect: why.
  // Whoever asks for the providers is told; nothing is logged.
  virtual void explain(urma_provider_ops_t* ops, const std::string& reason) = 0;
  // What providers of other devices pin memory of GPUs by: NULL where there is none.
  virtual void set_rdma_interface(const urma_ext_rdma_interface_t* /*interface*/) {}
  virtual const urma_ext_rdma_interface_t* rdma_interface() const { return nullptr; }
  // What is told from now on of a port of a device that was added. From any thread.
  virtual void set_port_state(const char* device, uint32_t port, urma_port_state_t state) = 0;
};

}  // namespace urma

inline constexpr uint32_t kUrmaHostVersion = 7;

// The versioned table. `runtime` is made by the first call of runtime(), which throws Error where
// the runtime directory cannot be used.
struct urma_host {
  uint32_t version;
  urma::Logger* logger;
  urma::Settings* settings;
  urma::Registry* registry;
  urma::Service* service;
  urma::Runtime* (*runtime)();
  urma::SharedPages* pages;
};

// The function that every module of ours exports. Called at every urma_init, before the providers'
// init; the module registers its provider with host->registry. Returns 0, or -1 on another version.
extern "C" typedef int urma_module_entry_fn(uint32_t version, const urma_host* host);
inline constexpr char kModuleEntry[] = "urma_module_entry";

namespace urma {

// The table that this copy of the base code was given; NULL before.
const urma_host* host();
void set_host(const urma_host* table);

// What the exported function of a module with one provider does, and returns.
int enter_module(uint32_t version, const urma_host* table, urma_provider_ops_t* ops) noexcept;

}  // namespace urma

#endif  // URMA_BASE_HOST_H_
