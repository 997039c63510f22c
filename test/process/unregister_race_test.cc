// SPDX-License-Identifier: MIT
//
// A segment that its owner unregisters while a peer reads or writes it, and then uses for something
// else: a read that succeeds has brought only what was registered, and no write comes later.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr size_t kBytes = 1 << 20;
constexpr int kRounds = 100;
constexpr char kRegistered = 'r';
constexpr char kLater = 'l';

void own(Channel& channel) {
  const auto writes = channel.receive<bool>();
  // Pages that are moved are others than those that are read.
  ::setenv("URMA_SHM_INPLACE", "0", 1);
  std::vector<char> memory(kBytes);
  OwnedEndpoint endpoint;
  channel.send(endpoint.queue_id());
  for (int i = 0; i < kRounds; ++i) {
    std::memset(memory.data(), kRegistered, kBytes);
    urma_target_seg_t* segment = endpoint.add(memory.data(), kBytes);
    channel.send(endpoint.segment_id(segment));
    channel.sync();
    // The first reads may find nothing to race with.
    for (volatile int wait = 0; wait < i * 1000;) wait = wait + 1;
    endpoint.remove(segment);
    // From the end on, towards a request in progress.
    for (size_t at = kBytes; at != 0; at -= kPage) memory[at - 1] = kLater;
    channel.sync();
    if (!writes) continue;
    for (size_t at = kBytes; at != 0; at -= kPage) ASSERT_EQ(memory[at - 1], kLater) << at;
  }
}

void access(Channel& channel, bool writes) {
  channel.send(writes);
  std::vector<char> memory(kBytes);
  OwnedEndpoint endpoint;
  urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
  urma_sge_t here = piece(endpoint.add(memory.data(), kBytes), memory.data(), kBytes);
  for (int i = 0; i < kRounds; ++i) {
    const auto id = channel.receive<SegmentId>();
    urma_target_seg_t* remote = endpoint.import(id);
    urma_sge_t there = {id.va, kBytes, remote, nullptr};
    channel.sync();
    urma_cr_t record;
    do {
      endpoint.post(writes ? write_request(queue, &here, &there)
                           : read_request(queue, &here, &there));
      record = wait_for(endpoint.send_jfc);
      if (record.status != URMA_CR_SUCCESS) break;
      EXPECT_EQ(std::count(memory.begin(), memory.end(), kLater), 0) << "in round " << i;
    } while (true);
    EXPECT_EQ(record.status, URMA_CR_REM_ACCESS_ABORT_ERR);
    endpoint.unimport(remote);
    channel.sync();
  }
}

using UnregisterRaceTest = ProcessTest;

TEST_F(UnregisterRaceTest, ReadBringsNothingLater) {
  run_two("owner", own, "reader", [](Channel& channel) { access(channel, /*writes=*/false); });
}

TEST_F(UnregisterRaceTest, NoWriteComesLater) {
  run_two("owner", own, "writer", [](Channel& channel) { access(channel, /*writes=*/true); });
}

// Where a read of mapped memory stops until the owner has unregistered it and stored something
// else.
char* barrier_page;
int barrier_channel;

void stop_at_the_barrier(int /*signal*/) {
  char byte = 'b';
  if (::write(barrier_channel, &byte, 1) != 1 || ::read(barrier_channel, &byte, 1) != 1 ||
      ::mprotect(barrier_page, kPage, PROT_READ | PROT_WRITE) != 0) {
    ::_exit(3);
  }
}

constexpr size_t kSizes[] = {100, 32 << 10};

void own_mapped(Channel& channel) {
  OwnedEndpoint endpoint;
  channel.send(endpoint.queue_id());
  char* const memory = static_cast<char*>(urma_ext_alloc(kBytes, 0));
  for ([[maybe_unused]] const size_t size : kSizes) {
    std::memset(memory, kRegistered, kBytes);
    urma_target_seg_t* segment = endpoint.add(memory, kBytes);
    channel.send(endpoint.segment_id(segment));
    channel.receive<char>();
    endpoint.remove(segment);
    std::memset(memory, kLater, kBytes);
    channel.send('g');
    channel.sync();
  }
  EXPECT_EQ(urma_ext_free(memory), URMA_SUCCESS);
}

// The bytes lie across the beginning of a page that the first access to it must wait for.
void read_mapped(Channel& channel) {
  OwnedEndpoint endpoint;
  urma_target_jetty_t* queue = endpoint.import(channel.receive<QueueId>());
  const Pages memory(kBytes);
  urma_target_seg_t* const local = endpoint.add(memory.get(), kBytes);
  barrier_page = memory.get() + kBytes / 2;
  barrier_channel = channel.fd();
  ::signal(SIGSEGV, stop_at_the_barrier);
  for (const size_t size : kSizes) {
    const auto id = channel.receive<SegmentId>();
    urma_target_seg_t* remote = endpoint.import(id, /*mapped=*/true);
    // Only requests to a known target are executed at once.
    urma_sge_t aside = piece(local, memory.get(), 8);
    urma_sge_t first = piece(remote, id.va, 8);
    endpoint.post(read_request(queue, &aside, &first));
    wait_for_success(endpoint.send_jfc, 0);
    urma_sge_t here = piece(local, barrier_page - 16, size);
    urma_sge_t there = piece(remote, id.va, size);
    ASSERT_EQ(::mprotect(barrier_page, kPage, PROT_NONE), 0);
    endpoint.post(read_request(queue, &here, &there));
    EXPECT_EQ(wait_for(endpoint.send_jfc).status, URMA_CR_REM_ACCESS_ABORT_ERR) << size;
    endpoint.unimport(remote);
    channel.sync();
  }
}

TEST_F(UnregisterRaceTest, ReadOfMappedMemoryBringsNothingLater) {
  SKIP_UNLESS_SHARED_MEMORY("memory is mapped");
  if (kSanitized) GTEST_SKIP() << "the sanitizers have their own handlers of signals";
  run_two("owner", own_mapped, "reader", read_mapped);
}

}  // namespace
}  // namespace urma_test
