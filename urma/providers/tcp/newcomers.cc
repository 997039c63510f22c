// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/newcomers.h"

#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>

#include "urma/base/clock.h"
#include "urma/base/error.h"

namespace urma::tcp {
namespace {

// A thousand peers may start at once; each is done within a few round trips.
constexpr ptrdiff_t kMaxStrangers = 256;
constexpr uint64_t kShortStayNs = 100'000'000;

}  // namespace

Newcomers::Newcomers(uint64_t patience_ns)
    : patience_ns_(patience_ns),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  if (!timer_.valid()) fail_errno(URMA_FAIL, "making a timer");
}

Newcomers::Place Newcomers::add(int fd, bool stranger) {
  const MutexLock lock(mutex_);
  const uint64_t now = monotonic_ns();
  wake_at(now + patience_ns_);
  return all_.insert(all_.end(), {fd, stranger, now});
}

const char* Newcomers::ended(Place place) const {
  const MutexLock lock(mutex_);
  return place->ended;
}

void Newcomers::leave(Place place) {
  const MutexLock lock(mutex_);
  all_.erase(place);
}

bool Newcomers::has_room(bool scarce) {
  const MutexLock lock(mutex_);
  const auto waits = [](const Newcomer& one) { return one.stranger && one.ended == nullptr; };
  if (!scarce && std::ranges::count_if(all_, waits) < kMaxStrangers) return true;
  const auto oldest = std::ranges::find_if(all_, waits);
  if (oldest == all_.end() || monotonic_ns() - oldest->since_ns < kShortStayNs) return false;
  constexpr const char* why = "its greeting was unfinished, and others needed the place";
  end(&*oldest, why);
  // Its descriptor is closed later.
  return !scarce;
}

void Newcomers::expire() {
  uint64_t times;
  (void)!::read(timer_.get(), &times, sizeof(times));
  const MutexLock lock(mutex_);
  wakes_at_ns_ = 0;
  const uint64_t now = monotonic_ns();
  for (Newcomer& one : all_) {
    if (one.ended != nullptr) continue;
    if (now - one.since_ns < patience_ns_) return wake_at(one.since_ns + patience_ns_);
    constexpr const char* why = "its greeting took too long";
    end(&one, why);
  }
}

void Newcomers::wake_in(uint64_t delay_ns) {
  const MutexLock lock(mutex_);
  wake_at(monotonic_ns() + delay_ns);
}

void Newcomers::wake_at(uint64_t when_ns) {
  if (wakes_at_ns_ != 0 && wakes_at_ns_ <= when_ns) return;
  wakes_at_ns_ = when_ns;
  itimerspec when = {};
  when.it_value.tv_sec = static_cast<time_t>(when_ns / 1'000'000'000);
  when.it_value.tv_nsec = static_cast<long>(when_ns % 1'000'000'000);
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Newcomers::end(Newcomer* newcomer, const char* why) {
  newcomer->ended = why;
  ::shutdown(newcomer->fd, SHUT_RDWR);
}

}  // namespace urma::tcp
