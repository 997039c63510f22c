// SPDX-License-Identifier: MIT
//
// Memory that the processor must not touch: no process maps it, and the kernel does not copy it. A
// provider over these rings that has such memory, and a runtime that moves it, derives from
// shm::Transport.
#ifndef URMA_PROVIDERS_SHM_OPAQUE_MEMORY_H_
#define URMA_PROVIDERS_SHM_OPAQUE_MEMORY_H_

#include <functional>
#include <memory>
#include <optional>

#include "urma_types.h"

namespace urma::shm {

// A peer's memory that is attached here.
struct OpaqueView {
  std::shared_ptr<const void> memory;  // the last reference detaches it
  char* start;                         // where the segment begins in this process
  // Whether plain loads and stores reach it all the same, with atomics that are atomic with those
  // of all others.
  bool is_host_memory;
};

// A view, or why there is none. Service thread.
using OnAttached = std::function<void(std::optional<OpaqueView> view, urma_cr_status_t status)>;

// Where a message for a receive in such memory is gathered. Once it is destroyed, the receive is no
// longer written.
class OpaqueLanding {
 public:
  virtual ~OpaqueLanding() = default;
  // Room for the message.
  virtual char* data() const = 0;
  // Whether the memory of the receive is still registered.
  virtual bool stands() const = 0;
  // Call once all of the message lies there: moves it to the receive. False while that is in
  // progress; *status then says how it ended. Does not throw.
  virtual bool landed(urma_cr_status_t* status) = 0;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_OPAQUE_MEMORY_H_
