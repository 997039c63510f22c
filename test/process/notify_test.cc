// SPDX-License-Identifier: MIT
//
// WRITE_NOTIFY: the value follows all data; if one is refused, neither is written.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

constexpr size_t kDataBytes = 3 * kMiB;
constexpr uint64_t kRounds = 40;
// One size that is moved in several turns, too.
constexpr size_t kSizes[] = {8, 1000, 65536, kDataBytes};

// Where data and value are: in mapped pages, or in memory that is copied.
struct Ways {
  const char* name;
  bool data_mapped, value_mapped;
};

// Memory of 8 bytes contains no whole page, so it is always copied.
struct Target {
  explicit Target(const Ways& ways) : data(kDataBytes + kPage), word(8), ways_(ways) {}
  char* bytes() { return ways_.data_mapped ? data.get() : data.get() + 1; }
  uint64_t* value() {
    return reinterpret_cast<uint64_t*>(ways_.value_mapped ? data.get() + kDataBytes : word.data());
  }

  Pages data;
  std::vector<char> word;

 private:
  const Ways ways_;
};

void wait_for_value(const uint64_t* word, uint64_t value) {
  const auto deadline = Clock::now() + patience(seconds(10));
  // Acquire: data that was written before the value is visible.
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
    if (Clock::now() > deadline) throw std::runtime_error("no notification arrived");
    ::sched_yield();
  }
}

class NotifyOrderTest : public ProcessTest, public testing::WithParamInterface<Ways> {};

TEST_P(NotifyOrderTest, ValueArrivesAfterAllData) {
  const Ways ways = GetParam();
  run_two(
      "target",
      [ways](Channel& channel) {
        if (!ways.data_mapped) ::setenv("URMA_SHM_INPLACE", "0", 1);
        Target target(ways);
        OwnedEndpoint endpoint;
        urma_target_seg_t* data = endpoint.add(target.bytes(), kDataBytes);
        urma_target_seg_t* value =
            endpoint.add(target.value(), ways.value_mapped ? kPage : sizeof(uint64_t));
        // It consumes no receive.
        endpoint.post_receive(data, target.bytes(), 8);
        channel.send(offer_of(endpoint, data));
        channel.send(endpoint.segment_id(value));
        for (uint64_t round = 1; round <= kRounds; ++round) {
          const size_t size = kSizes[round % std::size(kSizes)];
          wait_for_value(target.value(), round);
          const char* end = target.bytes() + size;
          EXPECT_EQ(std::find_if(target.bytes(), const_cast<char*>(end),
                                 [=](char byte) { return byte != static_cast<char>(round); }),
                    end);
          channel.sync();
        }
        EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
      },
      "initiator",
      [](Channel& channel) {
        std::vector<char> source(kDataBytes);
        OwnedEndpoint endpoint;
        const auto offer = channel.receive<Offer>();
        urma_target_jetty_t* queue = endpoint.import(offer.queue);
        urma_target_seg_t* data = endpoint.import(offer.segment, true);
        urma_target_seg_t* value = endpoint.import(channel.receive<SegmentId>(), true);
        urma_target_seg_t* local = endpoint.add(source.data(), source.size());
        for (uint64_t round = 1; round <= kRounds; ++round) {
          const size_t size = kSizes[round % std::size(kSizes)];
          std::fill(source.begin(), source.end(), static_cast<char>(round));
          urma_sge_t here = piece(local, source.data(), size);
          urma_sge_t there[] = {piece(data, data->seg.ubva.va, size),
                                piece(value, value->seg.ubva.va, sizeof(uint64_t))};
          endpoint.post(write_notify_request(queue, &here, there, round, round));
          wait_for_success(endpoint.send_jfc, round);
          channel.sync();
        }
      });
}

INSTANTIATE_TEST_SUITE_P(All, NotifyOrderTest,
                         testing::Values(Ways{"Mapped", true, true},
                                         Ways{"MappedDataCopiedValue", true, false},
                                         Ways{"Copied", false, false}),
                         [](const auto& info) { return info.param.name; });

class NotifyTest : public ProcessTest, public testing::WithParamInterface<bool> {
 protected:
  NotifyTest() { ::setenv("URMA_SHM_INPLACE", GetParam() ? "1" : "0", 1); }
};

// The effect of one request on memory of its own.
struct Notification {
  explicit Notification(Self* self) : self(self), here(piece(self->segment, self->out(), kBytes)) {}

  urma_jfs_wr_t request(const urma_sge_t& data, const urma_sge_t& value) {
    there[0] = data;
    there[1] = value;
    return write_notify_request(self->queue, &here, there, kValue, 1);
  }
  urma_sge_t data() const { return piece(self->remote, self->in(), kBytes); }
  urma_sge_t value() const { return piece(self->remote, self->in() + kBytes, sizeof(uint64_t)); }
  urma_cr_status_t status_of(const urma_sge_t& data, const urma_sge_t& value) {
    self->endpoint.post(request(data, value));
    return wait_for(self->endpoint.send_jfc).status;
  }
  bool untouched() const {
    return std::all_of(self->in(), self->in() + kHalf, [](char byte) { return byte == 0; });
  }
  void expect_done() {
    EXPECT_EQ(status_of(data(), value()), URMA_CR_SUCCESS);
    EXPECT_TRUE(self->arrived(kBytes));
    EXPECT_EQ(std::memcmp(self->in() + kBytes, &kValue, sizeof(kValue)), 0);
  }

  static constexpr size_t kBytes = 9000;
  static constexpr uint64_t kValue = 0x1122334455667788;
  Self* self;
  urma_sge_t here;
  urma_sge_t there[2];
};

TEST_P(NotifyTest, NothingIsWrittenIfOneAddressIsRefused) {
  run_one([](Channel&) {
    Self self;
    Notification notification(&self);
    std::vector<char> other(64);
    SegmentId wrong_token =
        self.endpoint.segment_id(self.endpoint.add(other.data(), other.size(), kAllAccess, 4711));
    wrong_token.token = 4712;
    urma_target_seg_t* read_only = self.endpoint.import(
        self.endpoint.segment_id(self.endpoint.add(other.data(), other.size(), URMA_ACCESS_READ)));
    const auto end = reinterpret_cast<uint64_t>(self.memory.data() + self.memory.size());
    const urma_sge_t refused[] = {
        piece(self.endpoint.import(wrong_token), other.data(), 8),
        piece(read_only, other.data(), 8),
        piece(self.remote, end - 7, 8),
        piece(self.remote, end, 8),
        piece(self.remote, self.in() - 8, 8),
    };
    for (const urma_sge_t& there : refused) {
      EXPECT_EQ(notification.status_of(notification.data(), there), URMA_CR_REM_ACCESS_ABORT_ERR);
      EXPECT_EQ(notification.status_of(there, notification.value()), URMA_CR_REM_ACCESS_ABORT_ERR);
      EXPECT_TRUE(notification.untouched());
    }
    EXPECT_EQ(other, std::vector<char>(64));
    notification.expect_done();
    self.endpoint.close();
  });
}

TEST_P(NotifyTest, NeedsASecondAddress) {
  run_one([](Channel&) {
    Self self;
    Notification notification(&self);
    urma_sge_t nowhere = notification.value();
    nowhere.tseg = nullptr;
    urma_sge_t registered = notification.value();
    registered.tseg = self.segment;
    urma_jfs_wr_t bad_ones[] = {notification.request(notification.data(), notification.value()),
                                notification.request(notification.data(), nowhere),
                                notification.request(notification.data(), registered)};
    bad_ones[0].rw.dst.num_sge = 1;
    for (urma_jfs_wr_t& wr : bad_ones) {
      notification.there[1] = &wr == &bad_ones[2] ? registered : nowhere;
      urma_jfs_wr_t* bad = nullptr;
      EXPECT_EQ(self.endpoint.post(&wr, &bad), URMA_EINVAL);
      EXPECT_EQ(bad, &wr);
    }
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
    EXPECT_TRUE(notification.untouched());
    notification.expect_done();
  });
}

// Inline data, and no data.
TEST_P(NotifyTest, DataMayBeInlineOrMissing) {
  run_one([](Channel&) {
    Self self;
    Notification notification(&self);
    char word[100];
    std::memset(word, 'x', sizeof(word));
    notification.here = piece(nullptr, word, sizeof(word));
    urma_jfs_wr_t wr = notification.request(notification.data(), notification.value());
    wr.flag.bs.inline_flag = 1;
    self.endpoint.post(wr);
    std::memset(word, 'y', sizeof(word));
    EXPECT_EQ(wait_for_success(self.endpoint.send_jfc, 1).completion_len, sizeof(word));
    EXPECT_EQ(std::string(self.in(), sizeof(word)), std::string(sizeof(word), 'x'));
    EXPECT_EQ(std::memcmp(notification.self->in() + Notification::kBytes, &Notification::kValue, 8),
              0);

    std::memset(self.in(), 0, kHalf);
    wr = notification.request(notification.data(), notification.value());
    wr.rw.src = {nullptr, 0};
    self.endpoint.post(wr);
    EXPECT_EQ(wait_for_success(self.endpoint.send_jfc, 1).completion_len, 0u);
    EXPECT_EQ(self.in()[0], 0);
    EXPECT_EQ(std::memcmp(notification.self->in() + Notification::kBytes, &Notification::kValue, 8),
              0);
  });
}

INSTANTIATE_TEST_SUITE_P(All, NotifyTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Mapped" : "Copied"; });

}  // namespace
}  // namespace urma_test
