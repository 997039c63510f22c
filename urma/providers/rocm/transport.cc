// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/transport.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "jetty/context.h"
#include "jetty/faulty.h"
#include "segment/shared_memory.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/rocm/landing.h"
#include "urma/providers/rocm/path.h"
#include "urma/providers/shm/link.h"
#include "urma/providers/shm/sender.h"

namespace urma::rocm {
namespace {

Segment* of(urma::Segment* segment) { return static_cast<Segment*>(segment); }

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// The owner's description, if it can be true. A copy, since the owner can still change the
// original.
bool read_description(uint64_t nonce, uint64_t len, Attached& fds, MemoryDescription* description) {
  if (fds.empty()) return false;
  const SharedMemory memory =
      SharedMemory::adopt(std::move(fds[0]), sizeof(*description), PeerMay::kRead);
  std::memcpy(description, memory.data(), sizeof(*description));
  // An owner that was started anew since no longer has that memory.
  return description->nonce == nonce && description->offset <= description->bytes &&
         len <= description->bytes - description->offset &&
         fds.size() == (description->has_fd != 0 ? 2U : 1U);
}

}  // namespace

Transport::Transport(const urma_host& host, const HsaRuntime* runtime,
                     const TransportSettings& settings)
    : shm::Transport("rocm", host, /*has_opaque=*/true),
      settings_(settings),
      copies_(runtime, settings.cpu_bytes),
      attachments_(&copies_, &service(), settings.patience_ns) {
  service().run([this] {
    service().watch(copies_.wake_fd(), EPOLLIN, [this](uint32_t) {
      uint64_t count;
      [[maybe_unused]] const ssize_t got = ::read(copies_.wake_fd(), &count, sizeof(count));
      take_over();
    });
  });
}

void Transport::service_ends() {
  service().unwatch(copies_.wake_fd());
  attachments_.stop();
}

std::unique_ptr<SharedSignal> Transport::share_signal(hsa_signal_t signal) {
  if (!settings_.share) {
    fail(URMA_EINVAL,
         "ext_create_signal_handle: signals are not shared without a GPU; "
         "URMA_ROCM_IPC=on shares them if the runtime can");
  }
  auto made = std::make_unique<SharedSignal>();
  const auto status = copies_.api().hsa_amd_ipc_signal_create(signal, &made->handle);
  if (status != HSA_STATUS_SUCCESS) {
    fail(URMA_EINVAL,
         "ext_create_signal_handle: hsa_amd_ipc_signal_create of signal {:#x}: {}; make it by "
         "hsa_amd_signal_create with HSA_AMD_SIGNAL_IPC",
         signal.handle, status_text(copies_.api(), status));
  }
  const MutexLock lock(mutex_);
  made->generation = ++generations_;
  return made;
}

std::unique_ptr<urma::Segment> Transport::make_segment() { return std::make_unique<Segment>(); }

void Transport::enter(urma::Segment* segment) {
  claim(of(segment));
  try {
    shm::Transport::enter(segment);
  } catch (...) {
    let_go(segment);
    throw;
  }
}

// The runtime decides whose memory it is: memory that it does not know is the program's own.
void Transport::claim(Segment* segment) {
  hsa_amd_pointer_info_t info;
  const auto status =
      pointer_info(copies_.api(), reinterpret_cast<const void*>(segment->base), &info);
  if (status != HSA_STATUS_SUCCESS) {
    fail(URMA_EINVAL, "register_seg: hsa_amd_pointer_info of va {:#x}: {}", segment->base,
         status_text(copies_.api(), status));
  }
  if (info.type == HSA_EXT_POINTER_TYPE_UNKNOWN || info.type == HSA_EXT_POINTER_TYPE_LOCKED) {
    return lock_host_memory(segment);
  }
  const uint64_t begin = number(info.agentBaseAddress);
  if (segment->base < begin || segment->len > info.sizeInBytes ||
      segment->base - begin > info.sizeInBytes - segment->len) {
    fail(URMA_EINVAL,
         "register_seg: the {} bytes at va {:#x} leave their allocation of {} bytes at {:#x}",
         segment->len, segment->base, info.sizeInBytes, begin);
  }
  const Agent* const owner = copies_.topology().find(info.agentOwner);
  if (owner == nullptr) {
    fail(URMA_EINVAL, "register_seg: the agent that owns va {:#x} has no memory", segment->base);
  }
  // Without a way to share it, host memory is like any other.
  if (!settings_.share && !owner->gpu) return;
  if (segment->access != 0 && (!settings_.share || info.type != HSA_EXT_POINTER_TYPE_HSA)) {
    fail(URMA_EINVAL,
         "register_seg: va {:#x} is not memory of this process's own HSA allocations; peers may "
         "not access it: register it LOCAL_ONLY",
         segment->base);
  }
  const MutexLock lock(mutex_);
  segment->allocation = allocation_of(info);
  try {
    if (segment->access != 0) share(segment->allocation.get());
    segment->allocation->segments.push_back(segment);
  } catch (...) {
    forget(std::exchange(segment->allocation, nullptr));
    throw;
  }
  segment->opaque_len = std::exchange(segment->len, 0);
}

// Locks it for the engines, which reach nothing else.
void Transport::lock_host_memory(Segment* segment) {
  auto agents = copies_.topology().handles();
  void* const memory = reinterpret_cast<void*>(segment->base);
  void* for_agent = nullptr;
  const auto status = copies_.api().hsa_amd_memory_lock(
      memory, segment->len, agents.data(), static_cast<int>(agents.size()), &for_agent);
  if (status != HSA_STATUS_SUCCESS) {
    fail(URMA_ENOMEM,
         "register_seg: hsa_amd_memory_lock of {} bytes at va {:#x}: {}; raise ulimit -l, or "
         "register less",
         segment->len, segment->base, status_text(copies_.api(), status));
  }
  segment->locked = memory;
  segment->place = copies_.places().add(
      {segment->base, segment->len, number(for_agent), copies_.topology().cpu()->handle, true});
}

std::shared_ptr<Allocation> Transport::allocation_of(const hsa_amd_pointer_info_t& info) {
  const uint64_t base = number(info.agentBaseAddress);
  const auto known = allocations_.find(base);
  if (known != allocations_.end()) return known->second;
  auto made = std::make_shared<Allocation>();
  made->base = base;
  made->bytes = info.sizeInBytes;
  made->agent = info.agentOwner;
  made->generation = ++generations_;
  made->host_memory = !copies_.topology().find(info.agentOwner)->gpu;
  const bool cpu = info.hostBaseAddress == info.agentBaseAddress &&
                   copies_.topology().cpu_reaches(info.agentOwner, info.global_flags);
  made->place = copies_.places().add({base, made->bytes, base, made->agent, cpu});
  allocations_.emplace(base, made);
  const auto status =
      copies_.api().hsa_amd_register_deallocation_callback(info.agentBaseAddress, on_freed, this);
  if (status != HSA_STATUS_SUCCESS) {
    URMA_LOG_LIMITED(WARNING,
                     "hsa_amd_register_deallocation_callback of {:#x}: {}; unregister its segments "
                     "before it is freed",
                     base, status_text(copies_.api(), status));
  }
  return made;
}

// A dma-buf if the runtime exports one, since it goes over the provider's own connection; else
// the runtime's own handle.
void Transport::share(Allocation* allocation) {
  if (allocation->shared) return;
  void* const base = reinterpret_cast<void*>(allocation->base);
  if (copies_.api().export_dmabuf != nullptr && !allocation->host_memory) {
    int fd = -1;
    uint64_t offset = 0;
    const auto status = copies_.api().export_dmabuf(base, allocation->bytes, &fd, &offset);
    if (status == HSA_STATUS_SUCCESS) {
      allocation->dmabuf.reset(fd);
      allocation->dmabuf_offset = offset;
      allocation->shared = true;
      return;
    }
    URMA_LOG(INFO, "hsa_amd_portable_export_dmabuf: {}", status_text(copies_.api(), status));
  }
  const auto status =
      copies_.api().hsa_amd_ipc_memory_create(base, allocation->bytes, &allocation->handle);
  if (status != HSA_STATUS_SUCCESS) {
    fail(URMA_FAIL,
         "register_seg: hsa_amd_ipc_memory_create of {} bytes at {:#x}: {}; if "
         "HSA_ENABLE_IPC_MODE_LEGACY is set, unset it",
         allocation->bytes, allocation->base, status_text(copies_.api(), status));
  }
  allocation->shared = true;
}

// The last segment of an allocation removes it.
void Transport::forget(const std::shared_ptr<Allocation>& allocation) {
  if (!allocation->segments.empty()) return;
  copies_.places().remove(allocation->base, allocation->place);
  const auto known = allocations_.find(allocation->base);
  // Otherwise it has been freed.
  if (known == allocations_.end() || known->second != allocation) return;
  allocations_.erase(known);
  copies_.api().hsa_amd_deregister_deallocation_callback(reinterpret_cast<void*>(allocation->base),
                                                         on_freed);
}

void Transport::let_go(urma::Segment* segment) {
  Segment* const left = of(segment);
  copies_.settle(segment->base, segment->registered_len());
  if (left->locked != nullptr) {
    copies_.places().remove(segment->base, left->place);
    const auto status = copies_.api().hsa_amd_memory_unlock(std::exchange(left->locked, nullptr));
    if (status != HSA_STATUS_SUCCESS) {
      URMA_LOG_LIMITED(WARNING, "hsa_amd_memory_unlock: {}", status_text(copies_.api(), status));
    }
  }
  if (left->allocation == nullptr) return;
  const MutexLock lock(mutex_);
  std::erase(left->allocation->segments, left);
  forget(std::exchange(left->allocation, nullptr));
}

void Transport::on_freed(void* base, void* transport) {
  guarded(URMA_LOG_SITE, [&] { static_cast<Transport*>(transport)->freed(number(base)); });
}

// Runs in the call that frees the memory, before it goes: afterwards nobody may touch it. The
// callback leaves the runtime's list by itself.
void Transport::freed(uint64_t base) {
  std::shared_ptr<Allocation> allocation;
  {
    const MutexLock lock(mutex_);
    const auto known = allocations_.find(base);
    if (known == allocations_.end()) return;
    allocation = std::move(known->second);
    allocations_.erase(known);
    for (Segment* const segment : allocation->segments) {
      URMA_LOG_LIMITED(WARNING,
                       "the memory of the segment at va {:#x} of token id {:#x} is freed; "
                       "unregister segments first",
                       segment->base, segment->token_id_value);
      segments().end(segment->ref);
      static_cast<Context*>(segment->urma_ctx)
          ->events()
          .raise(URMA_EVENT_ELR_ERR, segment->token_id_value);
    }
  }
  copies_.settle(allocation->base, allocation->bytes);
  // Other memory may come to lie there while its segments are still registered.
  copies_.places().remove(allocation->base, allocation->place);
}

std::unique_ptr<urma::Sender> Transport::make_sender(const urma_jfs_cfg_t& cfg,
                                                     const QueueIdentity& identity,
                                                     const urma_jetty_id_t& id) {
  Faults* const faults = static_cast<Context*>(cfg.jfc->urma_ctx)->faults();
  return make_own_sender<shm::Sender, Path>(faults, this, cfg, identity, id);
}

std::unique_ptr<TargetPath> Transport::make_path(shm::Sender* sender, RemoteQueue* target,
                                                 uint32_t hint) {
  return std::make_unique<Path>(sender, target, hint);
}

std::unique_ptr<shm::OpaqueLanding> Transport::land(std::span<const LocalPiece> receive,
                                                    uint32_t bytes) {
  auto landing = std::make_unique<Landing>(&copies_, &segments(), receive);
  if (!landing->stands()) return nullptr;
  landing->make_room(bytes);
  return landing;
}

// What claim() has written stays unchanged while the segment stands.
void Transport::describe(const urma::Segment& segment,
                         const std::function<void(std::span<const int> fds)>& send) {
  const auto& told = static_cast<const Segment&>(segment);
  // The allocation may be shared for another segment: this one need not be for peers.
  if (told.signal == nullptr && (!told.allocation->shared || told.access == 0)) return;
  const SharedMemory memory =
      SharedMemory::create("urma-device", sizeof(MemoryDescription), PeerMay::kRead);
  auto& description = *static_cast<MemoryDescription*>(memory.data());
  description.nonce = runtime().nonce();
  std::vector<int> fds = {memory.fd()};
  if (told.signal != nullptr) {
    description.kind = kSignal;
    description.generation = told.signal->generation;
    description.bytes = kSignalBytes;
    static_assert(sizeof(description.handle) == sizeof(told.signal->handle));
    std::memcpy(description.handle, &told.signal->handle, sizeof(description.handle));
    return send(fds);
  }
  const Allocation& allocation = *told.allocation;
  description.generation = allocation.generation;
  description.offset = told.base - allocation.base;
  description.bytes = allocation.bytes;
  static_assert(sizeof(description.handle) == sizeof(allocation.handle));
  if (allocation.dmabuf.valid()) {
    fds.push_back(allocation.dmabuf.get());
    description.has_fd = 1;
    description.offset += allocation.dmabuf_offset;
    description.bytes += allocation.dmabuf_offset;
  } else {
    std::memcpy(description.handle, &allocation.handle, sizeof(description.handle));
  }
  send(fds);
}

void Transport::attach(const std::shared_ptr<shm::Link>& link, const SegmentGrant& granted,
                       Attached& fds, shm::OnAttached attached) {
  MemoryDescription description = {};
  if (!read_description(link->nonce(), granted.len, fds, &description)) {
    return attached(std::nullopt, URMA_CR_REM_OPERATION_ERR);
  }
  if (!settings_.share) return attached(std::nullopt, URMA_CR_REM_UNSUPPORTED_REQ_ERR);
  Fd fd = fds.size() == 2 ? std::move(fds[1]) : Fd();
  attachments_.attach(link, description, granted.len, std::move(fd), std::move(attached));
}

}  // namespace urma::rocm
