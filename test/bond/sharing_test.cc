// SPDX-License-Identifier: MIT
//
// Memory that a near peer has mapped, and so moved into shared memory, while a far peer writes to
// it and reads it.
#include <cstdint>
#include <cstring>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr size_t kBytes = 8 << 20;
constexpr size_t kBlock = 64 << 10;
constexpr uint32_t kRounds = 40;

struct SharingTest : ProcessTest {};

TEST_F(SharingTest, AFarPeerWritesWhatANearOneMaps) {
  // Each round has fresh private memory, which the near peer lets the owner move.
  Child owner("owner", [](Channel& channel) {
    live_in("one");
    OwnedEndpoint endpoint;
    for (uint32_t round = 0; round < kRounds; ++round) {
      std::vector<char> memory(kBytes + 4096);
      urma_target_seg_t* segment = endpoint.add(memory.data(), kBytes);
      channel.send(offer_of(endpoint, segment));
      channel.sync();
      for (size_t at = 0; at < kBytes; at += kBlock) {
        ASSERT_EQ(memory[at], static_cast<char>(at / kBlock + round)) << "round " << round;
        ASSERT_EQ(memory[at + kBlock - 1], static_cast<char>(at / kBlock + round));
      }
      endpoint.remove(segment);
    }
  });
  Child near("near", [](Channel& channel) {
    live_in("one");
    OwnedEndpoint endpoint;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const auto offer = channel.receive<Offer>();
      urma_target_seg_t* mapped = endpoint.import(offer.segment, /*mapped=*/true);
      channel.sync();
      endpoint.unimport(mapped);
    }
  });
  Child far("far", [](Channel& channel) {
    live_in("other");
    std::vector<char> memory(kBlock);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    for (uint32_t round = 0; round < kRounds; ++round) {
      const auto offer = channel.receive<Offer>();
      urma_target_jetty_t* queue = endpoint.import(offer.queue);
      urma_target_seg_t* remote = endpoint.import(offer.segment);
      for (size_t at = 0; at < kBytes; at += kBlock) {
        std::memset(memory.data(), static_cast<int>(at / kBlock + round), kBlock);
        urma_sge_t local = piece(segment, memory.data(), kBlock);
        urma_sge_t there = piece(remote, offer.segment.va + at, kBlock);
        endpoint.post(write_request(queue, &local, &there, at));
        wait_for_success(endpoint.send_jfc, at);
        std::memset(memory.data(), 0, kBlock);
        endpoint.post(read_request(queue, &local, &there, at));
        wait_for_success(endpoint.send_jfc, at);
        ASSERT_EQ(memory[kBlock - 1], static_cast<char>(at / kBlock + round));
      }
      channel.sync();
      endpoint.unimport(remote);
      endpoint.unimport(queue);
    }
  });
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto offer = owner.channel().receive<Offer>();
    far.channel().send(offer);
    near.channel().send(offer);
    near.channel().sync();
    far.channel().sync();
    owner.channel().sync();
  }
  for (Child* child : {&near, &far, &owner}) child->expect_success();
}

}  // namespace
}  // namespace urma_test
