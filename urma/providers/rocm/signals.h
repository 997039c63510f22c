// SPDX-License-Identifier: MIT
//
// Completion signals, made once and reused.
#ifndef URMA_PROVIDERS_ROCM_SIGNALS_H_
#define URMA_PROVIDERS_ROCM_SIGNALS_H_

#include <atomic>
#include <memory>
#include <vector>

#include "urma/base/fd.h"
#include "urma/base/mutex.h"
#include "urma/providers/rocm/hsa_api.h"

namespace urma::rocm {

struct Signal {
  hsa_signal_t handle = {};
  // The runtime will still call the handler for it, and the signal must be left alone.
  std::atomic<bool> awaited{false};
  int wake_fd = -1;
};

// Thread-safe.
class Signals {
 public:
  // Throws Error if the first of them cannot be made. `api` outlives it.
  explicit Signals(const HsaApi* api);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // One with the value 1. Throws Error.
  Signal* take();
  // Nobody waits for it, and nothing will change it.
  void give_back(Signal* signal);

  // Makes wake_fd() readable once the signal is below 1. Does nothing else on the runtime's one
  // thread for callbacks.
  void wake_when_ended(Signal* signal);
  int wake_fd() const { return wake_.get(); }

 private:
  Signal* make() URMA_REQUIRES(mutex_);

  const HsaApi* const api_;
  Fd wake_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Signal>> all_ URMA_GUARDED_BY(mutex_);
  std::vector<Signal*> free_ URMA_GUARDED_BY(mutex_);
  std::vector<Signal*> resting_ URMA_GUARDED_BY(mutex_);  // given back, but still awaited
};

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_SIGNALS_H_
