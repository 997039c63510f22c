// SPDX-License-Identifier: MIT
//
// Devices named bonding_dev... behave like aggregated devices with one member, the device itself,
// so every setting of the aggregation is checked and has no effect. Of the ports that a queue is
// made for only the number counts: each port would have a queue of full depth.
#ifndef URMA_CORE_API_BONDING_H_
#define URMA_CORE_API_BONDING_H_

#include "urma/core/api/object_ports.h"
#include "urma_provider.h"
#include "urma_types.h"

namespace urma::core {

// Gives the context operations that handle the commands of urma_ubagg.h and otherwise are those of
// its provider.
void aggregate(urma_context_t* ctx);

// The objects of an aggregated context; NULL for any other context.
ObjectPorts* object_ports(const urma_context_t* ctx);

// The context as its provider knows it, while this lives: with its own device and operations.
class ProviderView {
 public:
  ProviderView(urma_context_t* ctx, urma_device_t* real_device);
  ~ProviderView();
  ProviderView(const ProviderView&) = delete;
  ProviderView& operator=(const ProviderView&) = delete;
  // The provider has freed it.
  void context_gone();

 private:
  urma_context_t* ctx_;
  urma_device_t* const device_;
  urma_ops_t* const ops_;
};

}  // namespace urma::core

#endif  // URMA_CORE_API_BONDING_H_
