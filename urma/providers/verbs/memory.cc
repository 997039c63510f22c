// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "urma/base/error.h"
#include "urma/providers/verbs/device.h"

namespace urma::verbs {
namespace {

constexpr uint32_t kRemoteRights = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;

// Owners may always write their own memory; for memory that peers may write, the device requires
// that.
int granted_access(const DeviceInfo& info, uint32_t access) {
  int flags = IBV_ACCESS_LOCAL_WRITE;
  if ((access & URMA_ACCESS_READ) != 0) flags |= IBV_ACCESS_REMOTE_READ;
  if ((access & URMA_ACCESS_WRITE) != 0) flags |= IBV_ACCESS_REMOTE_WRITE;
  if ((access & URMA_ACCESS_ATOMIC) != 0 && info.has_atomics()) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  return flags;
}

}  // namespace

void MemoryRegion::fail_registering(const DeviceInfo& info, int error) const {
  const auto what =
      dmabuf_.valid()
          ? urma::format("registering {} bytes at {:#x} of a dma-buf with {}", bytes_, offset_,
                         info.name)
          : urma::format("registering {} bytes at {:#x} with {}", bytes_, va_, info.name);
  switch (error) {
    case ENOMEM:
      fail(URMA_ENOMEM,
           "{}: no more memory may be locked; `ulimit -l` allows {}: raise it, or give "
           "CAP_IPC_LOCK; the device allows {} regions",
           what, locked_limit(), info.limits.orig_attr.max_mr);
    case EFAULT:
      fail(URMA_EINVAL, "{}: not all of it is mapped, or devices cannot reach it", what);
    case EOPNOTSUPP:
      if (dmabuf_.valid()) {
        fail(EOPNOTSUPP,
             "{}: the device or its driver takes no dma-bufs; copy through memory of this process, "
             "or use a device that does (urma_admin show --whole says: dmabuf)",
             what);
      }
      fail(URMA_EINVAL, "{}: the device cannot reach memory of this kind", what);
    case EBADF:
      fail(URMA_EINVAL, "{}: the descriptor is not a dma-buf; export the memory as one", what);
    case EINVAL:
      fail(URMA_EINVAL, "{}: the device refuses it; its largest region has {} bytes{}", what,
           info.limits.orig_attr.max_mr_size,
           dmabuf_.valid() ? ", and the range must lie in the dma-buf" : "");
    default:
      fail_device(info, what, error);
  }
}

// NULL with errno if the device refuses.
MrHandle MemoryRegion::attempt(const Device& device, int flags) const {
  const Api& api = device.api();
  errno = 0;
  return {&api, dmabuf_.valid()
                    ? api.reg_dmabuf_mr(device.pd(), offset_, bytes_, va_, dmabuf_.get(), flags)
                    : api.reg_mr(device.pd(), reinterpret_cast<void*>(va_), bytes_, flags)};
}

// Each region counts against the limit of locked memory: one serves both this process and its
// peers, if the device can tell them apart.
void MemoryRegion::make(const Device& device, const Options& options) {
  const auto& info = device.info();
  const uint32_t rights = options.access & kRemoteRights;
  const int common = options.non_pin && info.has_on_demand() ? IBV_ACCESS_ON_DEMAND : 0;
  const int granted = granted_access(info, rights) | common;
  // On iWARP, the answer to a READ is a write by the peer.
  own_flags_ = IBV_ACCESS_LOCAL_WRITE | common | (info.iwarp() ? IBV_ACCESS_REMOTE_WRITE : 0);
  const bool apart = rights != 0 && (options.apart || (own_flags_ & ~granted) != 0);
  remote_ = rights != 0;
  local_ = attempt(device, apart ? own_flags_ : own_flags_ | granted);
  // Memory mapped for reading only also gets EFAULT; it works as long as nobody writes to it.
  if (!local_ && errno == EFAULT && (rights & ~URMA_ACCESS_READ) == 0) {
    own_flags_ = common;
    local_ = attempt(device, granted & ~IBV_ACCESS_LOCAL_WRITE);
    writable_ = false;
  }
  if (!local_) fail_registering(info, errno);
  if (!apart || !writable_) return;
  granted_ = attempt(device, granted);
  if (!granted_) fail_registering(info, errno);
}

MemoryRegion::MemoryRegion(const Device& device, uint64_t va, uint64_t bytes,
                           const Options& options)
    : va_(va), bytes_(bytes) {
  make(device, options);
}

MemoryRegion::MemoryRegion(const Device& device, int dmabuf, uint64_t offset, uint64_t va,
                           uint64_t bytes, const Options& options)
    : va_(va), bytes_(bytes), offset_(offset), dmabuf_(::fcntl(dmabuf, F_DUPFD_CLOEXEC, 0)) {
  if (!dmabuf_.valid()) fail_errno(URMA_EINVAL, urma::format("taking the dma-buf {}", dmabuf));
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  if (va % page != offset % page) {
    fail(URMA_EINVAL,
         "registering a dma-buf: va {:#x} and offset {:#x} differ modulo the page size {}; choose "
         "a va that equals the offset modulo that",
         va, offset, page);
  }
  make(device, options);
  if (!remote_) dmabuf_ = Fd();
}

MrHandle MemoryRegion::revoke(const Device& device) {
  if (!std::exchange(remote_, false)) return {};
  if (granted_) return std::move(granted_);
  const int error = device.api().rereg_mr(local_.get(), IBV_REREG_MR_CHANGE_ACCESS, device.pd(),
                                          nullptr, 0, own_flags_);
  if (error == 0) return {};
  MrHandle other = attempt(device, own_flags_);
  if (!other) {
    // Both at once may exceed a limit.
    local_.reset();
    other = attempt(device, own_flags_);
  }
  return std::exchange(local_, std::move(other));
}

std::optional<uint32_t> MemoryRegion::rkey() const {
  if (!remote_) return std::nullopt;
  return granted_ ? granted_->rkey : local_->rkey;
}

bool has_dmabuf(const Api& api, ibv_pd* pd) {
  errno = 0;
  const MrHandle none(&api, api.reg_dmabuf_mr(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
  // Only devices with dma-buf support look at the descriptor.
  return none || errno == EBADF;
}

}  // namespace urma::verbs
