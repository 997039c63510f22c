// SPDX-License-Identifier: MIT
//
// Devices that are called bonding_dev... answer like aggregated devices: there is one member, the
// device itself, so every setting of the aggregation is checked and means nothing. Of ports that a
// queue is made for only their number counts: a queue of each port would have the full depth.
#ifndef URMA_CORE_API_BONDING_H_
#define URMA_CORE_API_BONDING_H_

#include "urma/core/api/object_ports.h"
#include "urma_provider.h"
#include "urma_types.h"

namespace urma::core {

// Gives the context operations that know the commands of urma_ubagg.h, and otherwise are those of
// its provider.
void aggregate(urma_context_t* ctx);

// What an aggregated context knows of its objects; NULL for any other context.
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
