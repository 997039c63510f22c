// SPDX-License-Identifier: MIT
//
// Signals of the fake: within one process, and shared with others.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <new>

#include "test/rocm/fake_hsa.h"
#include "test/rocm/fake_hsa_state.h"

namespace fake_hsa {
namespace {

constexpr size_t kPage = 4096;

struct SharedSignal {
  uint32_t magic;
  uint32_t pid;
  uint32_t fd;
  uint32_t is_signal;
  uint64_t reserved[2];
};
static_assert(sizeof(SharedSignal) == sizeof(hsa_amd_ipc_signal_t));

// Takes the descriptor. NULL if the kernel lacks resources.
Signal* map_signal(int fd) {
  void* const page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return nullptr;
  auto* const signal = static_cast<Signal*>(page);
  const std::lock_guard lock(state().mutex);
  state().shared_signals[signal] = fd;
  ++state().numbers["SIGNALS"];
  return signal;
}

hsa_status_t destroy(Signal* signal) {
  const std::lock_guard lock(state().mutex);
  --state().numbers["SIGNALS"];
  const auto shared = state().shared_signals.find(signal);
  if (shared == state().shared_signals.end()) {
    delete signal;
    return HSA_STATUS_SUCCESS;
  }
  ::munmap(signal, kPage);
  ::close(shared->second);
  state().shared_signals.erase(shared);
  ++state().numbers["DETACHED"];
  return HSA_STATUS_SUCCESS;
}

}  // namespace

Signal* signal_of(hsa_signal_t handle) { return reinterpret_cast<Signal*>(handle.handle); }

}  // namespace fake_hsa

using fake_hsa::signal_of;
using fake_hsa::state;

extern "C" {

hsa_status_t hsa_signal_create(hsa_signal_value_t value, uint32_t /*consumers*/,
                               const hsa_agent_t* /*list*/, hsa_signal_t* signal) {
  auto* const made = new fake_hsa::Signal{{value}};
  signal->handle = reinterpret_cast<uint64_t>(made);
  state().count("SIGNALS");
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_signal_create(hsa_signal_value_t value, uint32_t consumers,
                                   const hsa_agent_t* list, uint64_t attributes,
                                   hsa_signal_t* signal) {
  if ((attributes & HSA_AMD_SIGNAL_IPC) == 0) {
    return hsa_signal_create(value, consumers, list, signal);
  }
  const int fd = ::memfd_create("fake-hsa-signal", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, fake_hsa::kPage) != 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  fake_hsa::Signal* const made = fake_hsa::map_signal(fd);
  if (made == nullptr) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  new (made) fake_hsa::Signal{{value}};
  signal->handle = reinterpret_cast<uint64_t>(made);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_signal_destroy(hsa_signal_t signal) {
  return fake_hsa::destroy(signal_of(signal));
}

hsa_signal_value_t hsa_signal_load_scacquire(hsa_signal_t signal) {
  static std::atomic<long> loads{0};
  if (loads.fetch_add(1) % 64 == 63) state().count("LOADS", 64);
  return signal_of(signal)->value.load(std::memory_order_acquire);
}

void hsa_signal_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  signal_of(signal)->value.store(value, std::memory_order_relaxed);
}

void hsa_signal_store_screlease(hsa_signal_t signal, hsa_signal_value_t value) {
  signal_of(signal)->value.store(value, std::memory_order_release);
}

hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal, hsa_signal_condition_t /*lt*/,
                                             hsa_signal_value_t below, uint64_t timeout,
                                             hsa_wait_state_t /*hint*/) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout);
  std::unique_lock lock(state().mutex);
  // Other processes do not notify of changes to shared signals.
  while (signal_of(signal)->value.load() >= below && std::chrono::steady_clock::now() < end) {
    state().changed.wait_for(lock, std::chrono::milliseconds(1));
  }
  return signal_of(signal)->value.load();
}

hsa_status_t hsa_amd_signal_async_handler(hsa_signal_t signal, hsa_signal_condition_t /*lt*/,
                                          hsa_signal_value_t below, hsa_amd_signal_handler handler,
                                          void* arg) {
  const std::lock_guard lock(state().mutex);
  state().handlers.push_back({signal_of(signal), below, handler, arg});
  ++state().numbers["HANDLERS"];
  fake_hsa::start_threads();
  state().changed.notify_all();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_ipc_signal_create(hsa_signal_t signal, hsa_amd_ipc_signal_t* handle) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().shared_signals.find(signal_of(signal));
  if (found == state().shared_signals.end()) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const fake_hsa::SharedSignal shared = {fake_hsa::kHandleMagic,
                                         static_cast<uint32_t>(::getpid()),
                                         static_cast<uint32_t>(found->second),
                                         1,
                                         {}};
  std::memcpy(handle, &shared, sizeof(shared));
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_ipc_signal_attach(const hsa_amd_ipc_signal_t* handle, hsa_signal_t* signal) {
  fake_hsa::SharedSignal shared;
  std::memcpy(&shared, handle, sizeof(shared));
  if (shared.magic != fake_hsa::kHandleMagic || shared.is_signal != 1) {
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  const int fd = fake_hsa::open_shared(shared.pid, shared.fd);
  fake_hsa::Signal* const found = fd < 0 ? nullptr : fake_hsa::map_signal(fd);
  if (found == nullptr) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  signal->handle = reinterpret_cast<uint64_t>(found);
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
