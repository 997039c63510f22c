// SPDX-License-Identifier: MIT
#include "test/process/load_worker.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

namespace urma_test {
namespace {

constexpr size_t kMessages = 4;  // at a time to one partner
constexpr size_t kMessageBytes = 16 * 1024;
constexpr size_t kBlockBytes = 256 * 1024;
constexpr size_t kLaneBytes =
    kBlockBytes + 4096;  // of a sender; the block, and the counter after it
constexpr uint64_t kReceives = 64;

struct Header {
  uint64_t from, from_life, to_life;
  uint64_t distance;
  uint64_t number;  // from 0, for each pair of lives
  uint64_t bytes;
};

uint64_t pattern_seed(uint64_t a, uint64_t b, uint64_t c) {
  return a * 0x9E3779B97F4A7C15 + b * 0xC2B2AE3D27D4EB4F + c * 0x165667B19E3779F9;
}

void fill_pattern(char* data, size_t bytes, uint64_t seed) {
  auto* const words = reinterpret_cast<uint64_t*>(data);
  for (size_t i = 0; i < bytes / 8; ++i) words[i] = seed + i * 0x9E3779B97F4A7C15;
}

bool has_pattern(const char* data, size_t bytes, uint64_t seed) {
  const auto* const words = reinterpret_cast<const uint64_t*>(data);
  uint64_t difference = 0;
  for (size_t i = 0; i < bytes / 8; ++i) {
    difference |= words[i] ^ (seed + i * 0x9E3779B97F4A7C15);
  }
  return difference == 0;
}

Config load_config() {
  Config config;
  config.receive_depth = kReceives;
  config.send_depth = kPartners * kMessages;
  return config;
}

class Worker {
 public:
  Worker(Board* board, size_t processes, size_t index, uint64_t life, uint64_t seed)
      : board_(board),
        processes_(processes),
        index_(index),
        life_(life),
        random_(seed),
        own_(board->slots[index]),
        endpoint_(load_config()) {
    lanes_segment_ = endpoint_.add(lanes_.data(), lanes_.size());
    work_segment_ = endpoint_.add(work_.data(), work_.size());
    for (uint64_t i = 0; i < kReceives; ++i) post_receive(i);
    for (size_t i = 0; i < kPartners; ++i) partners_[i].slot = (index + 1 + i) % processes;
    for (Slot::Sent& sent : own_.sent) sent.to_life.store(0, std::memory_order_relaxed);
    for (Slot::Received& received : own_.received) {
      received.from_life.store(0, std::memory_order_relaxed);
    }
    own_.offer = {endpoint_.queue_id(), endpoint_.segment_id(lanes_segment_)};
    own_.life.store(life);
  }

  void run() {
    bool drained = false;
    while (!drained || !everybody_has_drained()) {
      const bool stop = board_->stop.load();
      bool idle = true;
      for (size_t i = 0; i < kPartners; ++i) {
        if (partners_[i].in_flight == 0 && !stop) begin_job(i);
        idle &= partners_[i].in_flight == 0;
      }
      take_records();
      // Yields to the others, of which there are many per processor: without sleeping, they would
      // wait for each other longer than a peer may take to answer.
      ::poll(nullptr, 0, 1);
      if (stop && idle && !drained) {
        drained = true;
        own_.drained.store(life_);
      }
    }
    while (take_records()) {
    }
    endpoint_.close();
  }

 private:
  enum class Job { kMessages, kBlock, kCount };
  struct Partner {
    size_t slot = 0;
    uint64_t life = 0;  // 0: none known
    urma_target_jetty_t* queue = nullptr;
    urma_target_seg_t* segment = nullptr;
    Job job = Job::kMessages;
    uint64_t in_flight = 0;
    bool failed = false;
    uint64_t sent = 0;     // messages
    uint64_t counted = 0;  // the expected value of the counter
    bool counter_known = false;
  };

  static constexpr size_t kPartnerBytes = 2 * kBlockBytes;
  char* source(size_t partner) { return work_.data() + partner * kPartnerBytes; }
  char* copy(size_t partner) { return source(partner) + kBlockBytes; }
  char* receive_memory(uint64_t slot) {
    return work_.data() + kPartners * kPartnerBytes + slot * kMessageBytes;
  }
  void post_receive(uint64_t slot) {
    endpoint_.post_receive(work_segment_, receive_memory(slot), kMessageBytes, slot);
  }

  bool everybody_has_drained() const {
    return std::all_of(board_->slots.begin(), board_->slots.begin() + processes_,
                       [](const Slot& slot) { return slot.drained.load() != 0; });
  }

  void begin_job(size_t index) {
    Partner& partner = partners_[index];
    if (partner.life == 0 && !meet(index)) return;
    partner.failed = false;
    const uint64_t choice = random_() % 16;
    if (choice < 9) {
      send_messages(index);
    } else if (choice < 15) {
      write_block(index);
    } else {
      count(index);
    }
  }

  // Whether the partner is running.
  bool meet(size_t index) {
    Partner& partner = partners_[index];
    Slot& slot = board_->slots[partner.slot];
    const uint64_t life = slot.life.load();
    const LoadOffer offer = slot.offer;
    if (life == 0 || slot.life.load() != life) return false;
    try {
      partner.queue = endpoint_.import(offer.queue);
      partner.segment = endpoint_.import(offer.segment);
    } catch (const std::exception& error) {
      EXPECT_NE(slot.life.load(), life) << error.what();
      forget(partner);
      return false;
    }
    partner.life = life;
    partner.sent = 0;
    partner.counter_known = false;
    own_.sent[index].completed.store(0);
    own_.sent[index].to_life.store(life);
    return true;
  }

  void forget(Partner& partner) {
    if (partner.segment != nullptr) endpoint_.unimport(partner.segment);
    if (partner.queue != nullptr) endpoint_.unimport(partner.queue);
    partner.segment = nullptr;
    partner.queue = nullptr;
    partner.life = 0;
  }

  void post(size_t index, urma_jfs_wr_t wr) {
    wr.user_ctx = index;
    endpoint_.post(wr);
    ++partners_[index].in_flight;
  }

  void send_messages(size_t index) {
    Partner& partner = partners_[index];
    partner.job = Job::kMessages;
    for (uint64_t i = 1 + random_() % kMessages; i > 0; --i) {
      char* const data = source(index) + (i - 1) * kMessageBytes;
      const size_t bytes =
          std::max(sizeof(Header), static_cast<size_t>(random_() % kMessageBytes) & ~size_t{7});
      const Header header = {index_, life_, partner.life, index, partner.sent, bytes};
      std::memcpy(data, &header, sizeof(header));
      fill_pattern(data + sizeof(header), bytes - sizeof(header),
                   pattern_seed(index_, life_, partner.sent));
      ++partner.sent;
      urma_sge_t here = piece(work_segment_, data, bytes);
      post(index, send_request(partner.queue, &here));
    }
  }

  uint64_t lane_of(size_t index) {
    return partners_[index].segment->seg.ubva.va + index * kLaneBytes;
  }

  void write_block(size_t index) {
    Partner& partner = partners_[index];
    partner.job = Job::kBlock;
    fill_pattern(source(index), kBlockBytes, random_());
    urma_sge_t here = piece(work_segment_, source(index), kBlockBytes);
    urma_sge_t there = piece(partner.segment, lane_of(index), kBlockBytes);
    post(index, write_request(partner.queue, &here, &there));
    here = piece(work_segment_, copy(index), kBlockBytes);
    post(index, read_request(partner.queue, &here, &there));
  }

  void count(size_t index) {
    Partner& partner = partners_[index];
    partner.job = Job::kCount;
    urma_sge_t here = piece(work_segment_, source(index), 8);
    urma_sge_t there = piece(partner.segment, lane_of(index) + kBlockBytes, 8);
    post(index, add_request(partner.queue, &here, &there, 1));
  }

  // Whether anything was found.
  bool take_records() {
    urma_cr_t records[16];
    const int ended = urma_poll_jfc(endpoint_.send_jfc, 16, records);
    EXPECT_GE(ended, 0);
    for (int i = 0; i < ended; ++i) note_end(records[i]);
    const int arrived = urma_poll_jfc(endpoint_.receive_jfc, 16, records);
    EXPECT_GE(arrived, 0);
    for (int i = 0; i < arrived; ++i) note_arrival(records[i]);
    return ended + arrived > 0;
  }

  void note_end(const urma_cr_t& record) {
    const size_t index = record.user_ctx;
    Partner& partner = partners_[index];
    --partner.in_flight;
    if (record.status == URMA_CR_SUCCESS) {
      if (partner.job == Job::kMessages) {
        own_.sent[index].completed.fetch_add(1);
        own_.messages.fetch_add(1, std::memory_order_relaxed);
      }
    } else {
      partner.failed = true;
      EXPECT_NE(board_->slots[partner.slot].life.load(), partner.life)
          << "a request to a process that lives: " << record.status;
      // The successor of the dead process knows nothing of its memory.
      EXPECT_TRUE(record.status == URMA_CR_ACK_TIMEOUT_ERR ||
                  record.status == URMA_CR_REM_ACCESS_ABORT_ERR)
          << record.status;
    }
    if (partner.in_flight != 0) return;
    if (partner.failed) {
      forget(partner);
    } else {
      finish_job(index);
    }
  }

  void finish_job(size_t index) {
    Partner& partner = partners_[index];
    if (partner.job == Job::kBlock) {
      EXPECT_EQ(std::memcmp(source(index), copy(index), kBlockBytes), 0);
      own_.moved.fetch_add(2 * kBlockBytes, std::memory_order_relaxed);
    } else if (partner.job == Job::kCount) {
      uint64_t before;
      std::memcpy(&before, source(index), sizeof(before));
      if (partner.counter_known) {
        EXPECT_EQ(before, partner.counted);
      }
      partner.counter_known = true;
      partner.counted = before + 1;
    }
  }

  void note_arrival(const urma_cr_t& record) {
    EXPECT_EQ(record.status, URMA_CR_SUCCESS);
    const char* const data = receive_memory(record.user_ctx);
    Header header;
    std::memcpy(&header, data, sizeof(header));
    EXPECT_EQ(header.bytes, record.completion_len);
    EXPECT_TRUE(has_pattern(data + sizeof(header), header.bytes - sizeof(header),
                            pattern_seed(header.from, header.from_life, header.number)));
    own_.moved.fetch_add(header.bytes, std::memory_order_relaxed);
    if (header.to_life == life_) {
      tally(header);
    } else {
      EXPECT_LT(header.to_life, life_);
      own_.strays.fetch_add(1, std::memory_order_relaxed);
    }
    post_receive(record.user_ctx);
  }

  // Each life of a sender counts from 0, without gaps.
  void tally(const Header& header) {
    Slot::Received& received = own_.received[header.distance];
    if (received.from_life.load() != header.from_life) {
      EXPECT_LT(received.from_life.load(), header.from_life);
      received.count.store(0);
      received.from_life.store(header.from_life);
    }
    EXPECT_EQ(header.number, received.count.load()) << "lost or duplicated";
    received.count.store(header.number + 1);
  }

  Board* const board_;
  const size_t processes_;
  const uint64_t index_;
  const uint64_t life_;
  std::mt19937_64 random_;
  Slot& own_;
  Endpoint endpoint_;
  std::vector<char> lanes_ = std::vector<char>(kPartners * kLaneBytes);
  std::vector<char> work_ =
      std::vector<char>(kPartners * kPartnerBytes + kReceives * kMessageBytes);
  urma_target_seg_t* lanes_segment_ = nullptr;
  urma_target_seg_t* work_segment_ = nullptr;
  std::array<Partner, kPartners> partners_;
};

}  // namespace

void work(Board* board, size_t processes, size_t index, uint64_t life, uint64_t seed) {
  Worker(board, processes, index, life, seed).run();
}

}  // namespace urma_test
