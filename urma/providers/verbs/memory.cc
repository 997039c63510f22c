// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/memory.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "urma/base/error.h"

namespace urma::verbs {
namespace {

constexpr uint32_t kRemoteRights = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;

// Owners may always write their own memory, and what peers may write, the device requires owners to
// be able to.
int granted_access(const DeviceInfo& info, uint32_t access) {
  int flags = IBV_ACCESS_LOCAL_WRITE;
  if ((access & URMA_ACCESS_READ) != 0) flags |= IBV_ACCESS_REMOTE_READ;
  if ((access & URMA_ACCESS_WRITE) != 0) flags |= IBV_ACCESS_REMOTE_WRITE;
  if ((access & URMA_ACCESS_ATOMIC) != 0 && info.has_atomics()) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  return flags;
}

std::string locked_limit() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? std::string("unlimited")
                                         : urma::format("{} bytes", limit.rlim_cur);
}

[[noreturn]] void fail_registering(const DeviceInfo& info, uint64_t va, uint64_t bytes, int error) {
  const auto what = urma::format("registering {} bytes at {:#x} with {}", bytes, va, info.name);
  switch (error) {
    case ENOMEM:
      fail(URMA_ENOMEM,
           "{}: no memory for it may be locked; `ulimit -l` allows {}, and the device {} regions",
           what, locked_limit(), info.limits.orig_attr.max_mr);
    case EFAULT:
      fail(URMA_EINVAL, "{}: it is not all mapped, or is memory that devices cannot reach", what);
    case EOPNOTSUPP:
      fail(URMA_EINVAL, "{}: the device cannot reach memory of this kind", what);
    case EINVAL:
      fail(URMA_EINVAL, "{}: the device refuses it; its largest region has {} bytes", what,
           info.limits.orig_attr.max_mr_size);
    default:
      fail(error == 0 ? URMA_FAIL : error, "{}: {}", what, std::strerror(error));
  }
}

}  // namespace

// `do_register` takes access flags and returns an ibv_mr, or NULL with errno.
template <typename Register>
void MemoryRegion::make(const Device& device, const Options& options, Register&& do_register) {
  const auto& info = device.info();
  const uint32_t rights = options.access & kRemoteRights;
  const int common = options.non_pin && info.has_on_demand() ? IBV_ACCESS_ON_DEMAND : 0;
  const int granted = granted_access(info, rights) | common;
  // The answer to a READ is a write of the peer's for iWARP.
  const int local = granted | (info.iwarp() ? IBV_ACCESS_REMOTE_WRITE : 0);
  remote_ = rights != 0;
  const auto attempt = [&](int flags) {
    errno = 0;
    return MrHandle(&device.api(), do_register(flags));
  };
  local_ = attempt(local);
  // EFAULT is also what memory gets that is mapped for reading only, and that serves well as long
  // as nobody writes it.
  if (!local_ && errno == EFAULT && (rights & ~URMA_ACCESS_READ) == 0) {
    local_ = attempt(granted & ~IBV_ACCESS_LOCAL_WRITE);
    writable_ = false;
  }
  if (!local_) fail_registering(info, va_, bytes_, errno);
  if (!remote_ || local == granted || !writable_) return;
  granted_ = attempt(granted);
  if (!granted_) fail_registering(info, va_, bytes_, errno);
}

MemoryRegion::MemoryRegion(const Device& device, uint64_t va, uint64_t bytes,
                           const Options& options)
    : va_(va), bytes_(bytes) {
  make(device, options, [&](int flags) {
    return device.api().reg_mr(device.pd(), reinterpret_cast<void*>(va), bytes, flags);
  });
}

MemoryRegion::MemoryRegion(const Device& device, int dmabuf, uint64_t offset, uint64_t va,
                           uint64_t bytes, const Options& options)
    : va_(va), bytes_(bytes) {
  make(device, options, [&](int flags) {
    return device.api().reg_dmabuf_mr(device.pd(), offset, bytes, va, dmabuf, flags);
  });
}

std::optional<uint32_t> MemoryRegion::rkey() const {
  if (!remote_) return std::nullopt;
  return granted_ ? granted_->rkey : local_->rkey;
}

bool has_dmabuf(const Device& device) {
  errno = 0;
  const MrHandle none(&device.api(), device.api().reg_dmabuf_mr(device.pd(), 0, 4096, 0, -1,
                                                                IBV_ACCESS_LOCAL_WRITE));
  // The descriptor is looked at only by devices that can do it.
  return none || errno == EBADF;
}

}  // namespace urma::verbs
