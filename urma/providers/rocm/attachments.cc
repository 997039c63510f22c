// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/attachments.h"

#include <pthread.h>
#include <signal.h>

#include <cstring>
#include <thread>

#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/base/mutex.h"

namespace urma::rocm {
namespace {

hsa_signal_t signal_of(const Outcome& signal) { return {reinterpret_cast<uint64_t>(signal.base)}; }

void let_go(const HsaApi& api, const Outcome& memory) {
  if (memory.base == nullptr) return;
  hsa_status_t status;
  if (memory.kind == kSignal) {
    status = api.hsa_signal_destroy(signal_of(memory));
  } else {
    status = memory.interop ? api.hsa_amd_interop_unmap_buffer(memory.base)
                            : api.hsa_amd_ipc_memory_detach(memory.base);
  }
  if (status != HSA_STATUS_SUCCESS) {
    URMA_LOG_LIMITED(WARNING, "detaching memory or a signal of a peer: {}",
                     status_text(api, status));
  }
}

// The runtime's size is trusted, the peer's is not.
void check_size(const HsaApi& api, uint64_t needed, Outcome* memory) {
  hsa_amd_pointer_info_t info;
  const auto status = pointer_info(api, memory->base, &info);
  memory->bytes = status == HSA_STATUS_SUCCESS ? info.sizeInBytes : 0;
  if (memory->bytes >= needed) return;
  memory->why = urma::format("it has {} bytes, and its owner says {}", memory->bytes, needed);
}

Outcome attach_signal(const HsaApi& api, const MemoryDescription& description) {
  Outcome made;
  made.kind = kSignal;
  made.bytes = kSignalBytes;
  hsa_amd_ipc_signal_t handle = {};
  std::memcpy(&handle, description.handle, sizeof(handle));
  hsa_signal_t signal = {};
  const auto status = api.hsa_amd_ipc_signal_attach(&handle, &signal);
  if (status == HSA_STATUS_SUCCESS) {
    made.base = reinterpret_cast<void*>(signal.handle);
  } else {
    made.why = status_text(api, status);
  }
  return made;
}

// May take any time.
Outcome attach_now(const HsaApi& api, std::vector<hsa_agent_t> agents,
                   const MemoryDescription& description, const Fd& fd) {
  if (description.kind == kSignal) return attach_signal(api, description);
  Outcome made;
  hsa_status_t status;
  if (fd.valid()) {
    made.interop = true;
    size_t bytes = 0;
    status = api.hsa_amd_interop_map_buffer(static_cast<uint32_t>(agents.size()), agents.data(),
                                            fd.get(), 0, &bytes, &made.base, nullptr, nullptr);
    made.bytes = bytes;
    if (status == HSA_STATUS_SUCCESS && bytes < description.bytes) {
      made.why =
          urma::format("the dma-buf has {} bytes, and its owner says {}", bytes, description.bytes);
    }
  } else {
    hsa_amd_ipc_memory_t handle = {};
    std::memcpy(&handle, description.handle, sizeof(handle));
    status = api.hsa_amd_ipc_memory_attach(&handle, description.bytes, 0, nullptr, &made.base);
    if (status == HSA_STATUS_SUCCESS) check_size(api, description.bytes, &made);
  }
  if (status != HSA_STATUS_SUCCESS) {
    made.base = nullptr;
    made.why = status_text(api, status);
  } else if (!made.why.empty()) {
    let_go(api, made);
    made.base = nullptr;
  }
  return made;
}

}  // namespace

struct Attachments::Alive {
  Mutex mutex;
  Service* service URMA_GUARDED_BY(mutex);  // NULL once nobody waits
};

PeerMemory::~PeerMemory() {
  if (memory.kind == kMemory) {
    copies->settle(reinterpret_cast<uint64_t>(memory.base), memory.bytes);
    copies->places().remove(reinterpret_cast<uint64_t>(memory.base), place);
  }
  let_go(copies->api(), memory);
}

Attachments::Attachments(Copies* copies, Service* service, uint64_t patience_ns)
    : copies_(copies),
      service_(service),
      patience_ns_(patience_ns),
      alive_(std::make_shared<Alive>()) {
  alive_->service = service;
}

Kind Attachments::kind_of(const shm::OpaqueView& view) {
  return static_cast<Kind>(static_cast<const PeerMemory*>(view.memory.get())->memory.kind);
}

void Attachments::stop() {
  {
    const MutexLock lock(alive_->mutex);
    alive_->service = nullptr;
  }
  for (auto& [key, attempt] : std::exchange(attempts_, {})) {
    service_->cancel(attempt.timer);
    attempt.refuse(URMA_CR_ACK_TIMEOUT_ERR);
  }
  known_.clear();
}

void Attachments::answer(const std::shared_ptr<const PeerMemory>& attachment,
                         const Waiting& waiting) {
  if (waiting.offset > attachment->memory.bytes ||
      waiting.len > attachment->memory.bytes - waiting.offset) {
    return waiting.attached(std::nullopt, URMA_CR_REM_OPERATION_ERR);
  }
  char* const start = static_cast<char*>(attachment->memory.base) + waiting.offset;
  waiting.attached(shm::OpaqueView{attachment, start, attachment->host_memory}, URMA_CR_SUCCESS);
}

void Attachments::attach(const std::shared_ptr<const void>& connection,
                         const MemoryDescription& description, uint64_t len, Fd fd,
                         shm::OnAttached attached) {
  const Key key = {connection.get(), description.generation};
  Waiting waiting = {description.offset, len, std::move(attached)};
  std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
  const auto known = known_.find(key);
  if (known != known_.end()) {
    if (const auto attachment = known->second.lock()) return answer(attachment, waiting);
  }
  const auto [attempt, is_new] = attempts_.try_emplace(key);
  attempt->second.waiting.push_back(std::move(waiting));
  if (!is_new) return;
  attempt->second.connection = connection;
  attempt->second.serial = ++serials_;
  attempt->second.timer =
      service_->after(patience_ns_, [this, key, serial = serials_] { time_out(key, serial); });
  const auto status = guarded(URMA_LOG_SITE, [&] {
    start(key, description, std::move(fd));
    return URMA_SUCCESS;
  });
  if (status != URMA_SUCCESS) {
    Outcome none;
    none.why = "no thread can be started";
    finish(key, serials_, none);
  }
}

// On a thread of its own, which may outlive everything that it does not own: the runtime may wait
// for a peer that does not answer.
void Attachments::start(const Key& key, const MemoryDescription& description, Fd fd) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto restore = [&] { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); };
  try {
    std::thread([this, key, serial = serials_, description, api = copies_->api(), alive = alive_,
                 agents = copies_->topology().engines(), fd = std::make_shared<Fd>(std::move(fd))] {
      ::pthread_setname_np(::pthread_self(), "urma-attach");
      Outcome result = attach_now(api, agents, description, *fd);
      fd->reset();
      const MutexLock lock(alive->mutex);
      if (alive->service == nullptr) return let_go(api, result);
      alive->service->post([this, key, serial, result] { finish(key, serial, result); });
    }).detach();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

void Attachments::finish(const Key& key, uint64_t serial, Outcome result) {
  const auto found = attempts_.find(key);
  // It came too late.
  if (found == attempts_.end() || found->second.serial != serial) {
    return let_go(copies_->api(), result);
  }
  Attempt attempt = std::move(found->second);
  attempts_.erase(found);
  service_->cancel(attempt.timer);
  if (result.base == nullptr) {
    URMA_LOG_LIMITED(
        WARNING,
        "memory or a signal of a peer cannot be attached: {}; both processes need the same pid "
        "and network namespaces, and see HSA_ENABLE_IPC_MODE_LEGACY",
        result.why);
    return attempt.refuse(URMA_CR_REM_ACCESS_ABORT_ERR);
  }
  const auto attachment = std::make_shared<PeerMemory>();
  attachment->copies = copies_;
  attachment->connection = std::move(attempt.connection);
  attachment->memory = result;
  if (result.kind == kMemory) place(attachment.get());
  known_[key] = attachment;
  for (const Waiting& waiting : attempt.waiting) answer(attachment, waiting);
}

// Tells the engines of attached memory.
void Attachments::place(PeerMemory* attachment) {
  const Outcome& memory = attachment->memory;
  hsa_amd_pointer_info_t info;
  const Topology& topology = copies_->topology();
  pointer_info(copies_->api(), memory.base, &info);
  const Agent* owner = topology.find(info.agentOwner);
  // Memory of a GPU is left to the engines: attached memory need not be mapped for the CPU.
  attachment->host_memory = owner != nullptr && !owner->gpu && !memory.interop;
  const hsa_agent_t agent = owner != nullptr ? owner->handle : topology.engines().front();
  attachment->place = copies_->places().add({reinterpret_cast<uint64_t>(memory.base), memory.bytes,
                                             reinterpret_cast<uint64_t>(memory.base), agent,
                                             attachment->host_memory});
}

void Attachments::time_out(const Key& key, uint64_t serial) {
  const auto found = attempts_.find(key);
  if (found == attempts_.end() || found->second.serial != serial) return;
  Attempt attempt = std::move(found->second);
  attempts_.erase(found);
  URMA_LOG_LIMITED(WARNING,
                   "memory or a signal of a peer was not attached within {} ms "
                   "(URMA_ROCM_TIMEOUT_MS); requests that need it end",
                   patience_ns_ / 1'000'000);
  attempt.refuse(URMA_CR_ACK_TIMEOUT_ERR);
}

}  // namespace urma::rocm
