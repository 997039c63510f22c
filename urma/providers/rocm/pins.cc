// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/pins.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <vector>

#include "urma/base/log.h"

namespace urma::rocm {
namespace {

std::atomic<Pins*> the_pins{nullptr};

void* pointer(uint64_t va) { return reinterpret_cast<void*>(va); }

}  // namespace

struct Pins::Pin : urma_ext_pinned_t {
  uint64_t base;
  void (*free_callback)(void*);
  void* client_priv;
};

Pins::Pins(const HsaRuntime* runtime) : runtime_(runtime) { the_pins.store(this); }

// A program that has not unpinned by now has a handle that says so.
Pins::~Pins() { the_pins.store(nullptr); }

const urma_ext_rdma_interface_t* Pins::interface() {
  static constexpr urma_ext_rdma_interface_t kInterface = {
      2, 0, pin, unpin, is_device_va, va_page_size, pin_1_0};
  return &kInterface;
}

bool Pins::find(uint64_t va, uint64_t bytes, hsa_amd_pointer_info_t* info) const {
  const auto status = pointer_info(api(), pointer(va), info);
  if (status != HSA_STATUS_SUCCESS || info->type != HSA_EXT_POINTER_TYPE_HSA) return false;
  const Agent* const owner = runtime_->topology().find(info->agentOwner);
  const auto base = reinterpret_cast<uint64_t>(info->agentBaseAddress);
  return owner != nullptr && owner->gpu && va >= base && bytes <= info->sizeInBytes &&
         va - base <= info->sizeInBytes - bytes;
}

int Pins::is_device_va(uint64_t va) noexcept {
  const Pins* const pins = the_pins.load();
  hsa_amd_pointer_info_t info;
  return pins != nullptr && va != 0 && pins->find(va, 1, &info) ? 1 : 0;
}

int Pins::va_page_size(uint64_t va, uint64_t bytes, unsigned long* page_size) noexcept {
  const Pins* const pins = the_pins.load();
  hsa_amd_pointer_info_t info;
  if (pins == nullptr || page_size == nullptr || !pins->find(va, bytes, &info)) return -EINVAL;
  for (const Pool& pool : pins->runtime_->topology().find(info.agentOwner)->pools) {
    if (pool.flags != info.global_flags || pool.granule == 0) continue;
    *page_size = pool.granule;
    return 0;
  }
  return -EINVAL;
}

int Pins::pin(uint64_t va, uint64_t bytes, const char* /*device*/, urma_ext_pinned_t** pinned,
              void (*free_callback)(void*), void* client_priv) noexcept {
  Pins* const pins = the_pins.load();
  if (pins == nullptr) return -ENODEV;
  if (pinned == nullptr || va == 0 || bytes == 0) return -EINVAL;
  try {
    return pins->make(va, bytes, pinned, free_callback, client_priv);
  } catch (...) {
    return -ENOMEM;
  }
}

int Pins::pin_1_0(uint64_t va, uint64_t bytes, urma_ext_pinned_t** pinned,
                  void (*free_callback)(void*), void* client_priv) noexcept {
  return pin(va, bytes, nullptr, pinned, free_callback, client_priv);
}

// A dma-buf is mapped for any device that imports it; the offset is that of the address passed.
int Pins::make(uint64_t va, uint64_t bytes, urma_ext_pinned_t** pinned,
               void (*free_callback)(void*), void* client_priv) {
  hsa_amd_pointer_info_t info;
  if (!find(va, bytes, &info)) {
    URMA_LOG_LIMITED(ERR, "{} bytes at va {:#x} are not memory of one GPU allocation", bytes, va);
    return -EINVAL;
  }
  if (api().export_dmabuf == nullptr) {
    URMA_LOG_LIMITED(ERR, "the HSA runtime exports no dma-bufs; use ROCm 5.6 or newer");
    return -EOPNOTSUPP;
  }
  auto made = std::make_unique<Pin>();
  static_cast<urma_ext_pinned_t&>(*made) = {va, bytes, -1, 0, 0, made.get()};
  made->base = reinterpret_cast<uint64_t>(info.agentBaseAddress);
  made->free_callback = free_callback;
  made->client_priv = client_priv;
  const MutexLock lock(mutex_);
  const auto status = api().export_dmabuf(pointer(va), bytes, &made->dmabuf, &made->offset);
  if (status != HSA_STATUS_SUCCESS) {
    URMA_LOG_LIMITED(ERR, "hsa_amd_portable_export_dmabuf of {} bytes at va {:#x}: {}", bytes, va,
                     status_text(api(), status));
    return -EOPNOTSUPP;
  }
  const bool first = std::none_of(pins_.begin(), pins_.end(),
                                  [&](const Pin* pin) { return pin->base == made->base; });
  if (first) api().hsa_amd_register_deallocation_callback(pointer(made->base), on_freed, this);
  pins_.insert(made.get());
  *pinned = made.release();
  return 0;
}

int Pins::unpin(urma_ext_pinned_t** pinned) noexcept {
  Pins* const pins = the_pins.load();
  if (pinned == nullptr || *pinned == nullptr) return -EINVAL;
  if (pins == nullptr) return -ENODEV;
  const int error = pins->end(static_cast<Pin*>((*pinned)->priv));
  if (error == 0) *pinned = nullptr;
  return error;
}

int Pins::end(Pin* pin) {
  const MutexLock lock(mutex_);
  if (pins_.erase(pin) == 0) return -EINVAL;
  const bool last = std::none_of(pins_.begin(), pins_.end(),
                                 [=](const Pin* other) { return other->base == pin->base; });
  // 0: it was freed, and the runtime has dropped the callback.
  if (last && pin->base != 0) {
    api().hsa_amd_deregister_deallocation_callback(pointer(pin->base), on_freed);
  }
  if (api().close_dmabuf == nullptr || api().close_dmabuf(pin->dmabuf) != HSA_STATUS_SUCCESS) {
    ::close(pin->dmabuf);
  }
  delete pin;
  return 0;
}

void Pins::on_freed(void* base, void* pins) {
  static_cast<Pins*>(pins)->freed(reinterpret_cast<uint64_t>(base));
}

void Pins::freed(uint64_t base) {
  const MutexLock lock(mutex_);
  // A callback may unpin any of them.
  while (true) {
    const auto next =
        std::find_if(pins_.begin(), pins_.end(), [=](const Pin* pin) { return pin->base == base; });
    if (next == pins_.end()) return;
    Pin* const pin = *next;
    pin->base = 0;
    if (pin->free_callback != nullptr) pin->free_callback(pin->client_priv);
  }
}

}  // namespace urma::rocm
