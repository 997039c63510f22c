// SPDX-License-Identifier: MIT
#include "urma/providers/shm/joint_copy.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "urma/base/clock.h"
#include "urma/base/short_mutex.h"

namespace urma::shm {
namespace {

// A sender is through with a part within microseconds, unless it has lost its processor. It is
// waited for by looks, since the clock goes on while this process is stopped: for some milliseconds
// each time, and for about a second once; for two, if a look takes longer than it should.
constexpr uint32_t kLooksAtOnce = 1000;
constexpr uint32_t kLooksAwake = kLooksAtOnce + 100;
constexpr uint32_t kLooksInTime = kLooksAwake + 50;
constexpr uint32_t kLeastLooks = kLooksAwake + 300;
constexpr uint32_t kMostLooks = kLooksAwake + 5000;
constexpr uint64_t kPatienceNs = 2'000'000'000;
constexpr timespec kSleep = {0, 100'000};

uint16_t parts_in(uint64_t bytes) {
  return static_cast<uint16_t>((bytes + kPartBytes - 1) / kPartBytes);
}

// What one end takes next of the parts that are left: fewer towards the end, so that both end at
// the same time, and many at first, since each call of the kernel takes time of its own.
uint16_t share_of(Claims left) {
  return static_cast<uint16_t>(std::max(1, (left.back - left.front) / 3));
}

void wait_after(uint32_t looks) {
  if (looks < kLooksAtOnce) return pause_for(1);
  if (looks < kLooksAwake) return static_cast<void>(::sched_yield());
  ::nanosleep(&kSleep, nullptr);
}

// The state of a thread, from a file whose second field is a name in brackets.
char state_in(const std::filesystem::path& file) {
  std::ifstream stat(file);
  std::string line;
  std::getline(stat, line);
  const size_t name_end = line.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '?' : line[name_end + 2];
}

// Whether all its threads are stopped, by a signal or a debugger, or have ended: no call of the
// kernel is in progress then. False if that cannot be found out.
bool is_stopped(const PeerProcess& process) {
  constexpr std::string_view kNotInTheKernel = "TtZX";
  try {
    // It may be of another pid namespace.
    if (std::filesystem::read_symlink("/proc/self") != std::to_string(::getpid())) return false;
    const std::filesystem::path threads = "/proc/" + std::to_string(process.pid) + "/task";
    for (const auto& thread : std::filesystem::directory_iterator(threads)) {
      const char state = state_in(thread.path() / "stat");
      if (kNotInTheKernel.find(state) == std::string_view::npos) return false;
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

JointTurn::JointTurn(JointCopy* shared, const PeerProcess* sender, uint32_t turn, uint64_t position,
                     uint64_t offset, iovec to)
    : shared_(shared),
      sender_(sender),
      turn_(turn),
      bytes_(to.iov_len),
      count_(parts_in(to.iov_len)),
      back_(count_),
      written_from_(count_) {
  for (uint32_t i = 0; i < count_; ++i) {
    const Window part = window(i, i + 1);
    shared->parts[i] = {static_cast<char*>(to.iov_base) + part.offset, part.bytes};
  }
  // SYNC(joint-offer): release pairs with the acquires in JointHelp(): a sender that reads the
  // values of this turn cannot take parts of an earlier one.
  shared->position.store(position, std::memory_order_release);
  shared->offset.store(offset, std::memory_order_release);
  shared->claims.store({turn, 0, count_}, std::memory_order_release);
}

JointTurn::Window JointTurn::window(uint32_t from, uint32_t to) const {
  const uint64_t begin = std::min<uint64_t>(uint64_t{from} * kPartBytes, bytes_);
  return {begin, std::min<uint64_t>(uint64_t{to} * kPartBytes, bytes_) - begin};
}

// Only the sender changes it, and only takes parts.
bool JointTurn::sound(Claims claims) const {
  return claims.turn == turn_ && claims.front == front_ && claims.back >= front_ &&
         claims.back <= back_;
}

// A sender that has taken nothing while this end has copied does not poll.
uint16_t JointTurn::share(Claims left) const {
  if (front_ != 0 && taken() == 0) return static_cast<uint16_t>(left.back - left.front);
  return share_of(left);
}

std::optional<JointTurn::Window> JointTurn::take() {
  // Relaxed: the parts are nobody else's, and nothing comes with them.
  Claims claims = shared_->claims.load(std::memory_order_relaxed);
  while (sound(claims)) {
    back_ = claims.back;
    if (front_ == back_) return std::nullopt;
    const uint16_t first = front_;
    const Claims next = {turn_, static_cast<uint16_t>(first + share(claims)), back_};
    if (shared_->claims.compare_exchange_strong(claims, next, std::memory_order_relaxed)) {
      front_ = next.front;
      return window(first, front_);
    }
  }
  return std::nullopt;
}

JointTurn::End JointTurn::end() {
  if (end_) return *end_;
  const Claims left = shared_->claims.exchange({turn_, front_, front_}, std::memory_order_relaxed);
  if (sound(left)) {
    back_ = left.back;
    end_ = wait();
  } else {
    withdraw();
    end_ = End::kStuck;
  }
  if (*end_ != End::kWhole) sender_->may_help.store(false, std::memory_order_relaxed);
  return *end_;
}

JointTurn::End JointTurn::wait() {
  uint64_t until = 0;
  for (uint32_t looks = 0; looks < kMostLooks; ++looks) {
    if (is_through()) return looks < kLooksInTime ? End::kWhole : End::kLast;
    if (looks >= kLeastLooks && monotonic_ns() > until) break;
    if (looks == kLooksAwake) {
      withdraw();
      until = monotonic_ns() + kPatienceNs;
    }
    // A copy that has begun before was seen, or has ended now; one that begins later moves nothing.
    if (looks >= kLooksAwake && (has_ended(*sender_) || is_stopped(*sender_))) {
      is_through();
      return End::kLast;
    }
    wait_after(looks);
  }
  return End::kStuck;
}

// Whether the sender has written all that it has taken, or says that it cannot. Notes what it has.
bool JointTurn::is_through() {
  if (taken() == 0) return true;
  // SYNC(joint-written): acquire pairs with the release in JointHelp::tell().
  const Written written = shared_->written.load(std::memory_order_acquire);
  if (written.turn != turn_) return false;
  written_from_ = static_cast<uint16_t>(count_ - std::min(written.parts, taken()));
  return written.failed != 0 || written.parts == taken();
}

// The kernel reads these when a copy begins.
void JointTurn::withdraw() {
  for (iovec& part : shared_->parts) {
    std::atomic_ref<size_t>(part.iov_len).store(0, std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

// SYNC(joint-offer): acquires pair with the releases in JointTurn().
JointHelp::JointHelp(JointCopy* shared)
    : shared_(shared),
      claims_(shared->claims.load(std::memory_order_acquire)),
      position_(shared->position.load(std::memory_order_acquire)),
      offset_(shared->offset.load(std::memory_order_acquire)),
      // Relaxed: only this side writes it.
      written_(shared->written.load(std::memory_order_relaxed)) {
  if (written_.turn != claims_.turn) written_ = {claims_.turn, 0, 0};
}

// Only parts that were open before: a false receiver could otherwise keep this side busy
// indefinitely.
inline bool JointHelp::is_open(Claims now) const {
  return now.turn == claims_.turn && now.front >= claims_.front && now.front < now.back &&
         now.back <= claims_.back && now.back <= kJointParts && written_.failed == 0;
}

std::optional<JointHelp::Parts> JointHelp::take() {
  Claims now = claims_;
  // As often as an honest receiver can come in between.
  for (uint32_t tries = 0; tries <= kJointParts && is_open(now); ++tries) {
    const uint16_t count = share_of(now);
    const Claims next = {now.turn, now.front, static_cast<uint16_t>(now.back - count)};
    // Relaxed: the offer was read before, by acquires.
    if (shared_->claims.compare_exchange_strong(now, next, std::memory_order_relaxed)) {
      claims_ = next;
      taken_ = count;
      return Parts{next.back, count};
    }
  }
  return std::nullopt;
}

void JointHelp::tell(bool done) {
  const uint16_t taken = std::exchange(taken_, 0);
  if (done) {
    written_.parts += taken;
  } else {
    written_.failed = 1;
  }
  // SYNC(joint-written): release pairs with the acquire in JointTurn::is_through().
  shared_->written.store(written_, std::memory_order_release);
}

}  // namespace urma::shm
