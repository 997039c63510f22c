// SPDX-License-Identifier: MIT
//
// The ring with both ends in one process, where the sanitizers can see both.
#include "urma/providers/shm/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "segment/bells.h"
#include "urma/base/error.h"
#include "urma_opcode.h"

namespace urma::shm {
namespace {

constexpr uint32_t kRingBytes = kMinRingBytes;

struct Ends {
  RingProducer producer{kRingBytes};
  RingConsumer consumer{Fd(::fcntl(producer.memory().fd(), F_DUPFD_CLOEXEC, 0)), kRingBytes};
};

std::vector<char> pattern(uint32_t bytes, uint32_t seed) {
  std::vector<char> data(bytes);
  std::iota(data.begin(), data.end(), static_cast<char>(seed * 7));
  return data;
}

bool send(RingProducer* producer, const std::vector<char>& data, uint32_t cookie,
          uint8_t flags = kWantsAnswer) {
  const auto bytes = static_cast<uint32_t>(data.size());
  if (!producer->room_for(bytes)) return false;
  producer->begin(bytes);
  producer->append(data.data(), bytes);
  producer->publish(MessageKind::kSend, flags, bytes, cookie * 3, cookie);
  return true;
}

std::vector<char> receive(RingConsumer* consumer, const Message& message, uint8_t status) {
  std::vector<char> data(message.payload);
  consumer->copy(message, 0, data.data(), message.payload);
  consumer->consume(message, status);
  return data;
}

// What the consumer writes, and what the producer writes: each in lines of its own, which are
// longer on some architectures.
TEST(Ring, SidesShareNoCacheLine) {
#ifdef __aarch64__
  constexpr ptrdiff_t kLongestLine = 128;
#else
  constexpr ptrdiff_t kLongestLine = 64;
#endif
  alignas(4096) static char memory[2 * 4096];
  ASSERT_EQ(RingLayout::total_bytes(kRingBytes), sizeof memory);
  const RingLayout layout(memory, kRingBytes);
  EXPECT_EQ(reinterpret_cast<char*>(&layout.answers()) - memory, 0);
  EXPECT_EQ(reinterpret_cast<char*>(&layout.requests()) - memory, kLongestLine);
  EXPECT_EQ(reinterpret_cast<char*>(&layout.joint().claims) - memory, 2 * kLongestLine);
  EXPECT_EQ(reinterpret_cast<char*>(&layout.joint().written) - memory, 3 * kLongestLine);
  EXPECT_EQ(reinterpret_cast<char*>(&layout.joint().parts) - memory, 4 * kLongestLine);
  EXPECT_EQ(reinterpret_cast<char*>(&layout.answer(0)) - memory,
            4 * kLongestLine + ptrdiff_t{sizeof(iovec) * kJointParts});
  EXPECT_EQ(reinterpret_cast<char*>(&layout.header(0)) - memory, 4096);
  EXPECT_EQ(reinterpret_cast<char*>(&layout.header(1)) - memory, 4096 + 64);
  EXPECT_EQ(ptrdiff_t{sizeof(Bell)}, kLongestLine);
}

TEST(Ring, CarriesEverySizeAroundItsEnd) {
  Ends ends;
  uint32_t cookie = 0;
  for (int lap = 0; lap < 8; ++lap) {
    for (uint32_t bytes = 0; bytes <= ends.producer.max_payload(); bytes += 1 + lap) {
      const auto data = pattern(bytes, cookie);
      ASSERT_TRUE(send(&ends.producer, data, cookie)) << bytes;
      Message message = {};
      ASSERT_EQ(ends.consumer.peek(&message), Peek::kMessage) << bytes;
      EXPECT_EQ(message.length, bytes);
      EXPECT_EQ(message.immediate, cookie * 3);
      ASSERT_EQ(receive(&ends.consumer, message, URMA_CR_SUCCESS), data) << bytes;
      ASSERT_EQ(ends.consumer.peek(&message), Peek::kEmpty) << bytes;
      uint32_t back;
      uint8_t status;
      ASSERT_TRUE(ends.producer.reap(&back, &status));
      ASSERT_EQ(back, cookie);
      ++cookie;
    }
  }
}

// Where the low half of the position behind a message is all ones.
TEST(Ring, CarriesMessagesPastTheEndOf32Bits) {
  constexpr uint64_t kLast = UINT32_MAX;
  RingProducer producer(kMaxRingBytes);
  RingConsumer consumer(producer);
  uint32_t cookie = 0;
  uint8_t status;
  const uint32_t most = producer.max_payload();
  const uint32_t slots = slots_for(most);
  // Not looked at and not copied: that would take long.
  const Message skipped = {MessageKind::kSend, kWantsAnswer, slots, most, most, 0};
  while (consumer.position() + slots <= kLast) {
    producer.begin(most);
    producer.publish(MessageKind::kSend, kWantsAnswer, most, 0, 0);
    consumer.consume(skipped, URMA_CR_SUCCESS);
    ASSERT_TRUE(producer.reap(&cookie, &status));
  }
  Message message = {};
  while (consumer.position() < kLast + 2 * kMaxRingBytes / kSlotBytes) {
    const std::vector<char> data = pattern(8, static_cast<uint32_t>(consumer.position()));
    ASSERT_TRUE(consumer.silent()) << consumer.position();
    ASSERT_EQ(consumer.peek(&message), Peek::kEmpty) << consumer.position();
    ASSERT_TRUE(send(&producer, data, 5));
    ASSERT_EQ(consumer.peek(&message), Peek::kMessage);
    ASSERT_EQ(receive(&consumer, message, URMA_CR_SUCCESS), data);
    ASSERT_TRUE(producer.reap(&cookie, &status));
    ASSERT_EQ(cookie, 5U);
  }
}

TEST(Ring, CopiesExactlyThePayloadOfASlot) {
  Ends ends;
  for (uint32_t size = 0; size <= kSlotPayload; ++size) {
    SCOPED_TRACE(size);
    const std::vector<char> data = pattern(size, size + 1);
    ASSERT_TRUE(ends.producer.publish_slot(MessageKind::kSend, kWantsAnswer, data.data(), size,
                                           /*immediate=*/0, /*cookie=*/size));
    Message message;
    ASSERT_TRUE(ends.consumer.peek_plain(&message));
    // Its neighbours stay as they are, and the sanitizers see a byte too many that is read.
    std::vector<char> taken(size + 2, '#');
    ends.consumer.copy_plain(message, taken.data() + 1);
    EXPECT_TRUE(taken.front() == '#' && taken.back() == '#');
    EXPECT_EQ(std::vector<char>(taken.begin() + 1, taken.end() - 1), data);
    ends.consumer.consume(message, URMA_CR_SUCCESS);
    ASSERT_TRUE(ends.producer.reap_success(size));
  }
}

// So that the producer never clears a word for them that the consumer already looks at.
TEST(Ring, MessagesOfOneSizeBeginAtTheSameSlotsInEveryLap) {
  constexpr uint64_t kSlots = kRingBytes / kSlotBytes;
  for (uint32_t bytes = 0; bytes <= RingLayout::max_payload_of(kRingBytes); bytes += 40) {
    Ends ends;
    std::map<uint64_t, std::set<uint64_t>> begun;
    for (uint32_t i = 0; i < 4 * kSlots; ++i) {
      begun[ends.consumer.position() / kSlots].insert(ends.consumer.position() % kSlots);
      ASSERT_TRUE(send(&ends.producer, pattern(bytes, i), i));
      Message message = {};
      ASSERT_EQ(ends.consumer.peek(&message), Peek::kMessage);
      ASSERT_EQ(receive(&ends.consumer, message, URMA_CR_SUCCESS), pattern(bytes, i));
      uint32_t cookie;
      uint8_t status;
      ASSERT_TRUE(ends.producer.reap(&cookie, &status));
    }
    begun.erase(std::prev(begun.end()));
    for (const auto& [lap, slots] : begun) EXPECT_EQ(slots, begun[0]) << bytes << " " << lap;
    EXPECT_EQ(begun[0].size(), kSlots / slots_for(bytes)) << bytes;
  }
}

TEST(Ring, OnlyTheLastMessageOfALapTakesMoreSlotsThanItNeeds) {
  constexpr uint64_t kSlots = kRingBytes / kSlotBytes;
  constexpr uint32_t kBytes = 100;
  const auto peek = [](uint64_t position, uint32_t slots) {
    Ends ends;
    Message message = {};
    for (uint64_t i = 0; i < position; ++i) {
      EXPECT_TRUE(send(&ends.producer, pattern(8, 1), 1));
      EXPECT_EQ(ends.consumer.peek(&message), Peek::kMessage);
      ends.consumer.consume(message, URMA_CR_SUCCESS);
    }
    MessageHeader& header = RingLayout(ends.producer.memory().data(), kRingBytes).header(position);
    header.length = header.payload = kBytes;
    header.word.store(first_word(position, MessageKind::kSend, 0, slots));
    return ends.consumer.peek(&message);
  };
  ASSERT_EQ(slots_for(kBytes), 2u);
  EXPECT_EQ(peek(kSlots - 2, 2), Peek::kMessage);
  EXPECT_EQ(peek(kSlots - 3, 2), Peek::kMessage);
  EXPECT_EQ(peek(kSlots - 3, 3), Peek::kMessage);
  EXPECT_EQ(peek(kSlots - 4, 3), Peek::kBroken);
  EXPECT_EQ(peek(kSlots - 4, 4), Peek::kBroken);
  EXPECT_EQ(peek(kSlots - 1, 1), Peek::kBroken);
}

TEST(Ring, PayloadThatLooksLikeAMessageIsNotTakenForOne) {
  Ends ends;
  // Fill interior slots with words that carry every position tag of the next laps.
  std::vector<uint64_t> words(ends.producer.max_payload() / 8);
  for (uint32_t round = 0; round < 200; ++round) {
    for (size_t i = 0; i < words.size(); ++i) {
      words[i] = (round * 16 + i / 8 + 40) | uint64_t{1} << 32 | uint64_t{1} << 48;
    }
    std::vector<char> data(words.size() * 8);
    std::memcpy(data.data(), words.data(), data.size());
    data.erase(data.end() - 64 * (round % 5), data.end());
    ASSERT_TRUE(send(&ends.producer, data, round));
    Message message = {};
    ASSERT_EQ(ends.consumer.peek(&message), Peek::kMessage);
    receive(&ends.consumer, message, URMA_CR_SUCCESS);
    ASSERT_EQ(ends.consumer.peek(&message), Peek::kEmpty) << round;
    uint32_t cookie;
    uint8_t status;
    ASSERT_TRUE(ends.producer.reap(&cookie, &status));
  }
}

TEST(Ring, FailedMessagesAnswerWithTheirStatus) {
  Ends ends;
  const auto expected = [](uint32_t i) {
    return i % 3 == 0 ? URMA_CR_REM_RESP_LEN_ERR : URMA_CR_SUCCESS;
  };
  uint32_t reaped = 0;
  for (uint32_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(send(&ends.producer, pattern(i % 100, i), i, 0)) << i;
    Message message = {};
    ASSERT_EQ(ends.consumer.peek(&message), Peek::kMessage);
    ends.consumer.consume(message, expected(i));
    uint32_t cookie;
    uint8_t status;
    // A failure publishes the position of all before it too.
    while (i % 3 == 0 && ends.producer.reap(&cookie, &status)) {
      EXPECT_EQ(cookie, reaped);
      EXPECT_EQ(status, expected(reaped));
      ++reaped;
    }
  }
  EXPECT_EQ(reaped, 1000u);
}

// Small messages stay, up to the first one by reference that the consumer has not consumed; also if
// the producer does not know the consumer's position.
TEST(Ring, MessagesByReferenceAreWithdrawn) {
  for (const uint32_t consumed : {0, 1, 2, 3}) {
    Ends ends;
    const auto referred = pattern(sizeof(PayloadPiece), 0);
    for (const int flags : {0, +kByReference, 0, +kByReference, 0}) {
      ASSERT_TRUE(send(&ends.producer, flags == 0 ? pattern(8, 0) : referred, 0,
                       static_cast<uint8_t>(flags)));
    }
    Message message = {};
    for (uint32_t i = 0; i < consumed; ++i) {
      ASSERT_EQ(ends.consumer.peek(&message), Peek::kMessage);
      ends.consumer.consume(message, URMA_CR_SUCCESS);
    }
    ASSERT_EQ(ends.consumer.peek(&message), Peek::kMessage);
    const bool by_reference = (message.flags & kByReference) != 0;
    EXPECT_EQ(ends.consumer.lent(), RingConsumer::Lent::kStands);
    ends.producer.take_back_lent();
    EXPECT_EQ(ends.consumer.lent() == RingConsumer::Lent::kGone, by_reference);
    if (!by_reference) ends.consumer.consume(message, URMA_CR_SUCCESS);
    EXPECT_EQ(ends.consumer.peek(&message), Peek::kEmpty);
  }
}

// The consumer goes on behind them.
TEST(Ring, OneMessageByReferenceIsTakenBack) {
  Ends ends;
  const auto referred = pattern(sizeof(PayloadPiece), 0);
  for (uint32_t cookie = 0; cookie < 3; ++cookie) {
    ASSERT_TRUE(send(&ends.producer, referred, cookie, +kByReference));
  }
  ends.producer.take_back_if([](uint32_t cookie) { return cookie == 1; });
  for (uint32_t cookie = 0; cookie < 3; ++cookie) {
    Message message = {};
    ASSERT_EQ(ends.consumer.peek(&message), Peek::kMessage);
    EXPECT_EQ((message.flags & kTakenBack) != 0, cookie == 1);
    EXPECT_EQ(ends.consumer.lent(),
              cookie == 1 ? RingConsumer::Lent::kTakenBack : RingConsumer::Lent::kStands);
    ends.consumer.consume(message, URMA_CR_SUCCESS);
  }
}

TEST(Ring, FreesNoSlotsBeforeAnswersAreReaped) {
  Ends ends;
  Message message = {};
  uint32_t sent = 0;
  while (send(&ends.producer, pattern(8, sent), sent)) {
    ASSERT_EQ(ends.consumer.peek(&message), Peek::kMessage);
    ends.consumer.consume(message, URMA_CR_SUCCESS);
    ASSERT_LT(++sent, kRingBytes / kSlotBytes);
  }
  uint32_t cookie;
  uint8_t status;
  ASSERT_TRUE(ends.producer.reap(&cookie, &status));
  EXPECT_TRUE(send(&ends.producer, pattern(8, sent), sent));
}

TEST(Ring, IsFullBeforeItOverwrites) {
  Ends ends;
  uint32_t sent = 0;
  while (send(&ends.producer, pattern(8, sent), sent, 0)) ++sent;
  EXPECT_GE(sent, kRingBytes / kSlotBytes - 1);
  Message message = {};
  for (uint32_t i = 0; i < sent; ++i) {
    ASSERT_EQ(ends.consumer.peek(&message), Peek::kMessage);
    ASSERT_EQ(receive(&ends.consumer, message, URMA_CR_SUCCESS), pattern(8, i));
  }
  uint32_t cookie;
  uint8_t status;
  while (ends.producer.reap(&cookie, &status)) {
  }
  EXPECT_TRUE(send(&ends.producer, pattern(8, 0), 0));
}

TEST(Ring, InvalidPositionsOfTheConsumerAreRefused) {
  Ends ends;
  ASSERT_TRUE(send(&ends.producer, pattern(8, 1), 1));
  auto* answers = static_cast<RingAnswers*>(ends.producer.memory().data());
  uint32_t cookie;
  uint8_t status;
  for (const uint64_t lie : {uint64_t{2}, uint64_t{1} << 40, UINT64_MAX}) {
    answers->consumed.store(lie);
    EXPECT_FALSE(ends.producer.reap(&cookie, &status)) << lie;
  }
  answers->consumed.store(1);
  EXPECT_TRUE(ends.producer.reap(&cookie, &status));
}

TEST(Ring, BrokenHeadersAreRefused) {
  std::mt19937_64 random(7);
  Ends ends;
  RingLayout layout(ends.producer.memory().data(), kRingBytes);
  MessageHeader& header = layout.header(0);
  int broken = 0;
  for (int i = 0; i < 20000; ++i) {
    header.length = static_cast<uint32_t>(random());
    header.payload = static_cast<uint32_t>(random() % 4 == 0 ? random() : random() % 2000);
    header.word.store(1 | random() << 32);
    Message message = {};
    const auto peeked = ends.consumer.peek(&message);
    ASSERT_NE(peeked, Peek::kEmpty);
    if (peeked == Peek::kBroken) {
      ++broken;
      continue;
    }
    ASSERT_LE(message.payload, ends.producer.max_payload());
    ASSERT_LE(message.slots * kSlotBytes, kRingBytes / 4 + kSlotBytes);
  }
  EXPECT_GT(broken, 19000);
}

// Whether a message with this header and payload is accepted.
Peek peek_at(uint8_t kind, uint8_t flags, uint32_t length, uint32_t payload, Message* message) {
  Ends ends;
  const auto data = pattern(payload, 1);
  ends.producer.begin(payload);
  ends.producer.append(data.data(), payload);
  ends.producer.publish(static_cast<MessageKind>(kind), flags, length, ~uint64_t{5}, 0);
  return ends.consumer.peek(message);
}

TEST(Ring, UnknownKindsAreRefused) {
  Message message = {};
  for (uint32_t kind = 0; kind <= UINT8_MAX; ++kind) {
    SCOPED_TRACE(kind);
    const bool exists = kind >= 1 && kind <= 3;
    EXPECT_EQ(peek_at(static_cast<uint8_t>(kind), 0, 0, 0, &message),
              exists ? Peek::kMessage : Peek::kBroken);
  }
}

TEST(Ring, EveryKindCarriesAnImmediate) {
  Message message = {};
  EXPECT_EQ(peek_at(2, kSolicited, 100, 100, &message), Peek::kMessage);
  EXPECT_EQ(message.kind, MessageKind::kSendImm);
  EXPECT_EQ(message.immediate, ~uint64_t{5});
  EXPECT_EQ(peek_at(3, kWantsAnswer, kMaxMessageBytes, 0, &message), Peek::kMessage);
  EXPECT_EQ(message.kind, MessageKind::kWriteImm);
  EXPECT_EQ(message.length, kMaxMessageBytes);
  EXPECT_EQ(message.immediate, ~uint64_t{5});
}

TEST(Ring, LengthsThatDoNotFitTheKindAreRefused) {
  Message message = {};
  for (const uint8_t kind : {1, 2}) {
    EXPECT_EQ(peek_at(kind, 0, 101, 100, &message), Peek::kBroken);
    EXPECT_EQ(peek_at(kind, kByReference, 101, 100, &message), Peek::kBroken);
    EXPECT_EQ(peek_at(kind, kByReference, 101, 160, &message), Peek::kMessage);
  }
  EXPECT_EQ(peek_at(3, 0, 100, 100, &message), Peek::kBroken);
  EXPECT_EQ(peek_at(3, 0, kMaxMessageBytes + 1, 0, &message), Peek::kBroken);
  EXPECT_EQ(peek_at(3, kByReference, 100, 0, &message), Peek::kBroken);
  EXPECT_EQ(peek_at(3, kByReference, 100, 160, &message), Peek::kBroken);
}

// The look for a message that lies whole in one slot takes nothing else, whatever a peer writes,
// and agrees with peek().
TEST(Ring, OnlyWholeMessagesOfOneSlotAreTakenAtOnce) {
  Ends ends;
  MessageHeader& header = RingLayout(ends.producer.memory().data(), kRingBytes).header(0);
  uint32_t taken = 0;
  for (uint32_t kind = 0; kind < 256; ++kind) {
    for (uint32_t flags = 0; flags < 256; ++flags) {
      for (const uint32_t slots : {0, 1, 2, 65535}) {
        for (const uint32_t payload : {0U, 40U, 41U, UINT32_MAX}) {
          for (const uint32_t length : {0U, 40U, 41U, UINT32_MAX}) {
            header.length = length;
            header.payload = payload;
            header.word =
                first_word(0, static_cast<MessageKind>(kind), static_cast<uint8_t>(flags), slots);
            Message plain, any;
            if (!ends.consumer.peek_plain(&plain)) continue;
            ++taken;
            ASSERT_EQ(ends.consumer.peek(&any), Peek::kMessage);
            ASSERT_TRUE(is_whole(any) && any.slots == 1 && any.payload <= kSlotPayload);
            ASSERT_TRUE(plain.kind == any.kind && plain.flags == any.flags && plain.slots == 1 &&
                        plain.length == any.length && plain.payload == any.payload);
          }
        }
      }
    }
  }
  // Two kinds, two flags in each combination, two sizes.
  EXPECT_EQ(taken, 2U * 4 * 2);
  header.word = first_word(1, MessageKind::kSend, 0, 1);
  Message plain;
  EXPECT_FALSE(ends.consumer.peek_plain(&plain)) << "the message of another position";
}

TEST(Ring, OnlyTheOldestMessageThatSucceededIsReapedByItsCookie) {
  Ends ends;
  Message message;
  for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(send(&ends.producer, pattern(8, i), i));
  EXPECT_FALSE(ends.producer.reap_success(0)) << "it was not consumed";
  const uint8_t statuses[] = {URMA_CR_SUCCESS, URMA_CR_REM_RESP_LEN_ERR, URMA_CR_SUCCESS};
  for (const uint8_t status : statuses) {
    ASSERT_EQ(ends.consumer.peek(&message), Peek::kMessage);
    receive(&ends.consumer, message, status);
  }
  EXPECT_FALSE(ends.producer.reap_success(1)) << "it is not the oldest";
  EXPECT_TRUE(ends.producer.reap_success(0));
  EXPECT_FALSE(ends.producer.reap_success(0)) << "once only";
  EXPECT_FALSE(ends.producer.reap_success(1)) << "it has failed";
  uint32_t cookie;
  uint8_t status;
  ASSERT_TRUE(ends.producer.reap(&cookie, &status));
  EXPECT_EQ(cookie, 1U);
  EXPECT_EQ(status, URMA_CR_REM_RESP_LEN_ERR);
  EXPECT_TRUE(ends.producer.reap_success(2));
  EXPECT_TRUE(ends.producer.idle());
}

TEST(Ring, RefusesUnsealedOrTooSmallMemory) {
  RingProducer producer(kRingBytes);
  EXPECT_THROW(RingConsumer(Fd(::fcntl(producer.memory().fd(), F_DUPFD_CLOEXEC, 0)), 8192), Error);
  Fd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), RingLayout::total_bytes(kRingBytes)), 0);
  EXPECT_THROW(RingConsumer(std::move(unsealed), kRingBytes), Error);
  EXPECT_THROW(RingConsumer(Fd(::open("/dev/null", O_RDWR | O_CLOEXEC)), kRingBytes), Error);
}

// A peer that does would make each look at the ring fault.
TEST(Ring, NobodyPunchesHolesIntoItOnceBothHaveMappedIt) {
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  RingProducer producer(kRingBytes);
  const Fd kept(::fcntl(producer.memory().fd(), F_DUPFD_CLOEXEC, 0));
  const size_t bytes = producer.memory().bytes();
  ASSERT_EQ(::fallocate(kept.get(), kPunch, 0, bytes), 0);
  RingConsumer consumer(Fd(::fcntl(kept.get(), F_DUPFD_CLOEXEC, 0)), kRingBytes);
  EXPECT_NE(::fallocate(kept.get(), kPunch, 0, bytes), 0);
  EXPECT_EQ(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, kept.get(), 0), MAP_FAILED);
  ASSERT_TRUE(send(&producer, pattern(8, 1), 1));
  // What it returns says nothing: emulators report success and do nothing.
  static_cast<void>(::madvise(producer.memory().data(), bytes, MADV_REMOVE));
  Message message;
  ASSERT_EQ(consumer.peek(&message), Peek::kMessage);
  EXPECT_EQ(receive(&consumer, message, URMA_CR_SUCCESS), pattern(8, 1));
  // A consumer that does not seal it, for the producer; and one that prevents it.
  RingProducer second(kRingBytes), third(kRingBytes);
  EXPECT_TRUE(second.memory().end_mapping());
  EXPECT_NE(::fallocate(second.memory().fd(), kPunch, 0, bytes), 0);
  ASSERT_EQ(::fcntl(third.memory().fd(), F_ADD_SEALS, F_SEAL_SEAL), 0);
  EXPECT_FALSE(third.memory().end_mapping());
}

TEST(Ring, RefusesMemoryThatItsMakerCanPunchHolesInto) {
  const auto bytes = RingLayout::total_bytes(kRingBytes);
  const SharedMemory memory = SharedMemory::create("test", bytes, PeerMay::kWrite);
  EXPECT_THROW(RingConsumer(Fd(::fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0)), kRingBytes), Error);
}

// Both ends as threads on one mapping.
TEST(Ring, TwoThreadsLoseNothing) {
  constexpr uint32_t kMessages = 60000;
  RingProducer producer(kRingBytes);
  // One mapping for both, so that the thread sanitizer sees what they share.
  RingConsumer consumer(producer);
  std::thread receiver([&] {
    for (uint32_t i = 0; i < kMessages;) {
      Message message = {};
      if (consumer.peek(&message) != Peek::kMessage) {
        ::sched_yield();
        continue;
      }
      ASSERT_EQ(receive(&consumer, message, i % 11 == 0 ? URMA_CR_LOC_LEN_ERR : 0),
                pattern(i % 500, i));
      ++i;
    }
  });
  uint32_t sent = 0;
  uint32_t reaped = 0;
  while (reaped < kMessages) {
    if (sent < kMessages && send(&producer, pattern(sent % 500, sent), sent,
                                 sent % 3 == 0 || sent + 1 == kMessages ? kWantsAnswer : 0)) {
      ++sent;
    }
    uint32_t cookie;
    uint8_t status;
    bool moved = false;
    while (producer.reap(&cookie, &status)) {
      ASSERT_EQ(cookie, reaped);
      ASSERT_EQ(status, reaped % 11 == 0 ? URMA_CR_LOC_LEN_ERR : URMA_CR_SUCCESS);
      ++reaped;
      moved = true;
    }
    if (!moved) ::sched_yield();
  }
  receiver.join();
  EXPECT_TRUE(producer.idle());
}

}  // namespace
}  // namespace urma::shm
