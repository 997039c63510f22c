// SPDX-License-Identifier: MIT
//
// A message ring whose other end writes anything, anywhere, at any time.
#include <fcntl.h>

#include <deque>
#include <memory>
#include <vector>

#include "test/fuzz/bytes.h"
#include "urma/providers/shm/ring.h"

namespace urma::shm {
namespace {

using urma_fuzz::Bytes;
using urma_fuzz::require;

// Anywhere in the ring, and across its end, which the peer has mapped too.
void scribble(Bytes* in, const RingProducer& producer) {
  const uint32_t total = RingLayout::total_bytes(producer.bytes());
  const uint32_t at = in->below(total);
  const auto bytes = in->some(total - at);
  if (!bytes.empty()) {
    std::memcpy(static_cast<char*>(producer.memory().data()) + at, bytes.data(), bytes.size());
  }
}

// A header that is examined: with the tag of the next position.
void forge(Bytes* in, const RingProducer& producer, const RingConsumer& consumer) {
  const RingLayout layout(producer.memory().data(), producer.bytes());
  MessageHeader& header = layout.header(consumer.position());
  header.length = in->take<uint32_t>();
  const auto payload = in->take<uint16_t>();
  header.payload = payload;
  header.immediate = in->take<uint64_t>();
  const bool honest = in->chance(192);
  const uint32_t slots = honest ? slots_for(payload) : in->take<uint16_t>();
  const auto kind = static_cast<MessageKind>(in->take<uint8_t>());
  header.word.store(first_word(consumer.position(), kind, in->take<uint8_t>(), slots));
}

void look(Bytes* in, const RingProducer& producer, RingConsumer* consumer) {
  Message message = {};
  if (consumer->peek(&message) != Peek::kMessage) return;
  require(message.payload <= producer.max_payload(), "a payload fits into the ring");
  require(message.slots == slots_for(message.payload), "a message has the slots of its payload");
  require(message.kind >= MessageKind::kSend && message.kind <= MessageKind::kSendInvalidate,
          "a message is of a kind that there is");
  require(message.payload >= prefix_of(message.kind), "a prefix lies in the payload");
  std::vector<char> all(message.payload);
  consumer->copy(message, 0, all.data(), message.payload);
  const auto offset = in->take<uint16_t>();
  const auto bytes = in->take<uint16_t>();
  std::vector<char> part(bytes);
  consumer->copy(message, offset, part.data(), bytes);
  if (message.slots == 1) {
    std::vector<char> slot(message.payload);
    consumer->copy_plain(message, slot.data());
  }
  const uint64_t before = consumer->position();
  consumer->consume(message, in->take<uint8_t>());
  require(consumer->position() == before + message.slots, "the slots of a message are skipped");
}

void consume(Bytes* in) {
  const RingProducer producer(kMinRingBytes);
  RingConsumer consumer(Fd(::fcntl(producer.memory().fd(), F_DUPFD_CLOEXEC, 0)), kMinRingBytes);
  while (!in->empty()) {
    switch (in->below(5)) {
      case 0:
        scribble(in, producer);
        break;
      case 1:
        forge(in, producer, consumer);
        break;
      case 2:
        look(in, producer, &consumer);
        break;
      case 3:
        consumer.answer_wanted();
        break;
      default:
        consumer.close(in->take<uint8_t>());
    }
  }
}

struct Sent {
  uint32_t cookie;
  uint64_t position;
  bool by_reference;
};

// What the producer returns is what it was given, in that order, whatever the consumer says.
class Producing {
 public:
  void step(Bytes* in) {
    uint32_t cookie = 0;
    uint8_t status = 0;
    switch (in->below(6)) {
      case 0:
        return scribble(in, producer_);
      case 1:
        return send(in);
      case 2:
        while (producer_.reap(&cookie, &status)) expect_next(cookie);
        return require(producer_.idle() == sent_.empty(),
                       "a ring is idle exactly if nothing is in flight");
      case 3:
        return ask(in);
      case 4:
        producer_.want_answers();
        static_cast<void>(producer_.closed());
        return;
      default:
        if (producer_.abandon(&cookie)) expect_next(cookie);
    }
  }

 private:
  void expect_next(uint32_t cookie) {
    require(!sent_.empty() && sent_.front().cookie == cookie, "messages come back in order");
    sent_.pop_front();
  }
  void send(Bytes* in) {
    const uint32_t payload = in->below(producer_.max_payload() + 1);
    const uint8_t flags = in->take<uint8_t>();
    const std::vector<char> data(payload, 'x');
    if (in->chance(128) && producer_.publish_slot(MessageKind::kSend, flags & kSolicited,
                                                  data.data(), payload, 0, cookie_)) {
      return remember(payload, false);
    }
    if (!producer_.room_for(payload)) return;
    producer_.begin(payload);
    producer_.append(data.data(), payload);
    producer_.publish(MessageKind::kSend, flags, payload, 0, cookie_);
    remember(payload, (flags & kByReference) != 0);
  }
  void remember(uint32_t payload, bool by_reference) {
    sent_.push_back({cookie_++, head_, by_reference});
    // The last message of a lap takes the rest of it if another one would not fit after it.
    constexpr uint64_t kSlots = kMinRingBytes / kSlotBytes;
    const uint64_t slots = slots_for(payload), rest = kSlots - head_ % kSlots;
    head_ += rest >= slots && rest < 2 * slots ? rest : slots;
  }
  void ask(Bytes* in) {
    const uint64_t position = in->chance(192) ? in->below(512) : in->take<uint64_t>();
    uint32_t cookie = 0;
    if (!producer_.lent(position, &cookie)) return;
    for (const Sent& sent : sent_) {
      if (sent.position != position) continue;
      return require(sent.by_reference && sent.cookie == cookie,
                     "memory is lent only for a message by reference");
    }
    require(false, "memory is lent only for a message in flight");
  }

  RingProducer producer_{kMinRingBytes};
  std::deque<Sent> sent_;
  uint32_t cookie_ = 1;
  uint64_t head_ = 0;
};

}  // namespace
}  // namespace urma::shm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  urma_fuzz::Bytes in(data, size);
  if (in.chance(128)) {
    urma::shm::consume(&in);
  } else {
    urma::shm::Producing producing;
    while (!in.empty()) producing.step(&in);
  }
  return 0;
}
