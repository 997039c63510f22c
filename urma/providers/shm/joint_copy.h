// SPDX-License-Identifier: MIT
//
// A large message that only the kernel can copy is copied by both ends at once: the receiver reads
// parts from the front on, and a sender that polls writes parts from the back on, until they meet.
//
// The receiver offers the parts of one turn in the memory of the ring, and ends the turn once the
// sender is through with what it has taken, or can no longer write it. Neither trusts the other: a
// sender writes nothing but bytes of this message, into nothing but memory of the process that
// receives it, and a receiver copies by itself what a sender does not say that it has written.
#ifndef URMA_PROVIDERS_SHM_JOINT_COPY_H_
#define URMA_PROVIDERS_SHM_JOINT_COPY_H_

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "jetty/iovecs.h"
#include "urma/base/cache_line.h"
#include "urma/providers/shm/peer.h"

namespace urma::shm {

inline constexpr uint32_t kPartBytes = 64 << 10;
inline constexpr uint32_t kJointParts = kCopyPerTurn / kPartBytes;

// The parts of a turn that nobody has taken: from `front` up to `back`.
struct alignas(8) Claims {
  uint32_t turn = 0;
  uint16_t front = 0;
  uint16_t back = 0;
};

// The parts of a turn, from the back on, that the sender is through with.
struct alignas(8) Written {
  uint32_t turn = 0;
  uint16_t parts = 0;
  uint16_t failed = 0;  // not 0: the next ones could not be written, and none follow
};

// In shared memory.
struct JointCopy {
  alignas(kCacheLine) std::atomic<Claims> claims;  // both ends change it
  // Written by the receiver, before it offers parts: the place of their message in the ring, and of
  // the first part in the message.
  std::atomic<uint64_t> position;
  std::atomic<uint64_t> offset;
  alignas(kCacheLine) std::atomic<Written> written;  // by the sender
  // Where the receiver wants each part. The kernel reads it for the sender, when a copy begins: a
  // part whose length is 0 by then is not written.
  alignas(kCacheLine) std::array<iovec, kJointParts> parts;
};
static_assert(std::atomic<Claims>::is_always_lock_free && sizeof(Claims) == 8);
static_assert(std::atomic<Written>::is_always_lock_free && sizeof(Written) == 8);

// The receiver's side of one turn.
class JointTurn {
 public:
  // Offers the `to.iov_len` bytes from `offset` on of the message at `position`. No other turn of
  // this ring has the number `turn`.
  JointTurn(JointCopy* shared, const PeerProcess* sender, uint32_t turn, uint64_t position,
            uint64_t offset, iovec to);
  JointTurn(const JointTurn&) = delete;
  ~JointTurn() { end(); }

  struct Window {
    uint64_t offset;  // in the turn
    uint64_t bytes;
  };
  // The next parts to copy; none: the sender has taken the rest.
  std::optional<Window> take();
  // Takes all that is left, and waits until the sender is through with its parts; unwritten() is
  // then what it has taken, and not written. Unless it is kWhole, that process may help no more:
  // one that goes on later would find the places of another turn.
  enum class End {
    kWhole,
    kLast,   // the sender is stopped, or was slow, or has ended
    kStuck,  // it may still be writing: the kernel holds it up, or it breaks the rules
  };
  End end();
  Window unwritten() const { return window(front_, written_from_); }

 private:
  Window window(uint32_t from, uint32_t to) const;
  bool sound(Claims claims) const;
  uint16_t share(Claims left) const;
  uint16_t taken() const { return static_cast<uint16_t>(count_ - back_); }
  bool is_through();
  End wait();
  void withdraw();

  JointCopy* const shared_;
  const PeerProcess* const sender_;
  const uint32_t turn_;
  const uint64_t bytes_;
  const uint16_t count_;
  uint16_t front_ = 0;
  uint16_t back_;          // as last read, checked
  uint16_t written_from_;  // the parts from here on need no copy
  std::optional<End> end_;
};

// The sender's side.
class JointHelp {
 public:
  explicit JointHelp(JointCopy* shared);
  JointHelp(const JointHelp&) = delete;
  ~JointHelp() {
    if (taken_ != 0) tell(false);
  }

  // What the receiver says; to be checked.
  uint64_t position() const { return position_; }
  uint64_t offset() const { return offset_; }

  // The next parts to write, by their numbers; none: the turn is over. Then tell() whether they
  // are; they are not if this object ends first.
  struct Parts {
    uint16_t first;
    uint16_t count;
  };
  std::optional<Parts> take();
  std::span<const iovec> places(Parts taken) const {
    return {&shared_->parts[taken.first], taken.count};
  }
  void tell(bool done);

 private:
  bool is_open(Claims now) const;

  JointCopy* const shared_;
  Claims claims_;
  const uint64_t position_;
  const uint64_t offset_;
  Written written_;
  uint16_t taken_ = 0;  // and not told
};

// Whether parts are offered. A hint.
[[gnu::always_inline]] inline bool wants_help(const JointCopy& shared) {
  const Claims claims = shared.claims.load(std::memory_order_relaxed);
  return claims.front < claims.back;
}

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_JOINT_COPY_H_
