// SPDX-License-Identifier: MIT
#include "urma/core/process/janitor.h"

#include <sys/epoll.h>
#include <sys/inotify.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "urma/base/log.h"
#include "urma/core/process/runtime_dir.h"

namespace urma::core {
namespace {

// A closed slot that is still locked is tried again: another process may have been checking it.
constexpr int kRetries = 8;
constexpr uint64_t kRetryNs = 100'000'000;

}  // namespace

Janitor::Janitor(Service& service, int dir, uint32_t own_slot)
    : service_(service), dir_(dir), own_slot_(own_slot) {
  inotify_ = Fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  const auto path = urma::format("/proc/self/fd/{}", dir);
  if (inotify_.valid()) {
    own_watch_ = ::inotify_add_watch(inotify_.get(), path.c_str(), IN_CLOSE_WRITE | IN_EXCL_UNLINK);
  }
  if (own_watch_ < 0) {
    URMA_LOG(INFO,
             "the runtime directory cannot be watched ({}): what dead processes leave there "
             "stays until the next urma_init",
             std::strerror(errno));
    inotify_.reset();
    return;
  }
  service_.watch(inotify_.get(), EPOLLIN, [this](uint32_t) { read_events(); });
}

Janitor::~Janitor() {
  if (inotify_.valid()) service_.unwatch(inotify_.get());
  for (const auto& [slot, timer] : retries_) service_.cancel(timer);
}

void Janitor::read_events() {
  std::set<uint32_t> closed;
  alignas(inotify_event) char buffer[4096];
  ssize_t length;
  while ((length = ::read(inotify_.get(), buffer, sizeof buffer)) > 0) {
    for (ssize_t at = 0; at < length;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      at += static_cast<ssize_t>(sizeof *event + event->len);
      if ((event->mask & IN_Q_OVERFLOW) != 0) {
        sweep_all(dir_);
        for (const auto& [number, changed] : watched_) changed();
      } else if (event->wd != own_watch_) {
        const auto found = watched_.find(event->wd);
        if (found != watched_.end()) found->second();
      } else if (event->len != 0) {
        const auto slot = parse_slot_name(event->name);
        if (slot && *slot != own_slot_) closed.insert(*slot);
      }
    }
  }
  if (!closed.empty()) sweep(closed);
}

int Janitor::watch(const std::string& folder, std::function<void()> changed) {
  if (!inotify_.valid()) return -1;
  const int number = ::inotify_add_watch(inotify_.get(), folder.c_str(), IN_CLOSE_WRITE);
  if (number >= 0) watched_[number] = std::move(changed);
  return number;
}

void Janitor::unwatch(int number) {
  if (watched_.erase(number) != 0) ::inotify_rm_watch(inotify_.get(), number);
}

void Janitor::sweep(const std::set<uint32_t>& slots) {
  for (const uint32_t slot : slots) {
    if (const auto retry = retries_.extract(slot)) service_.cancel(retry.mapped());
  }
  for (const uint32_t slot : sweep_slots(dir_, slots)) sweep_again(slot, kRetries);
}

void Janitor::sweep_again(uint32_t slot, int tries_left) {
  if (tries_left == 0) return;
  retries_[slot] = service_.after(kRetryNs, [this, slot, tries_left] {
    retries_.erase(slot);
    if (!sweep_slots(dir_, {slot}).empty()) sweep_again(slot, tries_left - 1);
  });
}

}  // namespace urma::core
