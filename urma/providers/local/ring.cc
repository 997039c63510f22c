// SPDX-License-Identifier: MIT
#include "urma/providers/local/ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "urma_opcode.h"

namespace urma::local {
namespace {

// A message's first word: the low half of position + 1 (so that zeroed memory is no message), then
// kind, flags and the number of slots.
uint64_t pack(uint64_t position, MessageKind kind, uint8_t flags, uint32_t slots) {
  return static_cast<uint32_t>(position + 1) | uint64_t{static_cast<uint8_t>(kind)} << 32 |
         uint64_t{flags} << 40 | uint64_t{slots} << 48;
}

uint32_t slots_for(uint32_t payload) {
  return (sizeof(MessageHeader) + payload + kSlotBytes - 1) / kSlotBytes;
}

// `payload` is what lies in the ring of the message itself.
bool sound_payload(const Message& message, uint32_t payload) {
  return (message.flags & kByReference) != 0 ? payload % sizeof(PayloadPiece) == 0
                                             : payload == message.length;
}

// False for a kind that does not exist, too.
bool sound_lengths(const Message& message) {
  switch (message.kind) {
    case MessageKind::kSend:
    case MessageKind::kSendImm:
      return sound_payload(message, message.payload);
    case MessageKind::kWriteImm:
      return (message.flags & kByReference) == 0 && message.payload == 0 &&
             message.length <= kMaxMessageBytes;
    case MessageKind::kSendInvalidate:
      return message.payload >= sizeof(Invalidation) &&
             sound_payload(message, message.payload - sizeof(Invalidation));
  }
  return false;
}

uint32_t answers_bytes(uint32_t slots) {
  return static_cast<uint32_t>(sizeof(RingAnswers) + sizeof(RingRequests)) + slots;
}

}  // namespace

RingLayout::RingLayout(void* base, uint32_t bytes)
    : base_(base),
      first_slot_(static_cast<char*>(base) + total_bytes(bytes) - bytes),
      slots_(bytes / kSlotBytes) {}

uint32_t RingLayout::total_bytes(uint32_t bytes) {
  const uint32_t answers = (answers_bytes(bytes / kSlotBytes) + 4095) / 4096 * 4096;
  return answers + bytes;
}

bool RingLayout::valid_size(uint32_t bytes) {
  return bytes >= kMinRingBytes && bytes <= kMaxRingBytes && std::has_single_bit(bytes);
}

// A quarter of the ring, so that large messages cannot shut out the small ones behind them.
uint32_t RingLayout::max_payload() const {
  return slots_ / 4 * kSlotBytes - static_cast<uint32_t>(sizeof(MessageHeader));
}

std::atomic<uint8_t>& RingLayout::answer(uint64_t position) const {
  char* first = reinterpret_cast<char*>(&requests() + 1);
  return *reinterpret_cast<std::atomic<uint8_t>*>(first + (position & (slots_ - 1)));
}

MessageHeader& RingLayout::header(uint64_t position) const {
  return *reinterpret_cast<MessageHeader*>(first_slot_ + (position & (slots_ - 1)) * kSlotBytes);
}

char* RingLayout::payload_at(uint64_t position, uint32_t offset, uint32_t* contiguous) const {
  const uint64_t ring_bytes = uint64_t{slots_} * kSlotBytes;
  const uint64_t at = (position * kSlotBytes + sizeof(MessageHeader) + offset) & (ring_bytes - 1);
  *contiguous = static_cast<uint32_t>(ring_bytes - at);
  return first_slot_ + at;
}

void RingLayout::copy_in(uint64_t position, uint32_t offset, const void* from,
                         uint32_t bytes) const {
  if (offset + bytes <= kSlotBytes - sizeof(MessageHeader)) {
    std::memcpy(reinterpret_cast<char*>(&header(position) + 1) + offset, from, bytes);
    return;
  }
  uint32_t contiguous;
  char* to = payload_at(position, offset, &contiguous);
  const uint32_t first = std::min(bytes, contiguous);
  std::memcpy(to, from, first);
  if (first < bytes)
    std::memcpy(first_slot_, static_cast<const char*>(from) + first, bytes - first);
}

void RingLayout::copy_out(uint64_t position, uint32_t offset, void* to, uint32_t bytes) const {
  // The rest of a message's first slot lies in one piece.
  if (offset + bytes <= kSlotBytes - sizeof(MessageHeader)) {
    std::memcpy(to, reinterpret_cast<const char*>(&header(position) + 1) + offset, bytes);
    return;
  }
  uint32_t contiguous;
  const char* from = payload_at(position, offset, &contiguous);
  const uint32_t first = std::min(bytes, contiguous);
  std::memcpy(to, from, first);
  if (first < bytes) std::memcpy(static_cast<char*>(to) + first, first_slot_, bytes - first);
}

RingProducer::RingProducer(uint32_t bytes)
    : bytes_(bytes),
      memory_(SharedMemory::create("urma-ring", RingLayout::total_bytes(bytes), PeerMay::kWrite)),
      layout_(memory_.data(), bytes),
      sent_(layout_.slots()),
      dirty_(layout_.slots()) {}

bool RingProducer::room_for(uint32_t payload) const {
  // One slot more than the message: its first word must not look like a message (see begin()).
  // What is consumed but not reaped still needs its answer and its cookie.
  return head_ - reaped_ + slots_for(payload) + 1 <= layout_.slots();
}

void RingProducer::begin(uint32_t payload) {
  begun_ = 0;
  begun_slots_ = slots_for(payload);
  // The consumer will look at the word behind this message next. Where payload of an earlier lap
  // lies there it might pass for a message.
  const uint64_t next = head_ + begun_slots_;
  const uint64_t mask = layout_.slots() - 1;
  if (dirty_[next & mask] != 0) [[unlikely]] {
    layout_.header(next).word.store(0, std::memory_order_relaxed);
    dirty_[next & mask] = 0;
  }
  for (uint64_t slot = head_ + 1; slot < next; ++slot) dirty_[slot & mask] = 1;
  dirty_[head_ & mask] = 0;
}

void RingProducer::append(const void* data, uint32_t bytes) {
  if (bytes == 0) return;
  layout_.copy_in(head_, static_cast<uint32_t>(begun_), data, bytes);
  begun_ += bytes;
}

void RingProducer::publish(MessageKind kind, uint8_t flags, uint32_t length, uint64_t immediate,
                           uint32_t cookie) {
  MessageHeader& header = layout_.header(head_);
  header.length = length;
  header.payload = static_cast<uint32_t>(begun_);
  header.immediate = immediate;
  sent_[head_ & (layout_.slots() - 1)] = {cookie, begun_slots_};
  // SYNC(ring-publish): release pairs with the acquire in RingConsumer::peek.
  header.word.store(pack(head_, kind, flags, begun_slots_), std::memory_order_release);
  head_ += begun_slots_;
}

void RingProducer::want_answers() {
  if (wanted_ == head_) return;
  wanted_ = head_;
  // SYNC(ring-wanted): release pairs with the acquire in RingConsumer::answer_wanted.
  layout_.requests().wanted.store(head_, std::memory_order_release);
}

uint64_t RingProducer::refresh_consumed() {
  // SYNC(ring-consumed): acquire pairs with the release in RingConsumer::publish_position.
  const uint64_t consumed = layout_.answers().consumed.load(std::memory_order_acquire);
  // A position that runs backwards or ahead of what was sent is a lie and is not believed.
  if (consumed > consumed_ && consumed <= head_) consumed_ = consumed;
  return consumed_;
}

bool RingProducer::reap(uint32_t* cookie, uint8_t* status) {
  if (reaped_ == head_) return false;
  const Sent& sent = sent_[reaped_ & (layout_.slots() - 1)];
  if (reaped_ + sent.slots > consumed_ && reaped_ + sent.slots > refresh_consumed()) return false;
  *cookie = sent.cookie;
  std::atomic<uint8_t>& answer = layout_.answer(reaped_);
  // Relaxed: ordered by ring-consumed, which the consumer publishes after the answer.
  *status = answer.load(std::memory_order_relaxed);
  if (*status != URMA_CR_SUCCESS) answer.store(URMA_CR_SUCCESS, std::memory_order_relaxed);
  reaped_ += sent.slots;
  return true;
}

bool RingProducer::abandon(uint32_t* cookie) {
  if (reaped_ == head_) return false;
  const Sent& sent = sent_[reaped_ & (layout_.slots() - 1)];
  *cookie = sent.cookie;
  reaped_ += sent.slots;
  return true;
}

uint32_t RingProducer::closed() const {
  // SYNC(ring-closed): acquire pairs with the release in RingConsumer::close.
  return layout_.answers().closed.load(std::memory_order_acquire);
}

RingConsumer::RingConsumer(Fd fd, uint32_t bytes)
    : memory_(SharedMemory::adopt(std::move(fd), RingLayout::total_bytes(bytes), PeerMay::kWrite)),
      layout_(memory_->data(), bytes) {
  memory_->close_fd();
}

RingConsumer::RingConsumer(const RingProducer& producer)
    : layout_(producer.memory().data(), producer.bytes()) {}

RingConsumer::Peek RingConsumer::peek(Message* message) const {
  const MessageHeader& header = layout_.header(position_);
  // SYNC(ring-publish): acquire pairs with the release in RingProducer::publish.
  const uint64_t word = header.word.load(std::memory_order_acquire);
  if (static_cast<uint32_t>(word) != static_cast<uint32_t>(position_ + 1)) return Peek::kEmpty;
  message->kind = static_cast<MessageKind>(word >> 32 & 0xFF);
  message->flags = static_cast<uint8_t>(word >> 40 & 0xFF);
  message->slots = static_cast<uint32_t>(word >> 48);
  message->length = const_cast<const volatile uint32_t&>(header.length);
  message->payload = const_cast<const volatile uint32_t&>(header.payload);
  message->immediate = const_cast<const volatile uint64_t&>(header.immediate);
  const bool sound = message->payload <= layout_.max_payload() &&
                     message->slots == slots_for(message->payload) && sound_lengths(*message);
  return sound ? Peek::kMessage : Peek::kBroken;
}

void RingConsumer::copy_payload(const Message& message, uint32_t offset, void* to,
                                uint32_t bytes) const {
  if (bytes == 0 || bytes > message.payload || offset > message.payload - bytes) return;
  layout_.copy_out(position_, offset, to, bytes);
}

void RingConsumer::consume(const Message& message, uint8_t status) {
  if (status != URMA_CR_SUCCESS) {
    layout_.answer(position_).store(status, std::memory_order_relaxed);
    ++errors_told_;
  }
  position_ += message.slots;
  // Who waits learns at once; the room of all others is given back in quarters of the ring.
  if ((message.flags & kWantsAnswer) != 0 || status != URMA_CR_SUCCESS ||
      position_ - published_ >= layout_.slots() / 4) {
    publish_position();
  }
}

void RingConsumer::answer_wanted() {
  if (published_ == position_) return;
  // SYNC(ring-wanted): acquire pairs with the release in RingProducer::want_answers.
  if (layout_.requests().wanted.load(std::memory_order_acquire) > published_) publish_position();
}

void RingConsumer::publish_position() {
  published_ = position_;
  ++told_;
  // SYNC(ring-consumed): release pairs with the acquire in RingProducer::refresh_consumed.
  layout_.answers().consumed.store(position_, std::memory_order_release);
}

void RingConsumer::close(uint8_t status) {
  publish_position();
  ++errors_told_;
  // SYNC(ring-closed): release pairs with the acquire in RingProducer::closed.
  layout_.answers().closed.store(status, std::memory_order_release);
}

}  // namespace urma::local
