// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/signals.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "urma/base/error.h"
#include "urma/base/log.h"

namespace urma::rocm {
namespace {

// As many as a program with a deep queue soon has in flight.
constexpr size_t kMadeAhead = 64;

// On the runtime's thread. False: it is not called again.
bool on_signal(hsa_signal_value_t /*value*/, void* arg) {
  auto* const signal = static_cast<Signal*>(arg);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(signal->wake_fd, &one, sizeof(one));
  // Release pairs with the acquire in Signals::take() and ~Signals(): afterwards the signal may be
  // reused, and the descriptor closed.
  signal->awaited.store(false, std::memory_order_release);
  return false;
}

}  // namespace

Signals::Signals(const HsaApi* api) : api_(api), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_.valid()) fail_errno(URMA_ENOMEM, "making the descriptor that wakes for copies");
  while (free_.size() < kMadeAhead) free_.push_back(make());
}

// A signal that the runtime still waits for is left to it.
Signals::~Signals() {
  for (auto& signal : all_) {
    // Acquire pairs with the release in on_signal().
    if (signal->awaited.load(std::memory_order_acquire)) {
      (void)signal.release();
      (void)wake_.release();
    } else {
      api_->hsa_signal_destroy(signal->handle);
    }
  }
}

Signal* Signals::make() {
  auto signal = std::make_unique<Signal>();
  const auto status = api_->hsa_signal_create(1, 0, nullptr, &signal->handle);
  if (status != HSA_STATUS_SUCCESS) {
    fail(URMA_ENOMEM, "hsa_signal_create, of signal {}: {}", all_.size(),
         status_text(*api_, status));
  }
  signal->wake_fd = wake_.get();
  all_.push_back(std::move(signal));
  // Giving back must not fail.
  free_.reserve(all_.capacity());
  resting_.reserve(all_.capacity());
  return all_.back().get();
}

Signal* Signals::take() {
  const MutexLock lock(mutex_);
  if (free_.empty()) {
    std::erase_if(resting_, [this](Signal* signal) URMA_REQUIRES(mutex_) {
      // Acquire pairs with the release in on_signal().
      if (signal->awaited.load(std::memory_order_acquire)) return false;
      free_.push_back(signal);
      return true;
    });
  }
  if (free_.empty()) return make();
  Signal* const signal = free_.back();
  free_.pop_back();
  api_->hsa_signal_store_relaxed(signal->handle, 1);
  return signal;
}

void Signals::give_back(Signal* signal) {
  const MutexLock lock(mutex_);
  const bool awaited = signal->awaited.load(std::memory_order_acquire);
  (awaited ? resting_ : free_).push_back(signal);
}

void Signals::wake_when_ended(Signal* signal) {
  if (signal->awaited.exchange(true)) return;
  const auto status = api_->hsa_amd_signal_async_handler(signal->handle, HSA_SIGNAL_CONDITION_LT, 1,
                                                         on_signal, signal);
  if (status == HSA_STATUS_SUCCESS) return;
  signal->awaited.store(false);
  // The service thread looks from time to time anyway.
  URMA_LOG_LIMITED(WARNING, "hsa_amd_signal_async_handler: {}; completions are found later",
                   status_text(*api_, status));
}

}  // namespace urma::rocm
