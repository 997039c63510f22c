// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/cm_caller.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <utility>

namespace urma::verbs {
namespace {

// A thread that takes none of the program's signals.
std::thread make_thread(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::move(body));
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace

CmCaller::~CmCaller() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    // Each of them could take minutes.
    waiting_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CmCaller::call(const NetAddress& host, uint64_t number, Call call) {
  const MutexLock lock(mutex_);
  waiting_[host.host()].emplace_back(number, std::move(call));
  changed_.notify_one();
  if (waiting_.size() > idle_ && threads_.size() < kMaxThreads) {
    try {
      threads_.push_back(make_thread([this] { work(); }));
    } catch (...) {
      // The threads that exist take turns.
      if (!threads_.empty()) return;
      waiting_.clear();
      throw;
    }
  }
}

bool CmCaller::withdraw(const NetAddress& host, uint64_t number) {
  const MutexLock lock(mutex_);
  const auto found = waiting_.find(host.host());
  if (found == waiting_.end()) return false;
  const bool there =
      std::erase_if(found->second, [=](const auto& call) { return call.first == number; }) != 0;
  if (found->second.empty()) waiting_.erase(found);
  return there;
}

// A host that no thread is calling now.
CmCaller::Waiting::iterator CmCaller::next() {
  return std::find_if(waiting_.begin(), waiting_.end(),
                      [this](const auto& entry)
                          URMA_REQUIRES(mutex_) { return !called_.contains(entry.first); });
}

void CmCaller::work() {
  const MutexLock lock(mutex_);
  for (;;) {
    const auto found = next();
    if (found == waiting_.end()) {
      if (ending_) return;
      ++idle_;
      changed_.wait(mutex_);
      --idle_;
      continue;
    }
    const NetAddress host = found->first;
    const Call call = std::move(found->second.front().second);
    found->second.pop_front();
    if (found->second.empty()) waiting_.erase(found);
    called_.insert(host);
    mutex_.unlock();
    call();
    mutex_.lock();
    called_.erase(host);
    changed_.notify_all();
  }
}

}  // namespace urma::verbs
