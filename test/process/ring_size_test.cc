// SPDX-License-Identifier: MIT
//
// A ring grows when it holds few of the messages that go through it, and only then.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"

namespace urma_test {
namespace {

constexpr uint64_t kMessages = 4000;
constexpr uint32_t kReceives = 64;
constexpr uint64_t kPlace = 1024;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kBytes = 64 * kPlace;

// The bytes of this process's rings, each with its adjacent page of answers.
std::multiset<uint64_t> rings() {
  std::multiset<uint64_t> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:urma-ring") == std::string::npos) continue;
    uint64_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end;
    found.insert(end - begin);
  }
  return found;
}

// Sends as fast as possible; every message has its number in its first and last bytes.
void send_all(Endpoint& endpoint, urma_target_jetty_t* peer, urma_target_seg_t* segment,
              char* memory, uint32_t bytes) {
  uint64_t done = 0;
  const auto take = [&](int most) {
    urma_cr_t records[16];
    const int got = urma_poll_jfc(endpoint.send_jfc, most, records);
    for (int i = 0; i < got; ++i) {
      EXPECT_EQ(records[i].status, URMA_CR_SUCCESS);
      EXPECT_EQ(records[i].user_ctx, done++);
    }
  };
  const auto deadline = Clock::now() + patience(seconds(30));
  for (uint64_t i = 0; i < kMessages; ++i) {
    while (i - done >= endpoint.config.send_depth && Clock::now() < deadline) take(16);
    char* place = memory + i % endpoint.config.send_depth * kPlace;
    std::memcpy(place + bytes - sizeof(i), &i, sizeof(i));
    std::memcpy(place, &i, sizeof(i));
    urma_sge_t here = piece(segment, place, bytes);
    endpoint.post(send_request(peer, &here, i));
  }
  while (done < kMessages && Clock::now() < deadline) take(16);
  EXPECT_EQ(done, kMessages);
}

void receive_all(Endpoint& endpoint, urma_target_seg_t* segment, char* memory, uint32_t bytes) {
  for (uint64_t i = 0; i < kMessages; ++i) {
    const urma_cr_t cr = wait_for_success(endpoint.receive_jfc, i);
    EXPECT_EQ(cr.completion_len, bytes);
    char* place = memory + i % kReceives * kPlace;
    uint64_t first, last;
    std::memcpy(&first, place, sizeof(first));
    std::memcpy(&last, place + bytes - sizeof(last), sizeof(last));
    EXPECT_TRUE(first == i && last == i) << i << " " << first << " " << last;
    if (i + kReceives < kMessages) endpoint.post_receive(segment, place, kPlace, i + kReceives);
  }
}

struct Sizes {
  const char* name;
  uint32_t bytes;
  uint64_t ring;
  bool mapped = false;
};

// Pages that a peer can map, or static memory, which it cannot.
class Memory {
 public:
  explicit Memory(bool mappable) {
    static char unmappable[kBytes];
    if (mappable) pages_.emplace(kBytes);
    data_ = mappable ? pages_->get() : unmappable;
  }
  char* get() const { return data_; }

 private:
  std::optional<Pages> pages_;
  char* data_;
};

class RingSizesTest : public ProcessTest, public ::testing::WithParamInterface<Sizes> {};

// In order, each once, even when the ring is replaced in the meantime.
TEST_P(RingSizesTest, FollowsTheMessages) {
  SKIP_UNLESS_SHARED_MEMORY("rings exist");
  if (GetParam().mapped) SKIP_UNLESS_IN_PLACE();
  run_two(
      "sender",
      [](Channel& channel) {
        Endpoint endpoint;
        const Memory memory(GetParam().mapped);
        urma_target_seg_t* segment = endpoint.add(memory.get(), kBytes);
        urma_target_jetty_t* peer = endpoint.import(channel.swap(endpoint.queue_id()));
        const std::multiset<uint64_t> expected = {GetParam().ring + kPage};
        const auto deadline = Clock::now() + patience(seconds(20));
        bool again = true;
        if (GetParam().mapped) {
          channel.sync();
          send_all(endpoint, peer, segment, memory.get(), kPlace);
        }
        // The peer may be slow to accept the larger one.
        while (again) {
          channel.sync();
          send_all(endpoint, peer, segment, memory.get(), GetParam().bytes);
          again = rings() != expected && Clock::now() < deadline;
          channel.send(again);
        }
        EXPECT_EQ(rings(), expected);
        endpoint.close();
      },
      "receiver",
      [](Channel& channel) {
        Endpoint endpoint;
        static char memory[kReceives * kPlace];
        urma_target_seg_t* segment = endpoint.add(memory, sizeof(memory));
        channel.swap(endpoint.queue_id());
        const auto receive = [&](uint32_t bytes) {
          for (uint64_t i = 0; i < kReceives; ++i) {
            endpoint.post_receive(segment, memory + i * kPlace, kPlace, i);
          }
          channel.sync();
          receive_all(endpoint, segment, memory, bytes);
        };
        if (GetParam().mapped) receive(kPlace);
        do {
          receive(GetParam().bytes);
        } while (channel.receive<bool>());
        endpoint.close();
      });
}

// With up to four slots of 64 bytes per message, 16 messages fit. A message by reference takes one
// slot; messages of more than 512 bytes take that path from memory that the receiver has mapped.
constexpr Sizes kSizes[] = {
    {"OneSlot", 8, 4096},
    {"FourSlots", 232, 4096},
    {"FiveSlots", 233, 16384},
    {"TenSlots", 600, 16384},
    {"AllSlots", 1000, 16384},
    {"ByReference", 1001, 4096},
    {"MappedNineSlots", 512, 16384, true},
    {"MappedTenSlots", 513, 4096, true},
    {"MappedAllSlots", 1000, 4096, true},
};

INSTANTIATE_TEST_SUITE_P(Bytes, RingSizesTest, ::testing::ValuesIn(kSizes),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace urma_test
