// SPDX-License-Identifier: MIT
//
// The streams of a carrier that have not finished their greeting; limits their number and time. A
// stream that has to go is shut down, which wakes the threads that sleep on it.
#ifndef URMA_PROVIDERS_TCP_NEWCOMERS_H_
#define URMA_PROVIDERS_TCP_NEWCOMERS_H_

#include <cstddef>
#include <cstdint>
#include <list>

#include "urma/base/fd.h"
#include "urma/base/mutex.h"

namespace urma::tcp {

// Any thread.
class Newcomers {
 public:
  struct Newcomer {
    int fd;
    bool stranger;  // started by a peer
    uint64_t since_ns;
    const char* ended = nullptr;  // why it had to go
  };
  using Place = std::list<Newcomer>::iterator;

  // Throws Error if no descriptor is left.
  explicit Newcomers(uint64_t patience_ns);

  Place add(int fd, bool stranger);
  // NULL if it may stay. It stays in the list until it leaves.
  const char* ended(Place place) const;
  // Call before its descriptor is closed.
  void leave(Place place);

  // Whether another stranger may enter; one that has been here for a while without a greeting has
  // to make room. `scarce`: there is none now but what it leaves.
  bool has_room(bool scarce);
  // Ends those whose time is over. The descriptor becomes readable when it is time to call this,
  // and after the delay.
  void expire();
  void wake_in(uint64_t delay_ns);
  int fd() const { return timer_.get(); }

 private:
  void wake_at(uint64_t when_ns) URMA_REQUIRES(mutex_);
  static void end(Newcomer* newcomer, const char* why);

  const uint64_t patience_ns_;
  const Fd timer_;
  mutable Mutex mutex_;
  std::list<Newcomer> all_ URMA_GUARDED_BY(mutex_);   // the oldest first
  uint64_t wakes_at_ns_ URMA_GUARDED_BY(mutex_) = 0;  // 0: not at all
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_NEWCOMERS_H_
