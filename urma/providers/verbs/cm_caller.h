// SPDX-License-Identifier: MIT
//
// Threads for rdma_connect: Soft-iWARP returns from it only once TCP has reached the other host or
// given up, which takes minutes where a firewall is silent. The service thread must not wait so.
#ifndef URMA_PROVIDERS_VERBS_CM_CALLER_H_
#define URMA_PROVIDERS_VERBS_CM_CALLER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "urma/base/mutex.h"
#include "urma/providers/verbs/datagram.h"

namespace urma::verbs {

class CmCaller {
 public:
  using Call = std::function<void()>;

  CmCaller() = default;
  CmCaller(const CmCaller&) = delete;
  CmCaller& operator=(const CmCaller&) = delete;
  // Waits until the calls that have begun return; drops the others.
  ~CmCaller();

  // Runs it on another thread. Calls to one host run one after the other, so that a silent host
  // delays no other. Throws if no thread can be started.
  void call(const NetAddress& host, uint64_t number, Call call);
  // Drops the call with this number. False if it has begun.
  bool withdraw(const NetAddress& host, uint64_t number);

 private:
  static constexpr size_t kMaxThreads = 8;
  using Waiting = std::map<NetAddress, std::deque<std::pair<uint64_t, Call>>>;

  void work();
  Waiting::iterator next() URMA_REQUIRES(mutex_);

  Mutex mutex_;
  Condition changed_;
  Waiting waiting_ URMA_GUARDED_BY(mutex_);
  std::set<NetAddress> called_ URMA_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ URMA_GUARDED_BY(mutex_);
  size_t idle_ URMA_GUARDED_BY(mutex_) = 0;
  bool ending_ URMA_GUARDED_BY(mutex_) = false;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CM_CALLER_H_
