// SPDX-License-Identifier: MIT
//
// Memory that a near peer maps, and so moves into shared memory, while a far peer writes to it and
// reads it.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"

namespace urma_test {
namespace {

constexpr size_t kBytes = 8 << 20;
constexpr size_t kBlock = 64 << 10;
constexpr uint32_t kRounds = 40;

// The pages of the owner, in fresh private memory for each round.
void own(Channel& channel) {
  live_in("one");
  uint64_t word = 0;
  OwnedEndpoint endpoint;
  urma_target_seg_t* message = endpoint.add(&word, sizeof(word));
  for (uint32_t round = 0; round < kRounds; ++round) {
    const Pages memory(kBytes);
    std::memset(memory.get(), 1, kBytes);  // pages without contents need not be moved
    urma_target_seg_t* segment = endpoint.add(memory.get(), kBytes);
    // One before the far peer writes, so that its writes are for this thread, which polls, and one
    // after it.
    for (int i = 0; i < 2; ++i) endpoint.post_receive(message, &word, sizeof(word));
    channel.send(offer_of(endpoint, segment));
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(wait_for(endpoint.receive_jfc).status, URMA_CR_SUCCESS);
    }
    channel.sync();
    for (size_t at = 0; at < kBytes; at += kBlock) {
      ASSERT_EQ(memory.get()[at], static_cast<char>(at / kBlock + round)) << "round " << round;
      ASSERT_EQ(memory.get()[at + kBlock - 1], static_cast<char>(at / kBlock + round));
    }
    endpoint.remove(segment);
  }
}

// Lets the owner move them.
void map(Channel& channel) {
  live_in("one");
  const bool moves = why_not_in_place().empty();
  OwnedEndpoint endpoint;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto offer = channel.receive<Offer>();
    urma_target_seg_t* mapped = endpoint.import(offer.segment, /*mapped=*/true);
    if (moves) expect_all_mapped(mapped);
    channel.sync();
    endpoint.unimport(mapped);
  }
}

// Writes to all of them and reads them.
void write(Channel& channel) {
  live_in("other");
  std::vector<char> memory(kBlock);
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto offer = channel.receive<Offer>();
    urma_target_jetty_t* queue = endpoint.import(offer.queue);
    urma_target_seg_t* remote = endpoint.import(offer.segment);
    urma_sge_t local = piece(segment, memory.data(), 8);
    endpoint.post(send_request(queue, &local));
    wait_for_success(endpoint.send_jfc, 0);
    local.len = kBlock;
    for (size_t at = 0; at < kBytes; at += kBlock) {
      if (at == kBytes / 8) channel.sync();  // the near peer maps them from now on
      std::memset(memory.data(), static_cast<int>(at / kBlock + round), kBlock);
      urma_sge_t there = piece(remote, offer.segment.va + at, kBlock);
      endpoint.post(write_request(queue, &local, &there, at));
      wait_for_success(endpoint.send_jfc, at);
      std::memset(memory.data(), 0, kBlock);
      endpoint.post(read_request(queue, &local, &there, at));
      wait_for_success(endpoint.send_jfc, at);
      for (size_t i = 0; i < kBlock; i += kPage) {
        ASSERT_EQ(memory[i], static_cast<char>(at / kBlock + round)) << "page " << i / kPage;
      }
    }
    local.len = 8;
    endpoint.post(send_request(queue, &local));
    wait_for_success(endpoint.send_jfc, 0);
    channel.sync();
    endpoint.unimport(remote);
    endpoint.unimport(queue);
  }
}

using SharingTest = ProcessTest;

TEST_F(SharingTest, AFarPeerWritesWhatANearOneMaps) {
  const std::string why = why_not_in_place();
  if (!why.empty()) std::printf("Nothing moves: %s\n", why.c_str());
  Child owner("owner", own);
  Child near("near", map);
  Child far("far", write);
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto offer = owner.channel().receive<Offer>();
    far.channel().send(offer);
    far.channel().sync();
    near.channel().send(offer);
    near.channel().sync();
    far.channel().sync();
    owner.channel().sync();
  }
  for (Child* child : {&near, &far, &owner}) child->expect_success();
}

}  // namespace
}  // namespace urma_test
