// SPDX-License-Identifier: MIT
//
// A JFCE: where a program sleeps until one of its JFCs has raised an event.
#ifndef JETTY_EVENT_CHANNEL_H_
#define JETTY_EVENT_CHANNEL_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "urma/base/fd.h"
#include "urma/base/mutex.h"
#include "urma_types.h"

namespace urma {

class CompletionQueue;

// What one peer wakes one JFCE with: a byte sent into a connected pair of sockets. Each end is an
// open file of its own, so neither process can block the other one or change how its end works,
// which two processes that share an eventfd could. Nothing needs to be read: each byte is an edge.
struct Wakeup {
  Fd here;   // watched by the JFCE
  Fd there;  // for the peer; kept, since it is handed out once for each ring
};

// A descriptor that becomes readable when there may be completions, for a provider whose peers do
// not wake a JFCE themselves.
class WakeSource {
 public:
  virtual ~WakeSource() = default;
  virtual int fd() const = 0;
  // Reads what has come. The JFCs of the channel, as far as they are armed, are moved after it.
  virtual void drain() = 0;
};

// fd is an epoll instance over the wake-ups of all peers and one of our own. Thread-safe.
class EventChannel : public urma_jfce_t {
 public:
  // `key` tells it apart from every other channel that this process ever has. Throws Error.
  EventChannel(urma_context_t* ctx, uint64_t key);

  uint64_t key() const { return key_; }

  // The JFCs that raise their events here.
  void add(CompletionQueue* jfc);
  // Also takes back the events that were not handed out yet.
  void remove(CompletionQueue* jfc);
  // Whether the program has acknowledged all that it was handed out.
  bool all_acked(CompletionQueue* jfc);
  // An event of one of them.
  void fire(CompletionQueue* jfc);

  // urma_wait_jfc.
  int wait(uint32_t count, int timeout_ms, urma_jfc_t** jfcs);

  // Makes what a peer can wake this channel with. Throws Error.
  std::shared_ptr<Wakeup> make_wakeup();
  void drop_wakeup(const std::shared_ptr<Wakeup>& wakeup);
  // Once in so many calls: makes room in the sockets of all peers.
  void drain_seldom();

  // Also sleeps on `source`; the same once more changes nothing. Throws Error.
  void watch(const std::shared_ptr<WakeSource>& source);

 private:
  uint32_t take(uint32_t count, urma_jfc_t** jfcs);
  void collect();
  bool move_all() URMA_REQUIRES(collect_mutex_);
  void drain_sources();
  void wake_up();

  const uint64_t key_;
  Fd epoll_;
  Fd own_;  // an eventfd

  // Held by the one thread that moves things for waiting threads. A thread waits for it only while
  // another one of this process copies.
  Mutex collect_mutex_;
  std::vector<CompletionQueue*> jfcs_ URMA_GUARDED_BY(collect_mutex_);
  std::atomic<pthread_t> collector_{0};  // who holds collect_mutex_ to move things
  Mutex mutex_;
  std::vector<CompletionQueue*> pending_
      URMA_GUARDED_BY(mutex_);  // with an event that was not handed out yet
  std::vector<std::shared_ptr<Wakeup>> wakeups_ URMA_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<WakeSource>> sources_ URMA_GUARDED_BY(mutex_);
  std::atomic<uint32_t> drains_{0};
};

}  // namespace urma

#endif  // JETTY_EVENT_CHANNEL_H_
