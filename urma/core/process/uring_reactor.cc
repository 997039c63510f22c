// SPDX-License-Identifier: MIT
#include "urma/core/process/uring_reactor.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/core/process/files.h"

namespace urma::core {
namespace {

constexpr unsigned kEntries = 4;
constexpr int kEventsAtOnce = 64;
constexpr uint64_t kRetryNs = 10'000'000;

// Newer than the header of Debian 12.
constexpr unsigned kFeatureNoIowait = 1U << 17;
constexpr unsigned kEnterNoIowait = 1U << 7;

constexpr unsigned kNeededFeatures = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;

void check(int result, const char* call) {
  if (result < 0) fail(URMA_FAIL, "{}: {}", call, std::strerror(-result));
}

io_uring open_ring() {
  io_uring_params params{};
  params.flags = IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER |
                 IORING_SETUP_DEFER_TASKRUN;
  io_uring ring{};
  check(io_uring_queue_init_params(kEntries, &ring, &params), "io_uring_setup");
  return ring;
}

}  // namespace

UringReactor::UringReactor()
    : epoll_(checked_fd(::epoll_create1(EPOLL_CLOEXEC), "making the service thread's epoll")),
      ring_(open_ring()) {
  try {
    if ((ring_.features & kNeededFeatures) != kNeededFeatures) {
      fail(URMA_FAIL, "this kernel's io_uring lacks features: {:#x}", ring_.features);
    }
    // A filter of system calls may let the first one pass and refuse this one.
    check(io_uring_get_events(&ring_), "io_uring_enter");
    // What a child of the program writes by mistake must not reach us.
    check(io_uring_ring_dontfork(&ring_), "madvise");
  } catch (...) {
    io_uring_queue_exit(&ring_);
    throw;
  }
}

UringReactor::~UringReactor() { io_uring_queue_exit(&ring_); }

bool UringReactor::sleeps_unnoticed() const { return (ring_.features & kFeatureNoIowait) != 0; }

void UringReactor::control(int operation, int fd, uint32_t events, uint64_t mark) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = mark;
  if (::epoll_ctl(epoll_.get(), operation, fd, &event) != 0) {
    fail_errno(URMA_FAIL, urma::format("watching descriptor {}", fd));
  }
}

void UringReactor::add(int fd, uint32_t events, uint64_t mark) {
  control(EPOLL_CTL_ADD, fd, events, mark);
}

void UringReactor::modify(int fd, uint32_t events, uint64_t mark) {
  control(EPOLL_CTL_MOD, fd, events, mark);
}

void UringReactor::remove(int fd) {
  // May fail: a descriptor that is closed already has left the epoll by itself.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

// A new poll completes at once where something is still ready. False where the kernel, for lack of
// memory, takes it only later.
bool UringReactor::arm() {
  if (!armed_) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry != nullptr) {
      io_uring_prep_poll_add(entry, epoll_.get(), EPOLLIN);
      armed_ = true;
    }
  }
  if (io_uring_sq_ready(&ring_) != 0) io_uring_submit_and_get_events(&ring_);
  return armed_ && io_uring_sq_ready(&ring_) == 0;
}

void UringReactor::sleep(uint64_t deadline_ns) {
  const uint64_t now = monotonic_ns();
  if (deadline_ns <= now) {
    io_uring_get_events(&ring_);
    return;
  }
  __kernel_timespec left{};
  left.tv_sec = static_cast<int64_t>((deadline_ns - now) / 1'000'000'000);
  left.tv_nsec = static_cast<int64_t>((deadline_ns - now) % 1'000'000'000);
  io_uring_getevents_arg argument{};
  if (deadline_ns != kNoDeadline) argument.ts = reinterpret_cast<uint64_t>(&left);
  const unsigned flags =
      IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG | (sleeps_unnoticed() ? kEnterNoIowait : 0);
  // Whatever it returns, the completions tell. liburing has no call that takes the flag.
  io_uring_enter2(ring_.ring_fd, 0, 1, flags, reinterpret_cast<sigset_t*>(&argument),
                  sizeof argument);
}

void UringReactor::take_ready(std::vector<Event>* events) {
  epoll_event ready[kEventsAtOnce];
  const int count = ::epoll_wait(epoll_.get(), ready, kEventsAtOnce, 0);
  for (int i = 0; i < count; ++i) events->push_back({ready[i].data.u64, ready[i].events});
}

void UringReactor::wait(uint64_t deadline_ns, std::vector<Event>* events) {
  events->clear();
  if (!arm()) deadline_ns = std::min(deadline_ns, monotonic_ns() + kRetryNs);
  if (io_uring_cq_ready(&ring_) == 0) sleep(deadline_ns);
  const unsigned completions = io_uring_cq_ready(&ring_);
  if (completions == 0) return;
  io_uring_cq_advance(&ring_, completions);
  armed_ = false;
  take_ready(events);
}

}  // namespace urma::core
