// SPDX-License-Identifier: MIT
#include "segment/inplace/child_copies.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "urma/base/clock.h"

namespace urma {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;

// Whether a word has come, or all processes that could write one have ended.
bool has_told(int fd, int timeout_ms) {
  pollfd watched = {fd, POLLIN, 0};
  return ::poll(&watched, 1, timeout_ms) > 0;
}

bool has_told_until(int fd, uint64_t deadline_ns) {
  for (;;) {
    const uint64_t now = monotonic_ns();
    const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    const auto timeout_ms =
        static_cast<int>(std::min<uint64_t>((left + kNsPerMs - 1) / kNsPerMs, 1000));
    if (has_told(fd, timeout_ms)) return true;
    if (left == 0) return false;
  }
}

}  // namespace

void ChildCopies::prepare() {
  int ends[2];
  if (told_.valid() || ::pipe2(ends, O_CLOEXEC) != 0) return;
  told_.reset(ends[0]);
  tell_.reset(ends[1]);
  if (!told_.valid() || !tell_.valid()) drop();
}

void ChildCopies::drop() {
  told_.reset();
  tell_.reset();
}

void ChildCopies::wait_in_parent(uint64_t limit_ns) {
  if (!told_.valid()) return;
  ::close(tell_.get());
  const auto slot =
      std::find_if(late_.begin(), late_.end(), [](const Fd& late) { return !late.valid(); });
  const bool in_time =
      has_told_until(told_.get(), slot == late_.end() ? UINT64_MAX : monotonic_ns() + limit_ns);
  static_cast<void>(tell_.release());
  if (in_time) {
    told_.reset();
  } else {
    *slot = std::move(told_);
  }
}

// Writes a word, since other processes than this child may have inherited the pipe.
void ChildCopies::say_in_child() {
  if (tell_.valid()) static_cast<void>(!::write(tell_.get(), "c", 1));
  *this = ChildCopies();
}

void ChildCopies::close_in_child() const {
  if (told_.valid()) ::close(told_.get());
  for (const Fd& late : late_) {
    if (late.valid()) ::close(late.get());
  }
}

bool ChildCopies::any_missing() const {
  bool any = false;
  for (Fd& late : late_) {
    if (!late.valid()) continue;
    if (has_told(late.get(), 0)) {
      late.reset();
    } else {
      any = true;
    }
  }
  return any;
}

}  // namespace urma
