// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_MEMORY_H_
#define URMA_PROVIDERS_VERBS_MEMORY_H_

#include <cstdint>
#include <optional>

#include "urma/base/fd.h"
#include "urma/providers/verbs/device.h"

namespace urma::verbs {

// Memory that an RDMA device may reach. Destruction invalidates its keys at once. Must not outlive
// the Device.
class MemoryRegion {
 public:
  struct Options {
    uint32_t access = URMA_ACCESS_LOCAL_ONLY;  // bits of URMA_ACCESS_*
    bool non_pin = false;  // if the device supports it; else the pages are pinned
    bool apart = false;    // always separate regions for this process and its peers
  };

  // Registers [va, va + bytes) of this process. Throws Error, with nothing registered.
  MemoryRegion(const Device& device, uint64_t va, uint64_t bytes, const Options& options);
  // Registers [offset, offset + bytes) of a dma-buf; requests address its first byte as `va`, which
  // has the same offset in its page as `offset`. The descriptor may be closed afterwards. Throws
  // Error: EOPNOTSUPP if the device does not support it.
  MemoryRegion(const Device& device, int dmabuf, uint64_t offset, uint64_t va, uint64_t bytes,
               const Options& options);

  uint64_t va() const { return va_; }
  uint64_t bytes() const { return bytes_; }
  // For this process's own requests.
  uint32_t lkey() const { return local_->lkey; }
  // For peers: allows what `access` says. None if that is nothing.
  std::optional<uint32_t> rkey() const;
  // False if the memory is mapped for reading only, so nothing can be received into it.
  bool writable() const { return writable_; }

  // Ends peers' access; this process goes on. A device that cannot take rights from a region gets a
  // new one in its place, with another lkey(). Returns the old one: end it at once, since its key
  // still grants access, but only after requests name the new lkey(). Requests already at the
  // device fail then. False in usable(): there was no memory for a new one.
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
  MrHandle granted_;  // if peers may do less than the region that receives READs
};

// Whether the device registers dma-bufs.
bool has_dmabuf(const Api& api, ibv_pd* pd);

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_MEMORY_H_
