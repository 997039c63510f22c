// SPDX-License-Identifier: MIT
//
// A message carries 32 immediate bits, a work request 64 or more. What fits into 31 goes directly;
// otherwise the bits name a place at the receiver, which the same queue pair has written just
// before.
#ifndef URMA_PROVIDERS_VERBS_MAILBOX_H_
#define URMA_PROVIDERS_VERBS_MAILBOX_H_

#include <cstdint>
#include <cstring>
#include <optional>

#include "segment/lazy_array.h"
#include "urma/providers/verbs/memory.h"
#include "urma/providers/verbs/messages.h"

namespace urma::verbs {

enum class LetterKind : uint64_t { kImmediate = 0x1, kInvalidation = 0x2 };

struct Letter {
  LetterKind kind;
  uint64_t value;  // the immediate; or the token id and the token's value
  uint64_t va;     // what is invalidated
  uint64_t len;
};
static_assert(sizeof(Letter) == 32);

inline constexpr uint32_t kInMailbox = 1U << 31;
inline bool fits_directly(uint64_t immediate) { return immediate < kInMailbox; }

// The receiver's places for one connection. There are more of them than messages can wait at the
// receiver, so the sender takes them in turn without asking.
class MailboxSlots {
 public:
  // For a receiver with up to `depth` unread messages; one more waits for a receive. Throws Error.
  MailboxSlots(const Device& device, uint32_t depth)
      : slots_(depth + 1),
        memory_(slots_ * sizeof(Letter)),
        region_(device, reinterpret_cast<uint64_t>(memory_.data()), memory_.bytes(),
                {URMA_ACCESS_READ | URMA_ACCESS_WRITE, false}) {}

  Mailbox address() const { return {region_.va(), region_.rkey().value_or(0), slots_}; }
  // What the sender has written there, read once; nothing if there is no such place.
  std::optional<Letter> read(uint32_t slot) const {
    if (slot >= slots_) return std::nullopt;
    // Its sender may write while it is read: it can only spoil its own message.
    Letter letter;
    std::memcpy(&letter, static_cast<const Letter*>(memory_.data()) + slot, sizeof(letter));
    return letter;
  }

 private:
  const uint32_t slots_;
  LazyMemory memory_;
  MemoryRegion region_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_MAILBOX_H_
