/* SPDX-License-Identifier: MIT */

// The provider's offer: one fi_info for each device, limited by the hints.

#ifndef OFI_INFO_H
#define OFI_INFO_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include <memory>

#include "ofi/device.h"

namespace urma_fi {

constexpr size_t kMaxPieces = 8;  // of an iovec
constexpr int kMrMode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

// fi_provider.getinfo.
int get_info(uint32_t version, const char* node, const char* service, uint64_t flags,
             const fi_info* hints, fi_info** info);

// Opens the device that `info` names, at the EID of its source address if it has one; *address gets
// the EID and id. Returns 0 or a negative code.
int open_device(const fi_info* info, std::shared_ptr<Device>* device, Address* address);

// Replaces one address of an fi_info.
void set_address(void** place, size_t* size, uint32_t format, const Address& address);

}  // namespace urma_fi

#endif  // OFI_INFO_H
