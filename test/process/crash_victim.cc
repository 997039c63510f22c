// SPDX-License-Identifier: MIT
#include <sched.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "test/process/crash_cast.h"

namespace urma_test {
namespace {

constexpr uint64_t kReceives = 16;
constexpr uint64_t kWindow = 8;  // requests in flight
constexpr size_t kPage = 4096;

// Memory that is moved when a peer imports it.
class PrivateMemory {
 public:
  explicit PrivateMemory(size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::runtime_error("no memory for the test");
  }
  ~PrivateMemory() { ::munmap(data_, bytes_); }
  PrivateMemory(const PrivateMemory&) = delete;
  PrivateMemory& operator=(const PrivateMemory&) = delete;
  char* get() const { return static_cast<char*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

Config victim_config() {
  Config config;
  config.id = kVictimId;
  config.receive_depth = kReceives;
  return config;
}

class Victim {
 public:
  Victim(const std::vector<CrashOffer>& survivors, uint64_t seed)
      : survivors_(survivors), random_(seed), endpoint_(victim_config()), bound_(endpoint_) {
    segment_ = endpoint_.add(own_.get(), kReceives * kSlotBytes);
    shared_ = endpoint_.add(offered_.get(), kSharedBytes);
    for (uint64_t i = 0; i < kReceives; ++i) post_receive(i);
  }

  CrashOffer offer() { return {endpoint_.queue_id(), bound_.id(), endpoint_.segment_id(shared_)}; }

  [[noreturn]] void run(Role role) {
    if (role != Role::kImporter && role != Role::kBinder) import_all();
    for (;;) {
      switch (role) {
        case Role::kSender:
          send_noise();
          break;
        case Role::kReceiver:
          ::sched_yield();
          break;
        case Role::kAccessor:
          access();
          break;
        case Role::kImporter:
          import_once();
          break;
        case Role::kRegistrar:
          register_once();
          break;
        case Role::kBinder:
          bind_once();
          break;
        case Role::kStarter:
          throw std::logic_error("a starter has nothing");
      }
      receive();
    }
  }

 private:
  struct Target {
    urma_target_jetty_t* queue;
    urma_target_seg_t* segment;
  };

  Message* message() { return reinterpret_cast<Message*>(own_.get()); }
  const CrashOffer& any_survivor() { return survivors_[random_() % survivors_.size()]; }
  Target& any_target() { return targets_[random_() % targets_.size()]; }

  void import_all() {
    for (const CrashOffer& survivor : survivors_) {
      targets_.push_back({endpoint_.import(survivor.queue), endpoint_.import(survivor.segment)});
    }
  }

  void post_receive(uint64_t slot) {
    endpoint_.post_receive(segment_, own_.get() + slot * kSlotBytes, kSlotBytes, slot);
  }
  void receive() {
    urma_cr_t records[kReceives];
    const int n = urma_poll_jfc(endpoint_.receive_jfc, kReceives, records);
    EXPECT_GE(n, 0);
    for (int i = 0; i < n; ++i) post_receive(records[i].user_ctx);
  }

  void post(urma_jfs_wr_t wr) {
    endpoint_.post(wr);
    ++in_flight_;
  }
  // Until at most this many requests are in flight.
  void drain(uint64_t most) {
    while (in_flight_ > most) {
      urma_cr_t record;
      const int n = urma_poll_jfc(endpoint_.send_jfc, 1, &record);
      EXPECT_GE(n, 0);
      if (n == 1) {
        EXPECT_EQ(record.status, URMA_CR_SUCCESS);
        --in_flight_;
      } else {
        receive();
        ::sched_yield();
      }
    }
  }

  void send(urma_target_jetty_t* queue, const Message& contents, size_t bytes) {
    *message() = contents;
    urma_sge_t here = piece(segment_, own_.get(), bytes);
    post(send_request(queue, &here));
  }

  void send_noise() {
    constexpr size_t kSizes[] = {sizeof(Message), 1000, 4000, 20000, kSlotBytes};
    send(any_target().queue, Message{}, kSizes[random_() % std::size(kSizes)]);
    drain(kWindow - 1);
  }

  void access() {
    const Target& target = any_target();
    const size_t bytes = random_() % 4 == 0 ? kSharedBytes - kPage : 64;
    urma_sge_t here = piece(segment_, own_.get() + kSlotBytes, bytes);
    urma_sge_t there = piece(target.segment, target.segment->seg.ubva.va + kPage, bytes);
    const uint64_t choice = random_() % 4;
    if (choice >= 2) here.len = there.len = 8;
    switch (choice) {
      case 0:
        post(write_request(target.queue, &here, &there));
        break;
      case 1:
        post(read_request(target.queue, &here, &there));
        break;
      case 2:
        post(add_request(target.queue, &here, &there, 1));
        break;
      default:
        post(cas_request(target.queue, &here, &there, 0, 1));
    }
    drain(kWindow - 1);
  }

  void import_once() {
    const CrashOffer& survivor = any_survivor();
    urma_target_seg_t* const segment = endpoint_.import(survivor.segment, random_() % 2 == 0);
    urma_target_jetty_t* const queue = endpoint_.import(survivor.queue);
    if (random_() % 4 != 0) {
      urma_sge_t here = piece(segment_, own_.get() + kSlotBytes, 64);
      urma_sge_t there = piece(segment, segment->seg.ubva.va + kPage, 64);
      post(write_request(queue, &here, &there));
    }
    if (random_() % 2 == 0) send(queue, Message{}, sizeof(Message));
    drain(0);
    endpoint_.unimport(queue);
    endpoint_.unimport(segment);
  }

  void register_once() {
    const size_t bytes = (1 + random_() % 64) * kPage;
    const PrivateMemory memory(bytes);
    std::memset(memory.get(), 'r', bytes);
    urma_target_seg_t* const segment = endpoint_.add(memory.get(), bytes);
    Message news;
    news.kind = Kind::kSegment;
    news.memory = endpoint_.segment_id(segment);
    send(any_target().queue, news, sizeof(news));
    drain(0);
    for (uint64_t i = random_() % 200; i > 0; --i) {
      receive();
      ::sched_yield();
    }
    endpoint_.remove(segment);
  }

  void bind_once() {
    urma_target_jetty_t* const peer = bound_.import(any_survivor().bound_queue);
    EXPECT_EQ(urma_bind_jetty(bound_.jetty, peer), URMA_SUCCESS);
    for (uint64_t i = random_() % 4; i > 0; --i) {
      urma_sge_t here = piece(segment_, own_.get(), sizeof(Message));
      *message() = Message{};
      bound_.post(send_request(nullptr, &here));
      ++in_flight_;
    }
    drain(0);
    EXPECT_EQ(urma_unbind_jetty(bound_.jetty), URMA_SUCCESS);
    EXPECT_EQ(urma_unimport_jetty(peer), URMA_SUCCESS);
  }

  const std::vector<CrashOffer>& survivors_;
  std::mt19937_64 random_;
  PrivateMemory own_{kReceives * kSlotBytes};
  PrivateMemory offered_{kSharedBytes};
  Endpoint endpoint_;
  BoundQueue bound_;
  urma_target_seg_t* segment_;
  urma_target_seg_t* shared_;
  std::vector<Target> targets_;
  uint64_t in_flight_ = 0;
};

}  // namespace

Body victim(Role role, const std::vector<CrashOffer>& survivors, uint64_t seed) {
  if (role == Role::kStarter) {
    return [](Channel& channel) {
      channel.send('s');
      for (;;) Endpoint(victim_config()).close();
    };
  }
  return [role, &survivors, seed](Channel& channel) {
    Victim self(survivors, seed);
    channel.send(self.offer());
    self.run(role);
  };
}

}  // namespace urma_test
