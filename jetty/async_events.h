// SPDX-License-Identifier: MIT
//
// The asynchronous events of a context: what happens to its objects without a request of theirs.
#ifndef JETTY_ASYNC_EVENTS_H_
#define JETTY_ASYNC_EVENTS_H_

#include <pthread.h>

#include <cstdint>
#include <vector>

#include "urma/base/fd.h"
#include "urma/base/mutex.h"
#include "urma_types.h"

namespace urma {

class EventSubject;

// Thread-safe. fd() is readable while an event waits; the program may make it non-blocking.
class AsyncEvents {
 public:
  // Throws Error if no descriptor is left.
  AsyncEvents();
  AsyncEvents(const AsyncEvents&) = delete;
  AsyncEvents& operator=(const AsyncEvents&) = delete;

  int fd() const { return fd_.get(); }
  // urma_get_async_event. Waits for an event unless fd() is non-blocking; then URMA_FAIL.
  urma_status_t get(urma_async_event_t* event);
  // An event of a port, an EID or the device, not of an object: `element` is its number. Needs no
  // acknowledgement. At most one of each type and number waits, as the newest of all.
  void raise(urma_async_event_type_t type, uint32_t element);
  // False if no event waits.
  bool take(urma_async_event_t* event);
  bool blocking() const;
  // urma_ack_async_event.
  static void acknowledge(const urma_async_event_t& event);

 private:
  friend class EventSubject;

  struct Pending {
    EventSubject* subject;  // NULL if it is about no object
    urma_async_event_type_t type;
    uint32_t element;  // if it is about no object
  };

  void add(EventSubject* subject, urma_async_event_type_t type);
  void settle_fd() URMA_REQUIRES(mutex_);

  Fd fd_;
  Mutex mutex_;
  std::vector<Pending> pending_ URMA_GUARDED_BY(mutex_);
  bool readable_ URMA_GUARDED_BY(mutex_) = false;
};

// The events that a program has acknowledged, which the public struct of an object counts.
struct Acknowledged {
  void add(uint32_t events);
  bool all_of(uint32_t handed_out) const;
  void await_all_of(uint32_t handed_out) const;

  pthread_mutex_t* mutex;
  pthread_cond_t* cond;
  uint32_t* count;  // guarded by *mutex
};

// An object that events can be about. This class counts the events that the program was handed;
// ending the object waits until it has acknowledged as many.
class EventSubject {
 public:
  template <typename Object>
  EventSubject(AsyncEvents* events, Object* object)
      : events_(events),
        element_(object),
        acked_{&object->event_mutex, &object->event_cond, &object->async_events_acked} {}
  EventSubject(const EventSubject&) = delete;
  EventSubject& operator=(const EventSubject&) = delete;

  // An event of one type waits at most once.
  void raise(urma_async_event_type_t type) { events_->add(this, type); }
  // Raises no further event, drops those that were not handed out, and waits until the rest is
  // acknowledged. With `non_blocking`, if some are not acknowledged yet: false, and nothing
  // changed.
  bool end(bool non_blocking);
  // After end(): raises again.
  void begin();

 private:
  friend class AsyncEvents;

  AsyncEvents* events_;
  void* element_;
  Acknowledged acked_;
  uint32_t handed_out_ URMA_GUARDED_BY(events_->mutex_) = 0;
  bool ended_ URMA_GUARDED_BY(events_->mutex_) = false;
};

}  // namespace urma

#endif  // JETTY_ASYNC_EVENTS_H_
