// SPDX-License-Identifier: MIT
//
// Two processes that do the same to each other, with every kind of request.
#ifndef TEST_PROCESS_STAGED_PARTY_H_
#define TEST_PROCESS_STAGED_PARTY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"

namespace urma_test {

// Many turns, and not a multiple of the size of a place in a staging area.
inline constexpr uint64_t kBytes = 3 * kMiB + 4321;
// The peer writes to one half of the memory; this side sends from the other.
inline constexpr uint64_t kRoom = 2 * kBytes;

inline void stay_in_place() { ::setenv("URMA_SHM_INPLACE", "0", 1); }

inline void fill_with(char* data, uint64_t bytes, uint64_t seed) {
  for (uint64_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(seed + i * 7 + (i >> 9));
}

inline bool is_filled_with(const char* data, uint64_t bytes, uint64_t seed) {
  for (uint64_t i = 0; i < bytes; ++i) {
    if (data[i] != static_cast<char>(seed + i * 7 + (i >> 9))) return false;
  }
  return true;
}

// One of two processes that do the same to each other. Closed at the end of its scope.
struct Party {
  explicit Party(Channel& channel, const Config& config = {}, uint32_t access = kAllAccess)
      : endpoint(config), memory(kRoom) {
    segment = endpoint.add(memory.get(), kRoom, access);
    offer = channel.swap(offer_of(endpoint, segment));
    queue = endpoint.import(offer.queue);
    remote = endpoint.import(offer.segment);
  }
  char* in() const { return memory.get(); }
  char* out() const { return memory.get() + kBytes; }
  urma_sge_t here(uint64_t bytes, uint64_t offset = 0) {
    return piece(segment, out() + offset, bytes);
  }
  urma_sge_t there(uint64_t bytes, uint64_t offset = 0) {
    return piece(remote, offer.segment.va + offset, bytes);
  }
  void expect_staged() {
    for (const urma_ext_part_t& part : parts_of(remote)) {
      EXPECT_EQ(part.path, URMA_EXT_PATH_STAGED);
    }
  }
  void succeed(const urma_jfs_wr_t& wr) {
    endpoint.post(wr);
    wait_for_success(endpoint.send_jfc, wr.user_ctx);
  }
  urma_cr_status_t end_of(const urma_jfs_wr_t& wr) {
    endpoint.post(wr);
    return wait_for(endpoint.send_jfc).status;
  }

  Endpoint endpoint;
  const Pages memory;
  urma_target_seg_t* segment;
  Offer offer;
  urma_target_jetty_t* queue;
  urma_target_seg_t* remote;
  const Closing closing{endpoint};
};

inline void write_and_read(Party& party, Channel& channel) {
  urma_sge_t here = party.here(kBytes - 1), there = party.there(kBytes - 1, 1);
  fill_with(party.out(), kBytes, 1);
  party.succeed(write_request(party.queue, &here, &there, 1));
  channel.sync();
  EXPECT_TRUE(is_filled_with(party.in() + 1, kBytes - 1, 1));
  std::fill(party.out(), party.out() + kBytes, 0);
  channel.sync();
  party.succeed(read_request(party.queue, &here, &there, 2));
  EXPECT_TRUE(is_filled_with(party.out(), kBytes - 1, 1));
  channel.sync();
}

inline void write_with_immediate(Party& party, Channel& channel) {
  party.endpoint.post_receive(party.segment, party.in(), 8, 3);
  channel.sync();
  urma_sge_t here = party.here(kMiB), there = party.there(kMiB);
  fill_with(party.out(), kMiB, 2);
  party.endpoint.post(write_imm_request(party.queue, &here, &there, 4711, 4));
  const urma_cr_t record = wait_for_success(party.endpoint.receive_jfc, 3);
  EXPECT_EQ(record.imm_data, 4711u);
  EXPECT_TRUE(is_filled_with(party.in(), kMiB, 2)) << "the record came before the data";
  wait_for_success(party.endpoint.send_jfc, 4);
  channel.sync();
}

// The value is after the data, or between words.
inline void write_and_notify(Party& party, Channel& channel) {
  for (const uint64_t at : {kMiB, kMiB + 3}) {
    std::fill_n(party.in() + at, 8, 0);
    channel.sync();
    urma_sge_t here = party.here(kMiB);
    urma_sge_t there[] = {party.there(kMiB), party.there(8, at)};
    fill_with(party.out(), kMiB, at);
    party.succeed(write_notify_request(party.queue, &here, there, 4712, 5));
    channel.sync();
    EXPECT_EQ(std::memcmp(party.in() + at, "\x68\x12\0\0\0\0\0\0", 8), 0);
    EXPECT_TRUE(is_filled_with(party.in(), kMiB, at));
    channel.sync();
  }
}

inline void count(Party& party, Channel& channel) {
  *word_at(party.in(), 64) = 5;
  channel.sync();
  urma_sge_t old = party.here(8), there = party.there(8, 64);
  party.succeed(add_request(party.queue, &old, &there, 37, 6));
  uint64_t before;
  std::memcpy(&before, party.out(), sizeof(before));
  EXPECT_EQ(before, 5u);
  channel.sync();
  EXPECT_EQ(*word_at(party.in(), 64), 42u);
}

inline void send_messages(Party& party, Channel& channel) {
  constexpr uint64_t kSizes[] = {1, 2000, kMiB, 300'001, kBytes};
  for (const uint64_t bytes : kSizes) {
    std::fill(party.in(), party.in() + kBytes, 0);
    party.endpoint.post_receive(party.segment, party.in(), kBytes, bytes);
    channel.sync();
    fill_with(party.out(), bytes, bytes);
    urma_sge_t here = party.here(bytes);
    party.endpoint.post(send_request(party.queue, &here, bytes));
    EXPECT_EQ(wait_for_success(party.endpoint.receive_jfc, bytes).completion_len, bytes);
    EXPECT_TRUE(is_filled_with(party.in(), bytes, bytes));
    EXPECT_TRUE(bytes == kBytes || party.in()[bytes] == 0);
    wait_for_success(party.endpoint.send_jfc, bytes);
  }
  channel.sync();
}

}  // namespace urma_test

#endif  // TEST_PROCESS_STAGED_PARTY_H_
