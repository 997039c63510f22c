// SPDX-License-Identifier: MIT
//
// The loopback provider as a module: its registration, its device, and its contexts.
#include <cstring>
#include <memory>

#include "jetty/context.h"
#include "jetty/device_events.h"
#include "jetty/device_limits.h"
#include "jetty/mishaps.h"
#include "jetty/ops.h"
#include "jetty/wire_transport.h"
#include "jetty/work_request.h"
#include "urma/base/host.h"
#include "urma/base/provider_module.h"
#include "urma/providers/loopback/wire.h"

namespace urma::loopback {
namespace {

constexpr char kDeviceName[] = "urma_loopback0";
constexpr uint32_t kMaxInline = 512;
constexpr uint32_t kMaxSge = 16;
constexpr uint32_t kMaxTransfer = 1U << 31;

void fill_queues(urma_device_cap_t* cap) {
  fill_object_limits(cap);
  cap->max_jfc_depth = kMaxQueueDepth;
  cap->max_jfs_depth = kMaxQueueDepth;
  cap->max_jfr_depth = kMaxQueueDepth;
  cap->max_jfs_inline_len = kMaxInline;
  cap->max_jfs_sge = kMaxSge;
  cap->max_jfs_rsge = kMaxSge;
  cap->max_jfr_sge = kMaxSge;
  cap->max_msg_size = kMaxTransfer;
  cap->max_read_size = kMaxTransfer;
  cap->max_write_size = kMaxTransfer;
  cap->ceq_cnt = 1;
}

// What the device tells of itself. The limits are what programs may ask for.
urma_device_attr_t describe_device(uint32_t eid_count) {
  urma_device_attr_t attr = {};
  std::memcpy(attr.guid.raw, kDeviceName, sizeof(kDeviceName));
  fill_queues(&attr.dev_cap);
  fill_transport(&attr.dev_cap, true);
  fill_atomics(&attr.dev_cap, kHasWideAtomics ? 16 : 8);
  fill_priorities(&attr.dev_cap);
  attr.port_cnt = 1;
  attr.port_attr[0] = {URMA_MTU_8192, URMA_PORT_ACTIVE, URMA_LINK_X16, URMA_SP_400G, URMA_MTU_8192};
  attr.dev_cap.max_eid_cnt = eid_count;
  attr.dev_cap.max_netaddr_cnt = eid_count;
  attr.dev_cap.feature.bs.non_pin = 1;
  attr.dev_cap.feature.bs.muti_seg_per_token_id = 1;
  attr.dev_cap.feature.bs.jetty_grp = 1;
  attr.dev_cap.page_size_cap = 4096;
  attr.reserved_jetty_id_min = 1;
  attr.reserved_jetty_id_max = kMaxObjects;
  return attr;
}

urma_ops_t context_ops;

class Provider {
 public:
  static constexpr char kName[] = "loopback";

  explicit Provider(urma_provider_ops_t* ops) {
    DeviceDescription device = {
        kDeviceName, URMA_TRANSPORT_UB, attr_, eids_.data(), static_cast<uint32_t>(eids_.size()),
        &engine_};
    device.ports = &mishaps_;
    host()->registry->add_device(ops, device);
    context_ops = make_ops(kName);
    engine_.add_post_ops(&context_ops);
  }
  ~Provider() { engine_.stop(); }

  bool has_devices() const { return true; }
  const urma_device_attr_t& attr_of(const urma_device_t& /*dev*/) const { return attr_; }
  size_t eids_of(const urma_device_t& /*dev*/) const { return eids_.size(); }
  urma_context_t* open_context(urma_device_t* dev, uint32_t eid_index) {
    auto context = std::make_unique<Context>(&engine_, attr_, dev, eid_index);
    context->ops = &context_ops;
    events_.add(&context->events());
    mishaps_.begin();
    return context.release();
  }
  static void close_context(Provider* provider, urma_context_t* ctx) {
    auto* context = static_cast<Context*>(ctx);
    if (provider != nullptr) provider->events_.remove(&context->events());
    delete context;
  }

 private:
  const std::span<const urma_eid_t> eids_ = host()->runtime()->eids();
  const urma_device_attr_t attr_ = describe_device(static_cast<uint32_t>(eids_.size()));
  LoopbackWire wire_;
  WireTransport engine_{*host(), &wire_, kMaxTransfer};
  DeviceEvents events_;
  Mishaps mishaps_{kDeviceName, &engine_, host()->registry, &events_};
};

}  // namespace
}  // namespace urma::loopback

extern "C" __attribute__((visibility("default"))) int urma_module_entry(uint32_t version,
                                                                        const urma_host* host) {
  return urma::Module<urma::loopback::Provider>::enter(version, host);
}
