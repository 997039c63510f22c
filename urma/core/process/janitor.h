// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_JANITOR_H_
#define URMA_CORE_PROCESS_JANITOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "urma/base/fd.h"
#include "urma/base/service.h"

namespace urma::core {

// Removes files of dead processes from the runtime directory as soon as they die: the kernel closes
// a dead process's slot file, which notifies the watchers of the directory. To be made and
// destroyed on the service thread.
class Janitor {
 public:
  Janitor(Service& service, int dir, uint32_t own_slot);
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;
  ~Janitor();

  // Calls changed() whenever a file in the folder was written and closed, until unwatch(). Shares
  // the one inotify descriptor: the kernel gives a user few of them. Returns a number for
  // unwatch(), or -1 if the folder cannot be watched.
  int watch(const std::string& folder, std::function<void()> changed);
  void unwatch(int number);

 private:
  void read_events();
  void sweep(const std::set<uint32_t>& slots);
  void sweep_again(uint32_t slot, int tries_left);

  Service& service_;
  const int dir_;
  const uint32_t own_slot_;
  Fd inotify_;
  int own_watch_ = -1;  // of the runtime directory
  std::map<int, std::function<void()>> watched_;
  std::map<uint32_t, Service::TimerId> retries_;  // by slot
};

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_JANITOR_H_
