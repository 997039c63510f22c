// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_MEMORY_H_
#define URMA_PROVIDERS_VERBS_MEMORY_H_

#include <cstdint>
#include <optional>

#include "urma/base/fd.h"
#include "urma/providers/verbs/device.h"

namespace urma::verbs {

// Memory that an RDMA device may reach. Ending it kills its keys at once. It must not outlive the
// Device.
class MemoryRegion {
 public:
  struct Options {
    uint32_t access = URMA_ACCESS_LOCAL_ONLY;  // bits of URMA_ACCESS_*
    bool non_pin = false;                      // where the device can; else the pages are pinned
    bool apart = false;  // this process and its peers have regions of their own in any case
  };

  // Registers [va, va + bytes) of this process. Throws Error, with nothing registered.
  MemoryRegion(const Device& device, uint64_t va, uint64_t bytes, const Options& options);
  // Registers [offset, offset + bytes) of a dma-buf; requests address its first byte as `va`, which
  // lies where `offset` does in its page. The descriptor may be closed afterwards. Throws Error:
  // EOPNOTSUPP where the device cannot do it.
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

  // Ends what peers may do; this process goes on. Devices that cannot take rights from a region get
  // another one in its place, with another lkey(). The old one is what is returned: to be ended at
  // once, since its key still opens it, but not before lkey() is what requests begin to name. Those
  // that the device has already, fail then. False in usable(): there was no memory for another one.
  [[nodiscard]] MrHandle revoke(const Device& device);
  bool usable() const { return static_cast<bool>(local_); }

 private:
  void make(const Device& device, const Options& options);
  [[noreturn]] void fail_registering(const DeviceInfo& info, int error) const;
  MrHandle attempt(const Device& device, int flags) const;

  const uint64_t va_;
  const uint64_t bytes_;
  const uint64_t offset_ = 0;  // in the dma-buf
  Fd dmabuf_;                  // while it may have to be registered again
  bool remote_ = false;
  bool writable_ = true;
  int own_flags_ = 0;  // what the device needs for this process alone
  MrHandle local_;
  MrHandle granted_;  // where peers may do less than the region that serves as a READ's sink
};

// Whether the device registers dma-bufs.
bool has_dmabuf(const Api& api, ibv_pd* pd);

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_MEMORY_H_
