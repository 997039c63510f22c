// SPDX-License-Identifier: MIT
#include "urma/providers/shm/ring.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace urma::shm {
namespace {

uint32_t answers_bytes(uint32_t slots) {
  return static_cast<uint32_t>(sizeof(RingAnswers) + sizeof(RingRequests) + sizeof(JointCopy)) +
         slots;
}

void fetch_to_write(const void* line) {
#if defined(__x86_64__)
  // The compiler would emit a fetch to read, since not every processor has this one. Those without
  // it ignore it.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
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
  // The rest of a message's first slot is contiguous.
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

RingProducer::RingProducer(uint32_t bytes, uint32_t as)
    : bytes_(bytes),
      max_payload_(RingLayout::max_payload_of(as)),
      memory_(SharedMemory::create("urma-ring", RingLayout::total_bytes(bytes), PeerMay::kMap)),
      layout_(memory_.data(), bytes),
      sent_(layout_.slots()),
      dirty_(layout_.slots()) {}

// A message takes all slots up to the end of the ring if another of its size would not fit after
// it. So messages of one size begin at the same slots in every lap, see begin().
uint32_t RingProducer::slots_taken(uint32_t payload) const {
  const uint32_t slots = slots_for(payload);
  const uint64_t rest = layout_.slots() - (head_ & (layout_.slots() - 1));
  return static_cast<uint32_t>(rest >= slots && rest < 2 * slots ? rest : slots);
}

bool RingProducer::room_for(uint32_t payload) const {
  // One slot more than the message: its first word must not look like a message (see begin()). A
  // message that is consumed but not reaped still needs its answer and its cookie.
  return head_ - reaped_ + slots_taken(payload) + 1 <= layout_.slots();
}

void RingProducer::begin(uint32_t payload) {
  begun_ = 0;
  begun_slots_ = slots_taken(payload);
  // The consumer looks at the word after this message next. Payload of an earlier lap there might
  // pass for a message.
  const uint64_t next = head_ + begun_slots_;
  const uint64_t mask = layout_.slots() - 1;
  if (dirty_[next & mask] != 0) [[unlikely]] {
    layout_.header(next).word.store(no_message(next), std::memory_order_relaxed);
    dirty_[next & mask] = 0;
  }
  for (uint64_t slot = head_ + 1; slot < next; ++slot) dirty_[slot & mask] = 1;
  // The next lap finds them.
  if (begun_slots_ > 1) dirty_until_ = next + layout_.slots();
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
  sent_[head_ & (layout_.slots() - 1)] = {cookie, static_cast<uint16_t>(begun_slots_),
                                          (flags & kByReference) != 0, length <= max_payload_};
  // SYNC(ring-publish): release pairs with the acquire in RingConsumer::peek.
  header.word.store(first_word(head_, kind, flags, begun_slots_), std::memory_order_release);
  head_ += begun_slots_;
  // The consumer holds the cache lines of the lap before. Those of the next message, if it is like
  // this one, are fetched now, while nobody waits for them; except the first, at which the consumer
  // looks, and the one that processors fetch with it.
  const uint32_t filled = slots_for(static_cast<uint32_t>(begun_));
  for (uint32_t i = 2; i < filled; ++i) fetch_to_write(&layout_.header(head_ + i));
}

void RingProducer::want_answers() {
  if (wanted_ == head_) return;
  wanted_ = head_;
  // SYNC(ring-wanted): release pairs with the acquire in RingConsumer::answer_wanted.
  layout_.requests().wanted.store(head_, std::memory_order_release);
}

bool RingProducer::abandon(uint32_t* cookie) {
  if (reaped_ == head_) return false;
  const Sent& sent = sent_[reaped_ & (layout_.slots() - 1)];
  *cookie = sent.cookie;
  hide(reaped_);
  reaped_ += sent.slots;
  return true;
}

void RingProducer::take_back_lent() {
  for (uint64_t at = reaped_; at != head_;) {
    const Sent& sent = sent_[at & (layout_.slots() - 1)];
    if (sent.by_reference) hide(at);
    at += sent.slots;
  }
}

bool RingProducer::lends_what_fits() {
  const uint64_t consumed = refresh_consumed();
  for (uint64_t at = reaped_; at != head_;) {
    const Sent& sent = sent_[at & (layout_.slots() - 1)];
    if (at >= consumed && sent.by_reference && sent.fits) return true;
    at += sent.slots;
  }
  return false;
}

// A consumer that comes later finds nothing there; one that is copying finds out afterwards.
void RingProducer::hide(uint64_t position) {
  layout_.header(position).word.store(no_message(position), std::memory_order_relaxed);
  // SYNC(ring-hidden): this release fence, before the program uses its memory again, pairs with the
  // acquire fence in RingConsumer::lent.
  std::atomic_thread_fence(std::memory_order_release);
}

// A consumer that has changed the word misleads only itself.
void RingProducer::mark_taken_back(uint64_t position) {
  layout_.header(position).word.fetch_or(uint64_t{kTakenBack} << 40, std::memory_order_relaxed);
  // SYNC(ring-hidden): as in hide().
  std::atomic_thread_fence(std::memory_order_release);
}

bool RingProducer::lent(uint64_t position, uint32_t* cookie) const {
  uint64_t at = reaped_;
  while (at < position && at < head_) at += sent_[at & (layout_.slots() - 1)].slots;
  const Sent& sent = sent_[position & (layout_.slots() - 1)];
  if (at != position || at == head_ || !sent.by_reference) return false;
  *cookie = sent.cookie;
  return true;
}

uint32_t RingProducer::closed() const {
  // SYNC(ring-closed): acquire pairs with the release in RingConsumer::close.
  return layout_.answers().closed.load(std::memory_order_acquire);
}

RingConsumer::RingConsumer(Fd fd, uint32_t bytes)
    : memory_(SharedMemory::adopt(std::move(fd), RingLayout::total_bytes(bytes), PeerMay::kMap)),
      layout_(memory_->data(), bytes) {
  memory_->close_fd();
}

RingConsumer::RingConsumer(const RingProducer& producer)
    : layout_(producer.memory().data(), producer.bytes()) {}

void RingConsumer::copy(const Message& message, uint32_t offset, void* to, uint32_t bytes) const {
  if (bytes == 0 || bytes > message.payload || offset > message.payload - bytes) return;
  layout_.copy_out(position_, offset, to, bytes);
}

RingConsumer::Lent RingConsumer::lent() const {
  // SYNC(ring-hidden): this acquire fence, after the copy, pairs with the release fences in
  // RingProducer::hide and RingProducer::mark_taken_back.
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint64_t word = layout_.header(position_).word.load(std::memory_order_relaxed);
  if (static_cast<uint32_t>(word) != static_cast<uint32_t>(position_ + 1)) return Lent::kGone;
  return (word >> 40 & kTakenBack) != 0 ? Lent::kTakenBack : Lent::kStands;
}

void RingConsumer::note_error(uint8_t status) {
  layout_.answer(position_).store(status, std::memory_order_relaxed);
  ++told_.errors;
}

void RingConsumer::close(uint8_t status) {
  publish_position();
  ++told_.errors;
  // SYNC(ring-closed): release pairs with the acquire in RingProducer::closed.
  layout_.answers().closed.store(status, std::memory_order_release);
}

}  // namespace urma::shm
