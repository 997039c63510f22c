// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_JANITOR_H_
#define URMA_CORE_JANITOR_H_

#include <cstdint>
#include <map>

#include "urma/base/fd.h"
#include "urma/base/service.h"

namespace urma::core {

// Removes what dead processes leave in the runtime directory, as soon as they die: the kernel
// closes a dead process's slot file, and the directory's watchers hear of that. To be made and
// destroyed on the service thread.
class Janitor {
 public:
  Janitor(Service& service, int dir, uint32_t own_slot);
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;
  ~Janitor();

 private:
  void read_events();
  void sweep(uint32_t slot, int tries_left);

  Service& service_;
  const int dir_;
  const uint32_t own_slot_;
  Fd inotify_;
  std::map<uint32_t, Service::TimerId> retries_;  // by slot
};

}  // namespace urma::core

#endif  // URMA_CORE_JANITOR_H_
