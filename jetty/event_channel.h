// SPDX-License-Identifier: MIT
//
// A JFCE: where a program sleeps until one of its JFCs has raised an event.
#ifndef JETTY_EVENT_CHANNEL_H_
#define JETTY_EVENT_CHANNEL_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "jetty/busy_poll.h"
#include "urma/base/fd.h"
#include "urma/base/mutex.h"
#include "urma_types.h"

namespace urma {

class CompletionQueue;

// What one peer wakes one JFCE with: a byte sent into a connected pair of sockets. Each end is an
// open file of its own, so that neither process can block the other or change how its end works, as
// two processes that share an eventfd could. Nothing needs to be read: each byte is an edge.
struct Wakeup {
  Fd here;   // watched by the JFCE
  Fd there;  // for the peer; kept, since each ring hands it out again
};

// A descriptor that becomes readable when there may be completions, for a provider whose peers do
// not wake a JFCE themselves.
class WakeSource {
 public:
  virtual ~WakeSource() = default;
  virtual int fd() const = 0;
  // Reads what has come. The armed JFCs of the channel are moved afterwards.
  virtual void drain() = 0;
};

// fd is an epoll instance over the wake-ups of all peers and an eventfd of its own. Thread-safe.
class EventChannel : public urma_jfce_t {
 public:
  // `key` distinguishes it from every other channel of this process, past ones too. Waits look for
  // events themselves for up to `busy_poll_ns`. Throws Error.
  EventChannel(urma_context_t* ctx, uint64_t key, uint64_t busy_poll_ns);

  uint64_t key() const { return key_; }

  // The JFCs that raise their events here.
  void add(CompletionQueue* jfc);
  // Also takes back events that were not handed out yet.
  void remove(CompletionQueue* jfc);
  // Whether the program has acknowledged all events that it was handed.
  bool all_acked(CompletionQueue* jfc);
  // An event of one of them.
  void fire(CompletionQueue* jfc);

  // urma_wait_jfc.
  int wait(uint32_t count, int timeout_ms, urma_jfc_t** jfcs);
  // `jfc` has just been armed, by a program that may sleep on fd: looks for its event first.
  void look_when_armed(CompletionQueue* jfc);

  // Makes a wake-up for one peer. Throws Error.
  std::shared_ptr<Wakeup> make_wakeup();
  void drop_wakeup(const std::shared_ptr<Wakeup>& wakeup);
  // Every kCallsPerDrain calls: makes room in the sockets of all peers.
  void drain_seldom();

  // Also sleeps on `source`; a second call with the same source changes nothing. Throws Error.
  void watch(const std::shared_ptr<WakeSource>& source);

 private:
  uint32_t take(uint32_t count, urma_jfc_t** jfcs);
  void look_before_sleep();
  template <typename HasFound>
  void look(std::span<CompletionQueue* const> jfcs, const HasFound& has_found)
      URMA_REQUIRES(collect_mutex_);
  bool has_event();
  // Relaxed: a hint.
  bool has_sleeper() const { return sleepers_.load(std::memory_order_relaxed) != 0; }
  void collect();
  static bool move_all(std::span<CompletionQueue* const> jfcs);
  void drain_sources();
  void wake_up();

  const uint64_t key_;
  Fd epoll_;
  Fd own_;  // an eventfd

  // Held by the one thread that moves work for waiting threads. A thread waits for it only while
  // another thread of this process copies, or looks for events.
  Mutex collect_mutex_;
  std::vector<CompletionQueue*> jfcs_ URMA_GUARDED_BY(collect_mutex_);
  BusyPoll busy_poll_ URMA_GUARDED_BY(collect_mutex_);
  std::atomic<bool> sleeps_in_wait_{false};  // the last wait was one that may sleep
  std::atomic<uint32_t> sleepers_{0};        // threads that sleep in a wait
  std::atomic<pthread_t> collector_{0};      // the thread that holds collect_mutex_ to move work
  Mutex mutex_;
  // With an event that was not handed out yet.
  std::vector<CompletionQueue*> pending_ URMA_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Wakeup>> wakeups_ URMA_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<WakeSource>> sources_ URMA_GUARDED_BY(mutex_);
  std::atomic<uint32_t> drains_{0};
};

}  // namespace urma

#endif  // JETTY_EVENT_CHANNEL_H_
