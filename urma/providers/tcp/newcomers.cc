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
constexpr size_t kMaxStrangers = 256;
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
  const Place place = waiting_.insert(waiting_.end(), {fd, stranger, now});
  strangers_ += stranger ? 1 : 0;
  return place;
}

const char* Newcomers::ended(Place place) const {
  const MutexLock lock(mutex_);
  return place->ended;
}

void Newcomers::leave(Place place) {
  const MutexLock lock(mutex_);
  if (place->ended != nullptr) {
    ended_.erase(place);
    return;
  }
  strangers_ -= place->stranger ? 1 : 0;
  waiting_.erase(place);
}

bool Newcomers::has_room(bool scarce) {
  const MutexLock lock(mutex_);
  if (!scarce && strangers_ < kMaxStrangers) return true;
  const auto oldest = std::find_if(waiting_.begin(), waiting_.end(),
                                   [](const Newcomer& newcomer) { return newcomer.stranger; });
  if (oldest == waiting_.end() || monotonic_ns() - oldest->since_ns < kShortStayNs) return false;
  constexpr const char* why = "its greeting was unfinished, and others needed the place";
  end(oldest, why);
  // Its descriptor is closed later.
  return !scarce;
}

void Newcomers::expire() {
  uint64_t times;
  (void)!::read(timer_.get(), &times, sizeof(times));
  const MutexLock lock(mutex_);
  wakes_at_ns_ = 0;
  const uint64_t now = monotonic_ns();
  while (!waiting_.empty() && now - waiting_.front().since_ns >= patience_ns_) {
    constexpr const char* why = "its greeting took too long";
    end(waiting_.begin(), why);
  }
  if (!waiting_.empty()) wake_at(waiting_.front().since_ns + patience_ns_);
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

void Newcomers::end(Place place, const char* why) {
  place->ended = why;
  strangers_ -= place->stranger ? 1 : 0;
  ::shutdown(place->fd, SHUT_RDWR);
  ended_.splice(ended_.end(), waiting_, place);
}

}  // namespace urma::tcp
