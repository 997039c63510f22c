// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_MEMORY_H_
#define URMA_PROVIDERS_VERBS_MEMORY_H_

#include <cstdint>
#include <optional>

#include "urma/providers/verbs/device.h"

namespace urma::verbs {

// Memory that an RDMA device may reach. Ending it kills its keys at once. It must not outlive the
// Device.
class MemoryRegion {
 public:
  struct Options {
    uint32_t access = URMA_ACCESS_LOCAL_ONLY;  // bits of URMA_ACCESS_*
    bool non_pin = false;                      // where the device can; else the pages are pinned
  };

  // Registers [va, va + bytes) of this process. Throws Error, with nothing registered.
  MemoryRegion(const Device& device, uint64_t va, uint64_t bytes, const Options& options);
  // Registers [offset, offset + bytes) of a dma-buf; requests address its first byte as `va`, which
  // lies where `offset` does in its page. The descriptor may be closed afterwards. Throws Error:
  // URMA_EINVAL where the device cannot do it.
  MemoryRegion(const Device& device, int dmabuf, uint64_t offset, uint64_t va, uint64_t bytes,
               const Options& options);

  uint64_t va() const { return va_; }
  uint64_t bytes() const { return bytes_; }
  // For this process's own requests.
  uint32_t lkey() const { return local_->lkey; }
  // For peers: it lets them do what `access` says. None where that is nothing.
  std::optional<uint32_t> rkey() const;
  // False where the memory is mapped for reading only, and is no place to receive into.
  bool writable() const { return writable_; }

 private:
  template <typename Register>
  void make(const Device& device, const Options& options, Register&& do_register);

  const uint64_t va_;
  const uint64_t bytes_;
  bool remote_ = false;
  bool writable_ = true;
  MrHandle local_;
  MrHandle granted_;  // where peers may do less than the region that serves as a READ's sink
};

// Whether the device registers dma-bufs.
bool has_dmabuf(const Device& device);

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_MEMORY_H_
