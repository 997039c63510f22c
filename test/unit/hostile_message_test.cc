// SPDX-License-Identifier: MIT
//
// Peers that invalidate segments of others, and that ask for atomics that do not exist.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "test/process/kernel.h"
#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

using HostileMessageTest = urma_test::ProcessTest;

// A peer with a ring to the receive queue of the pair.
struct Liar {
  explicit Liar(Pair* pair) : peer(pair->owner), ring(kMinRingBytes) {
    EXPECT_EQ(peer.greet(), Answer::kAccepted);
    EXPECT_EQ(peer.open_ring(*pair->jfr, 1, ring), Answer::kAccepted);
  }
  void publish(const Invalidation& invalidation, TokenKey key, const std::vector<char>& payload,
               uint32_t length, uint8_t flags = kWantsAnswer) {
    ring.begin(static_cast<uint32_t>(sizeof(invalidation) + payload.size()));
    ring.append(&invalidation, sizeof(invalidation));
    ring.append(payload.data(), static_cast<uint32_t>(payload.size()));
    ring.publish(MessageKind::kSendInvalidate, flags, length, std::bit_cast<uint64_t>(key), 0);
  }
  // The status of the message.
  urma_cr_status_t answer(Pair* pair) {
    uint32_t cookie;
    uint8_t status = 0xFF;
    EXPECT_TRUE(eventually([&] {
      pair->poll();
      return ring.reap(&cookie, &status);
    }));
    return static_cast<urma_cr_status_t>(status);
  }

  RawPeer peer;
  RingProducer ring;
};

Invalidation described(const urma_target_seg_t* segment) {
  return {segment->seg.ubva.eid, segment->seg.ubva.va, segment->seg.len};
}

TEST_F(HostileMessageTest, OnlyAccessibleSegmentsAreInvalidated) {
  Pair pair;
  pair.connect();
  std::vector<char> secret(64);
  urma_target_seg_t* local_only =
      pair.owner.add(secret.data(), secret.size(), URMA_ACCESS_LOCAL_ONLY);
  pair.post_receive(1);
  Liar liar(&pair);
  const Invalidation good = described(pair.registered);
  const TokenKey key = {pair.registered->seg.token_id, 0};
  struct Lie {
    Invalidation invalidation;
    TokenKey key;
  };
  std::vector<Lie> lies(8, Lie{good, key});
  lies[0].key.token_id += 1;
  lies[1].invalidation.eid.raw[3] ^= 1;
  lies[2].invalidation.va -= 1;
  lies[3].invalidation.va += good.len;
  lies[4].invalidation = {good.eid, 0, UINT64_MAX};
  lies[5].invalidation = {good.eid, UINT64_MAX, UINT64_MAX};
  lies[6].invalidation = described(local_only);
  lies[7] = {{}, {}};
  const std::vector<char> small(8, 'x');
  for (const Lie& lie : lies) {
    liar.publish(lie.invalidation, lie.key, small, 8);
    EXPECT_EQ(liar.answer(&pair), URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_TRUE(pair.received.empty());
    EXPECT_EQ(pair.write(2), URMA_SUCCESS);
    EXPECT_EQ(pair.wait_for_sent().status, URMA_CR_SUCCESS);
  }
  ASSERT_EQ(liar.peer.import(*pair.registered), Answer::kAccepted);
  Request request = RawPeer::request(RequestType::kAtomic);
  request.atomic = {good.va,       {}, static_cast<uint32_t>(pair.registered->handle), 1,
                    URMA_OPC_FADD, 8};
  EXPECT_EQ(liar.peer.ask(request), Answer::kAccepted);
  // The receive is still there for a valid message.
  liar.publish(good, key, small, 8);
  EXPECT_EQ(liar.answer(&pair), URMA_CR_SUCCESS);
  ASSERT_TRUE(pair.wait_for(0, 1));
  EXPECT_EQ(pair.received[0].opcode, URMA_CR_OPC_SEND_WITH_INV);
  EXPECT_EQ(pair.received[0].completion_len, 8u);
  pair.sent.clear();
  EXPECT_EQ(pair.write(3), URMA_SUCCESS);
  EXPECT_EQ(pair.wait_for_sent().status, URMA_CR_REM_ACCESS_ABORT_ERR);
  // The owner does not do for a peer what the peer may no longer do.
  EXPECT_EQ(liar.peer.ask(request), Answer::kNoAccess);
}

TEST_F(HostileMessageTest, MessageWithoutItsPrefixClosesOnlyItsRing) {
  const auto kind = MessageKind::kSendInvalidate;
  struct Lie {
    const char* name;
    uint8_t flags;
    uint32_t length;
    uint32_t payload;
  };
  constexpr uint32_t kPrefix = sizeof(Invalidation);
  const Lie lies[] = {{"nothing", 0, 0, 0},
                      {"half of it", 0, 0, kPrefix - 1},
                      {"a length that counts it", 0, kPrefix, kPrefix},
                      {"a length that is missing", 0, 8, kPrefix},
                      {"an invalid piece", kByReference, 8, kPrefix + 8},
                      {"pieces instead", kByReference, 8, sizeof(PayloadPiece)}};
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.name);
    Pair pair;
    pair.connect();
    pair.post_receive(1);
    Liar liar(&pair);
    const std::vector<char> bytes(lie.payload, 0);
    liar.ring.begin(lie.payload);
    liar.ring.append(bytes.data(), lie.payload);
    liar.ring.publish(kind, lie.flags, lie.length, pair.registered->seg.token_id, 0);
    EXPECT_TRUE(eventually([&] {
      pair.poll();
      return liar.ring.closed() == URMA_CR_REM_OPERATION_ERR;
    }));
    EXPECT_TRUE(pair.received.empty());
    EXPECT_EQ(pair.write(2), URMA_SUCCESS);
    EXPECT_EQ(pair.wait_for_sent().status, URMA_CR_SUCCESS);
  }
}

// Descriptions that change during the copy do not count.
TEST_F(HostileMessageTest, SegmentIsTheOneThatWasNamedFirst) {
  SKIP_UNLESS_THE_KERNEL_COPIES();
  Pair pair;
  pair.connect();
  constexpr uint32_t kPart = 2 << 20;
  std::vector<char> source(kPart, 'x'), room(2 * kPart);
  urma_target_seg_t* segment = pair.owner.add(room.data(), room.size());
  pair.owner.receive(pair.jfr, {piece(segment, room.data(), 2 * kPart)}, 1);
  Liar liar(&pair);
  const TokenKey key = {pair.registered->seg.token_id, 0};
  Invalidation nothing = described(pair.registered);
  nothing.va = 8;
  const PayloadPiece part = {reinterpret_cast<uint64_t>(source.data()), kPart, 0};
  std::vector<char> pieces(2 * sizeof(part));
  std::memcpy(pieces.data(), &part, sizeof(part));
  std::memcpy(pieces.data() + sizeof(part), &part, sizeof(part));
  liar.publish(nothing, key, pieces, 2 * kPart, kByReference | kWantsAnswer);
  pair.owner.poll(pair.receive_jfc, &pair.received);
  ASSERT_EQ(room[0], 'x');
  const Invalidation truth = described(pair.registered);
  const RingLayout layout(liar.ring.memory().data(), liar.ring.bytes());
  layout.copy_in(0, 0, &truth, sizeof(truth));
  EXPECT_EQ(liar.answer(&pair), URMA_CR_REM_ACCESS_ABORT_ERR);
  EXPECT_EQ(pair.write(2), URMA_SUCCESS);
  EXPECT_EQ(pair.wait_for_sent().status, URMA_CR_SUCCESS);
}

// A message is read from its address, whatever segment it names.
TEST_F(HostileMessageTest, AnyTokenIdInAMessageIsHarmless) {
  SKIP_UNLESS_THE_KERNEL_COPIES();
  Pair pair;
  pair.connect();
  constexpr uint32_t kBytes = 64 << 10;
  std::vector<char> source(kBytes), room(kBytes);
  urma_target_seg_t* segment = pair.owner.add(room.data(), room.size());
  Liar liar(&pair);
  const uint32_t theirs = pair.registered->seg.token_id;
  for (const uint32_t token_id : {1u, theirs, theirs ^ 1, theirs ^ (1u << 16), ~0u}) {
    for (char byte = 'a'; byte < 'h'; ++byte) {
      std::fill(source.begin(), source.end(), byte);
      pair.owner.receive(pair.jfr, {piece(segment, room.data(), kBytes)}, 1);
      const PayloadPiece part = {reinterpret_cast<uint64_t>(source.data()), kBytes, token_id};
      liar.ring.begin(sizeof(part));
      liar.ring.append(&part, sizeof(part));
      liar.ring.publish(MessageKind::kSend, kByReference | kWantsAnswer, kBytes, 0, 0);
      EXPECT_EQ(liar.answer(&pair), URMA_CR_SUCCESS);
      EXPECT_EQ(room, source);
    }
  }
}

// The owner checks every field of a request that it executes for a peer.
TEST_F(HostileMessageTest, AtomicsThatDoNotExistAreRefused) {
  Pair pair;
  pair.connect();
  alignas(16) char memory[64] = {};
  urma_target_seg_t* writable = pair.owner.add(memory, 32, URMA_ACCESS_READ | URMA_ACCESS_WRITE);
  urma_target_seg_t* all = pair.owner.add(memory + 32, 32);
  RawPeer peer(pair.owner);
  ASSERT_EQ(peer.greet(), Answer::kAccepted);
  const auto ask = [&](uint32_t opcode, uint32_t bytes, uint64_t offset, uint64_t index_shift = 0) {
    Request request = RawPeer::request(RequestType::kAtomic);
    const auto va = reinterpret_cast<uint64_t>(memory) + offset;
    // The words of places count from 1, and places are taken in order.
    request.atomic = {va,
                      {0, 0, ~0ULL, ~0ULL},
                      static_cast<uint32_t>(writable->handle + index_shift),
                      1,
                      opcode,
                      bytes};
    return peer.ask(request);
  };
  for (const uint32_t opcode :
       {0u, uint32_t{URMA_OPC_READ}, uint32_t{URMA_OPC_SEND}, 0x27u, 0x1000u}) {
    EXPECT_EQ(ask(opcode, 8, 32, 1), Answer::kMalformed);
  }
  for (const uint32_t bytes : {0u, 1u, 2u, 3u, 16u, 32u, 0x80000008u}) {
    EXPECT_EQ(ask(URMA_OPC_FADD, bytes, 32, 1), Answer::kMalformed);
  }
  for (const uint32_t bytes : {0u, 3u, 32u}) {
    EXPECT_EQ(ask(URMA_OPC_WRITE_ATOMIC, bytes, 32, 1), Answer::kMalformed);
  }
  EXPECT_EQ(ask(URMA_OPC_WRITE_ATOMIC, 8, 8), Answer::kNoAccess) << "it was not granted";
  ASSERT_EQ(peer.import(*writable), Answer::kAccepted);
  ASSERT_EQ(peer.import(*all), Answer::kAccepted);
  // Each with its own rights: the first segment grants writes, no atomics.
  EXPECT_EQ(ask(URMA_OPC_SWAP, 8, 0), Answer::kNoAccess);
  EXPECT_EQ(ask(URMA_OPC_WRITE_ATOMIC, 8, 8), Answer::kAccepted);
  EXPECT_EQ(ask(URMA_OPC_SWAP, 8, 32, 1), Answer::kAccepted);
  if (kHasWideAtomics) {
    EXPECT_EQ(ask(URMA_OPC_CAS, 16, 24), Answer::kMisaligned);
    EXPECT_EQ(ask(URMA_OPC_CAS, 16, 64, 1), Answer::kNoAccess);
    EXPECT_EQ(ask(URMA_OPC_CAS, 16, 48, 1), Answer::kAccepted);
  }
  EXPECT_EQ(std::memcmp(memory, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16), 0);
  EXPECT_EQ(memory[32], '\xff');
}

}  // namespace
}  // namespace urma::shm
