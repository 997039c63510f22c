// SPDX-License-Identifier: MIT
//
// A device that exists in software, for its provider: the contexts that are open on it, and what
// happens to all of them.
#ifndef JETTY_SOFTWARE_DEVICE_H_
#define JETTY_SOFTWARE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "jetty/context.h"
#include "jetty/device_events.h"
#include "jetty/mishaps.h"
#include "jetty/transport.h"
#include "urma/base/host.h"

namespace urma {

class SoftwareDevice {
 public:
  // `name` and `transport` outlive it. One of several devices over a transport has `faults` of its
  // own; NULL: it has those of the transport.
  SoftwareDevice(const char* name, Transport* transport, std::unique_ptr<Faults> faults = nullptr)
      : name_(name), transport_(transport), faults_(std::move(faults)) {}

  // For the registry.
  DeviceDescription describe(const urma_device_attr_t& attr, std::span<const urma_eid_t> eids) {
    DeviceDescription device = {
        name_,     URMA_TRANSPORT_UB, attr, eids.data(), static_cast<uint32_t>(eids.size()),
        transport_};
    device.ports = &mishaps_;
    return device;
  }

  // `ops` outlive the context, which may outlive the device.
  urma_context_t* open(urma_ops_t* ops, const urma_device_attr_t& attr, urma_device_t* dev,
                       uint32_t eid_index) {
    auto context = std::make_unique<Context>(transport_, attr, dev, eid_index, faults_.get());
    context->ops = ops;
    // The last that can fail: it keeps a pointer to the context.
    events_.add(&context->events());
    // They may raise events at once.
    mishaps_.begin();
    return context.release();
  }
  // NULL: the device has ended.
  static void close(SoftwareDevice* device, urma_context_t* ctx) {
    auto* context = static_cast<Context*>(ctx);
    if (device != nullptr) device->events_.remove(&context->events());
    delete context;
  }

  // Tells all contexts.
  void raise(urma_async_event_type_t type, uint32_t element) { events_.raise(type, element); }

 private:
  const char* const name_;
  Transport* const transport_;
  const std::unique_ptr<Faults> faults_;
  DeviceEvents events_;
  Mishaps mishaps_{name_, transport_, host()->registry, &events_, faults_.get()};
};

}  // namespace urma

#endif  // JETTY_SOFTWARE_DEVICE_H_
