// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/mailbox.h"

#include <cstring>

namespace urma::verbs {
namespace {

// As many as receives can hold unread messages, and one for the message that waits for a receive.
uint32_t slots_for(uint32_t depth) { return depth + 1; }

}  // namespace

MailboxSlots::MailboxSlots(const Device& device, uint32_t depth)
    : slots_(slots_for(depth)),
      memory_(slots_ * sizeof(Letter)),
      region_(device, reinterpret_cast<uint64_t>(memory_.data()), memory_.bytes(),
              {URMA_ACCESS_READ | URMA_ACCESS_WRITE, false}) {}

Mailbox MailboxSlots::address() const {
  return {reinterpret_cast<uint64_t>(memory_.data()), region_.rkey().value_or(0), slots_};
}

std::optional<Letter> MailboxSlots::read(uint32_t slot) const {
  if (slot >= slots_) return std::nullopt;
  Letter letter;
  // Its sender may write while it is read: it can only spoil its own message.
  std::memcpy(&letter, static_cast<const char*>(memory_.data()) + slot * sizeof(Letter),
              sizeof(letter));
  return letter;
}

}  // namespace urma::verbs
