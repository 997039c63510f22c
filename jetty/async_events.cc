// SPDX-License-Identifier: MIT
#include "jetty/async_events.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "urma/base/error.h"

namespace urma {

// Blocking, as the program expects until it changes that.
AsyncEvents::AsyncEvents() : fd_(::eventfd(0, EFD_CLOEXEC)) {
  if (!fd_.valid()) fail_errno(URMA_ENOMEM, "create_context: making async_fd");
}

void AsyncEvents::add(EventSubject* subject, urma_async_event_type_t type) {
  const MutexLock lock(mutex_);
  subject->events_->mutex_.assume_held();
  if (subject->ended_) return;
  for (const Pending& event : pending_) {
    if (event.subject == subject && event.type == type) return;
  }
  pending_.push_back({subject, type, 0});
  settle_fd();
}

void AsyncEvents::raise(urma_async_event_type_t type, uint32_t element) {
  const MutexLock lock(mutex_);
  std::erase_if(pending_, [=](const Pending& event) {
    return event.subject == nullptr && event.type == type && event.element == element;
  });
  pending_.push_back({nullptr, type, element});
  settle_fd();
}

// Makes fd_ readable exactly while an event waits.
void AsyncEvents::settle_fd() {
  const bool wanted = !pending_.empty();
  if (std::exchange(readable_, wanted) == wanted) return;
  uint64_t count = 1;
  if (wanted) {
    [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &count, sizeof(count));
    return;
  }
  // The program may have read it: that must not make this thread wait.
  const iovec into = {&count, sizeof(count)};
  [[maybe_unused]] const ssize_t got = ::preadv2(fd_.get(), &into, 1, -1, RWF_NOWAIT);
}

bool AsyncEvents::blocking() const {
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

urma_status_t AsyncEvents::get(urma_async_event_t* event) {
  while (!take(event)) {
    if (!blocking()) return URMA_FAIL;
    pollfd ready = {fd_.get(), POLLIN, 0};
    if (::poll(&ready, 1, -1) < 0) return URMA_FAIL;
  }
  return URMA_SUCCESS;
}

bool AsyncEvents::take(urma_async_event_t* event) {
  const MutexLock lock(mutex_);
  if (pending_.empty()) return false;
  const Pending next = pending_.front();
  pending_.erase(pending_.begin());
  settle_fd();
  event->event_type = next.type;
  event->priv = next.subject;
  if (next.subject == nullptr) {
    event->element = {};
    event->element.port_id = next.element;
    return true;
  }
  next.subject->events_->mutex_.assume_held();
  ++next.subject->handed_out_;
  // The union holds a pointer to the object, whatever its kind.
  std::memcpy(&event->element, &next.subject->element_, sizeof(next.subject->element_));
  return true;
}

void AsyncEvents::acknowledge(const urma_async_event_t& event) {
  auto* subject = static_cast<EventSubject*>(event.priv);
  if (subject != nullptr) subject->acked_.add(1);
}

void Acknowledged::add(uint32_t events) {
  ::pthread_mutex_lock(mutex);
  *count += events;
  ::pthread_cond_broadcast(cond);
  ::pthread_mutex_unlock(mutex);
}

bool Acknowledged::all_of(uint32_t handed_out) const {
  ::pthread_mutex_lock(mutex);
  const bool all = static_cast<int32_t>(handed_out - *count) <= 0;
  ::pthread_mutex_unlock(mutex);
  return all;
}

void Acknowledged::await_all_of(uint32_t handed_out) const {
  ::pthread_mutex_lock(mutex);
  while (static_cast<int32_t>(handed_out - *count) > 0) ::pthread_cond_wait(cond, mutex);
  ::pthread_mutex_unlock(mutex);
}

bool EventSubject::end(bool non_blocking) {
  uint32_t handed_out;
  {
    const MutexLock lock(events_->mutex_);
    if (non_blocking && !acked_.all_of(handed_out_)) return false;
    ended_ = true;
    std::erase_if(events_->pending_,
                  [this](const AsyncEvents::Pending& event) { return event.subject == this; });
    events_->settle_fd();
    // No further event is handed out.
    handed_out = handed_out_;
  }
  acked_.await_all_of(handed_out);
  return true;
}

void EventSubject::begin() {
  const MutexLock lock(events_->mutex_);
  ended_ = false;
}

}  // namespace urma
