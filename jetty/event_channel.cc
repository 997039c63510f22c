// SPDX-License-Identifier: MIT
#include "jetty/event_channel.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "jetty/completion_queue.h"
#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/base/short_mutex.h"

namespace urma {
namespace {

constexpr uint32_t kMaxEventsPerWait = 16;
// A socket holds some hundred bytes that nobody reads; its peer sends few for each arming.
constexpr uint32_t kCallsPerDrain = 64;
// How often a collect() moves more before its caller checks the deadline, and how often a wait
// without a timeout collects: peers can have something new indefinitely.
constexpr int kPassesPerCollect = 8;
constexpr int kCollectsPerWait = 64;
constexpr uint64_t kNsPerMs = 1'000'000;
// With more JFCs a look takes longer than a wake-up.
constexpr size_t kMostLookedAt = 16;
// Leaves the locks of the queues to other threads.
constexpr uint32_t kPausesBetweenLooks = 1;

void add_wakeup(int epoll, int fd) {
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLET;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    fail_errno(URMA_ENOMEM, "watching a wake-up of a JFCE");
  }
}

// The thread that moves work for all who wait.
class Collector {
 public:
  // Relaxed: see EventChannel::fire().
  explicit Collector(std::atomic<pthread_t>& place) : here_(place) {
    here_.store(::pthread_self(), std::memory_order_relaxed);
  }
  ~Collector() { here_.store(0, std::memory_order_relaxed); }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

 private:
  std::atomic<pthread_t>& here_;
};

// A thread that sleeps in a wait.
class Sleeper {
 public:
  explicit Sleeper(std::atomic<uint32_t>& count) : count_(count) {
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  ~Sleeper() { count_.fetch_sub(1, std::memory_order_relaxed); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

 private:
  std::atomic<uint32_t>& count_;
};

// Whether one of the calls returns true; all are made.
template <typename Call>
bool some_of(std::span<CompletionQueue* const> jfcs, const Call& call) {
  bool some = false;
  for (CompletionQueue* jfc : jfcs) some |= std::invoke(call, jfc);
  return some;
}

// The rest of a timeout, rounded up.
int remaining_ms(uint64_t deadline_ns) {
  const uint64_t now = monotonic_ns();
  if (now >= deadline_ns) return 0;
  return static_cast<int>((deadline_ns - now + kNsPerMs - 1) / kNsPerMs);
}

}  // namespace

EventChannel::EventChannel(urma_context_t* ctx, uint64_t key, uint64_t busy_poll_ns)
    : urma_jfce_t{},
      key_(key),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      own_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      busy_poll_(busy_poll_ns) {
  if (!epoll_.valid() || !own_.valid()) fail_errno(URMA_ENOMEM, "create_jfce");
  add_wakeup(epoll_.get(), own_.get());
  urma_ctx = ctx;
  fd = epoll_.get();
}

void EventChannel::add(CompletionQueue* jfc) {
  const MutexLock collecting(collect_mutex_);
  const MutexLock lock(mutex_);
  // So that fire() needs no memory.
  pending_.reserve(jfcs_.size() + 1);
  jfcs_.push_back(jfc);
  jfc->listed_ = true;
}

bool EventChannel::all_acked(CompletionQueue* jfc) {
  const MutexLock lock(mutex_);
  return jfc->all_acked();
}

void EventChannel::remove(CompletionQueue* jfc) {
  const MutexLock collecting(collect_mutex_);
  const MutexLock lock(mutex_);
  std::erase(jfcs_, jfc);
  std::erase(pending_, jfc);
  jfc->listed_ = false;
  jfc->event_pending_ = false;
}

void EventChannel::fire(CompletionQueue* jfc) {
  {
    const MutexLock lock(mutex_);
    if (!jfc->listed_) return;
    const bool first = pending_.empty();
    if (!std::exchange(jfc->event_pending_, true)) pending_.push_back(jfc);
    // Who made the list non-empty has woken those that sleep in a wait. A program that sleeps on
    // the descriptor may leave its events here, and yet wait for an edge.
    if (!first && sleeps_in_wait_.load(std::memory_order_relaxed)) return;
  }
  // Relaxed: a thread finds its own id here only if it has put it there itself.
  if (collector_.load(std::memory_order_relaxed) != ::pthread_self()) wake_up();
}

void EventChannel::wake_up() {
  const uint64_t one = 1;
  // Each write is an edge. The count is never read, and would take centuries to overflow.
  [[maybe_unused]] ssize_t written = ::write(own_.get(), &one, sizeof(one));
}

uint32_t EventChannel::take(uint32_t count, urma_jfc_t** jfcs) {
  const MutexLock lock(mutex_);
  const auto taken =
      static_cast<uint32_t>(std::min<size_t>({count, kMaxEventsPerWait, pending_.size()}));
  for (uint32_t i = 0; i < taken; ++i) {
    CompletionQueue* jfc = pending_[i];
    jfc->event_pending_ = false;
    ++jfc->reported_;
    jfcs[i] = jfc;
  }
  pending_.erase(pending_.begin(), pending_.begin() + taken);
  // The edge that announced all of them may be gone.
  if (taken != 0 && !pending_.empty()) wake_up();
  return taken;
}

int EventChannel::wait(uint32_t count, int timeout_ms, urma_jfc_t** jfcs) {
  // Relaxed: a hint.
  sleeps_in_wait_.store(timeout_ms != 0, std::memory_order_relaxed);
  uint32_t taken = take(count, jfcs);
  if (taken != 0) return static_cast<int>(taken);
  const uint64_t deadline =
      timeout_ms > 0 ? monotonic_ns() + static_cast<uint64_t>(timeout_ms) * kNsPerMs : 0;
  if (timeout_ms != 0) {
    look_before_sleep();
    taken = take(count, jfcs);
    if (taken != 0) return static_cast<int>(taken);
  }
  const Sleeper sleeper(sleepers_);
  int left = timeout_ms > 0 ? remaining_ms(deadline) : timeout_ms;
  for (int collects = 1;; ++collects) {
    epoll_event events[kMaxEventsPerWait];
    const int ready = ::epoll_wait(epoll_.get(), events, kMaxEventsPerWait, left);
    if (ready < 0) return -1;
    // An edge says that something has come, not what.
    if (ready > 0) collect();
    taken = take(count, jfcs);
    if (taken != 0) return static_cast<int>(taken);
    // Without a timeout: until the descriptor is dry.
    if (left == 0 && (ready == 0 || timeout_ms > 0 || collects == kCollectsPerWait)) return 0;
    if (timeout_ms > 0) left = remaining_ms(deadline);
  }
}

void EventChannel::look_before_sleep() {
  // Nobody wakes those who sleep for what this thread looks for.
  if (has_sleeper() || !collect_mutex_.try_lock()) return;
  const MutexLock collecting(collect_mutex_, std::adopt_lock);
  const Collector collector(collector_);
  look(jfcs_, [this] { return has_event(); });
}

void EventChannel::look_when_armed(CompletionQueue* jfc) {
  // Relaxed: a hint. A program that is about to wait looks then.
  if (sleeps_in_wait_.load(std::memory_order_relaxed) || has_sleeper() || has_event() ||
      !collect_mutex_.try_lock()) {
    return;
  }
  const MutexLock collecting(collect_mutex_, std::adopt_lock);
  // Not as the collector: the event has to make the descriptor readable.
  look({&jfc, 1}, [jfc] { return !jfc->armed(); });
}

// For a while, instead of being woken for each event.
template <typename HasFound>
void EventChannel::look(std::span<CompletionQueue* const> jfcs, const HasFound& has_found) {
  if (jfcs_.size() > kMostLookedAt || !busy_poll_.is_due() ||
      !some_of(jfcs, &CompletionQueue::look_begins)) {
    return;
  }
  try {
    move_all(jfcs);
    if (!has_found()) {
      busy_poll_.begin(monotonic_ns());
      do {
        pause_for(kPausesBetweenLooks);
        move_all(jfcs);
      } while (!has_found() && !has_event() && !has_sleeper() &&
               busy_poll_.goes_on(monotonic_ns()));
      busy_poll_.end(has_found());
    }
    // What has come since the last pass wakes nobody.
    if (some_of(jfcs, &CompletionQueue::look_ends) && move_all(jfcs)) wake_up();
  } catch (...) {
    some_of(jfcs, &CompletionQueue::look_ends);
    wake_up();
    throw;
  }
}

bool EventChannel::has_event() {
  const MutexLock lock(mutex_);
  return !pending_.empty();
}

// Moves what has arrived for the armed JFCs, so that completions that are due raise their events.
void EventChannel::collect() {
  const MutexLock collecting(collect_mutex_);
  const Collector collector(collector_);
  bool more = true;
  try {
    drain_sources();
    for (int pass = 0; pass < kPassesPerCollect && more; ++pass) more = move_all(jfcs_);
  } catch (...) {
    // Nobody was told yet of the events that were raised before.
    wake_up();
    throw;
  }
  if (more) wake_up();
}

bool EventChannel::move_all(std::span<CompletionQueue* const> jfcs) {
  return some_of(jfcs, [](CompletionQueue* jfc) { return jfc->armed() && jfc->move(); });
}

std::shared_ptr<Wakeup> EventChannel::make_wakeup() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    fail_errno(URMA_ENOMEM, "making a wake-up of a JFCE");
  }
  Fd here(ends[0]), there(ends[1]);
  if (!here.valid() || !there.valid()) fail_errno(URMA_ENOMEM, "making a wake-up of a JFCE");
  auto wakeup = std::make_shared<Wakeup>(Wakeup{std::move(here), std::move(there)});
  const MutexLock lock(mutex_);
  wakeups_.push_back(wakeup);
  try {
    add_wakeup(epoll_.get(), wakeup->here.get());
  } catch (...) {
    wakeups_.pop_back();
    throw;
  }
  return wakeup;
}

void EventChannel::drop_wakeup(const std::shared_ptr<Wakeup>& wakeup) {
  const MutexLock lock(mutex_);
  std::erase(wakeups_, wakeup);
  // Others may hold it for a while.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, wakeup->here.get(), nullptr);
}

// Closing its descriptor ends the watch, so one that has gone is only dropped here.
void EventChannel::watch(const std::shared_ptr<WakeSource>& source) {
  const MutexLock lock(mutex_);
  std::erase_if(sources_, [](const auto& known) { return known.expired(); });
  for (const auto& known : sources_) {
    if (known.lock() == source) return;
  }
  sources_.push_back(source);
  try {
    add_wakeup(epoll_.get(), source->fd());
  } catch (...) {
    sources_.pop_back();
    throw;
  }
}

void EventChannel::drain_sources() {
  for (size_t i = 0;; ++i) {
    std::shared_ptr<WakeSource> source;
    {
      const MutexLock lock(mutex_);
      if (i >= sources_.size()) return;
      source = sources_[i].lock();
    }
    if (source != nullptr) source->drain();
  }
}

void EventChannel::drain_seldom() {
  if (drains_.fetch_add(1, std::memory_order_relaxed) % kCallsPerDrain != 0) return;
  char unread[1024];
  bool drained = false;
  {
    const MutexLock lock(mutex_);
    for (const auto& wakeup : wakeups_) {
      // One call is enough: a peer has sent less than this since the last one.
      drained |= ::recv(wakeup->here.get(), unread, sizeof(unread), MSG_DONTWAIT) > 0;
    }
  }
  // An edge that nobody has seen goes with the byte that made it.
  if (drained) wake_up();
}

}  // namespace urma
