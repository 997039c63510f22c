// SPDX-License-Identifier: MIT
//
// Events of a whole device: told to every context that is open on it.
#ifndef JETTY_DEVICE_EVENTS_H_
#define JETTY_DEVICE_EVENTS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "jetty/async_events.h"
#include "urma/base/mutex.h"

namespace urma {

// Thread-safe.
class DeviceEvents {
 public:
  void add(AsyncEvents* context) {
    const MutexLock lock(mutex_);
    contexts_.push_back(context);
  }
  void remove(AsyncEvents* context) {
    const MutexLock lock(mutex_);
    contexts_.erase(std::find(contexts_.begin(), contexts_.end(), context));
  }
  void raise(urma_async_event_type_t type, uint32_t element) {
    const MutexLock lock(mutex_);
    for (AsyncEvents* context : contexts_) context->raise(type, element);
  }

 private:
  Mutex mutex_;
  std::vector<AsyncEvents*> contexts_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma

#endif  // JETTY_DEVICE_EVENTS_H_
