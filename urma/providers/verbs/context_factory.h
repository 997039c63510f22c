// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_CONTEXT_FACTORY_H_
#define URMA_PROVIDERS_VERBS_CONTEXT_FACTORY_H_

#include <cstdint>
#include <memory>

#include "urma/base/host.h"
#include "urma/providers/verbs/device.h"
#include "urma/providers/verbs/inspector.h"

namespace urma::verbs {

// Opens a device for a program: the context keeps it open, and shows itself to the inspector. Its
// operations are set; core fills in the rest of the public struct. Throws Error.
urma_context_t* open_context(const urma_host& host, Inspector* inspector,
                             const std::shared_ptr<Device>& device, urma_device_t* dev,
                             uint32_t eid_index);
// urma_ext_register_dmabuf. Throws Error.
urma_target_seg_t* register_memory_of(urma_context_t* ctx, urma_seg_cfg_t* cfg, int dmabuf,
                                      uint64_t offset);
void close_context(urma_context_t* ctx);

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONTEXT_FACTORY_H_
