// SPDX-License-Identifier: MIT
//
// Requests that name a segment by token id and token, without an import.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/owned.h"
#include "test/process/self.h"

namespace urma_test {
namespace {

constexpr uint32_t kToken = 0x5eed;
constexpr size_t kBytes = 20000;

// A segment of the process itself, reached by its token.
struct Named {
  explicit Named(const Config& config, uint32_t access = kAllAccess)
      : self(config), segment(self.endpoint.add(room.data(), room.size(), access, kToken)) {
    tseg.attr = segment->seg.attr;
    tseg.token_id = segment->seg.token_id;
    tseg.token_value.token = kToken;
  }

  urma_sge_t here(size_t bytes) { return piece(self.segment, self.out(), bytes); }
  urma_sge_t there(size_t offset, size_t bytes) {
    urma_sge_t sge = piece(nullptr, room.data() + offset, bytes);
    sge.user_tseg = &tseg;
    return sge;
  }
  urma_jfs_wr_t request(urma_opcode_t opcode, urma_sge_t* local, urma_sge_t* remote) {
    switch (opcode) {
      case URMA_OPC_WRITE_IMM:
        return write_imm_request(self.queue, local, remote, 7, 1);
      case URMA_OPC_WRITE_NOTIFY:
        return write_notify_request(self.queue, local, remote, 7, 1);
      case URMA_OPC_WRITE_ATOMIC:
        return write_atomic_request(self.queue, local, remote, 1);
      case URMA_OPC_READ:
        return read_request(self.queue, local, remote, 1);
      default:
        return write_request(self.queue, local, remote, 1);
    }
  }
  urma_cr_status_t status_of(urma_opcode_t opcode, size_t offset, size_t bytes) {
    urma_sge_t local = here(bytes), remote[] = {there(offset, bytes), there(kHalf - 8, 8)};
    self.endpoint.post(request(opcode, &local, remote));
    // The value at the time of posting.
    const urma_user_tseg_t meant = tseg;
    tseg.token_id = 0;
    const urma_cr_status_t status = wait_for(self.endpoint.send_jfc).status;
    tseg = meant;
    return status;
  }

  std::vector<char> room = std::vector<char>(kHalf);
  Self self;
  urma_target_seg_t* segment;
  urma_user_tseg_t tseg = {};
};

using Parameters = std::tuple<bool, bool>;
class UserSegmentTest : public ProcessTest, public testing::WithParamInterface<Parameters> {
 protected:
  UserSegmentTest() { ::setenv("URMA_SHM_INPLACE", std::get<0>(GetParam()) ? "1" : "0", 1); }
  static Config config() {
    Config config;
    config.mode = std::get<1>(GetParam()) ? URMA_TM_RC : URMA_TM_RM;
    return config;
  }
};

TEST_P(UserSegmentTest, ReadsAndWritesOfEveryKind) {
  run_one([](Channel&) {
    Named named(config());
    Self& self = named.self;
    for (int round = 0; round < 3; ++round) {
      for (const urma_opcode_t opcode :
           {URMA_OPC_WRITE, URMA_OPC_WRITE_IMM, URMA_OPC_WRITE_NOTIFY}) {
        std::memset(named.room.data(), 0, kHalf);
        if (opcode == URMA_OPC_WRITE_IMM) self.endpoint.post_receive(self.segment, self.in(), 8);
        EXPECT_EQ(named.status_of(opcode, 0, kBytes), URMA_CR_SUCCESS);
        EXPECT_EQ(std::memcmp(named.room.data(), self.out(), kBytes), 0);
        EXPECT_EQ(named.room[kBytes], 0);
        EXPECT_EQ(named.room[kHalf - 8], opcode == URMA_OPC_WRITE_NOTIFY ? 7 : 0);
      }
      wait_for_success(self.endpoint.receive_jfc, 0);
      const size_t aligned = 8208 - reinterpret_cast<uint64_t>(named.room.data()) % 16;
      EXPECT_EQ(named.status_of(URMA_OPC_WRITE_ATOMIC, aligned, 8), URMA_CR_SUCCESS);
      std::memset(named.room.data(), 'r', kHalf);
      EXPECT_EQ(named.status_of(URMA_OPC_READ, 1, kBytes), URMA_CR_SUCCESS);
      EXPECT_EQ(std::string(self.out(), kBytes), std::string(kBytes, 'r'));
      std::memset(self.out(), 'a' + round, kHalf);
    }
  });
}

TEST_P(UserSegmentTest, OnlyGrantedAccessSucceeds) {
  run_one([](Channel&) {
    Named named(config(), URMA_ACCESS_READ);
    const std::vector<char> before = named.room;
    const auto expect_refused = [&](urma_opcode_t opcode, size_t offset, size_t bytes) {
      EXPECT_EQ(named.status_of(opcode, offset, bytes), URMA_CR_REM_ACCESS_ABORT_ERR);
      EXPECT_EQ(named.room, before);
    };
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(named.status_of(URMA_OPC_READ, 0, 8), URMA_CR_SUCCESS);
      expect_refused(URMA_OPC_WRITE, 0, 8);
      expect_refused(URMA_OPC_WRITE_NOTIFY, 0, 8);
      expect_refused(URMA_OPC_READ, kHalf - 7, 8);
      expect_refused(URMA_OPC_READ, kHalf, 8);
      named.tseg.token_value.token = kToken + 1;
      expect_refused(URMA_OPC_READ, 0, 8);
      named.tseg.token_value.token = kToken;
      ++named.tseg.token_id;
      expect_refused(URMA_OPC_READ, 0, 8);
      --named.tseg.token_id;
    }
    named.self.endpoint.remove(named.segment);
    expect_refused(URMA_OPC_READ, 0, 8);
  });
}

// Each range has its own value and rights, imported or not.
TEST_P(UserSegmentTest, RangesOfOneTokenIdAreDistinguished) {
  constexpr uint32_t kRanges = 6, kEach = 4096;
  run_one([](Channel&) {
    Named named(config());
    Self& self = named.self;
    const Pages pages(kRanges * kEach);
    const OwnedTokenId token_id = urma_alloc_token_id(self.endpoint.ctx);
    std::vector<urma_target_seg_t*> segments;
    for (uint32_t i = 0; i < kRanges; ++i) {
      segments.push_back(
          add_under(self.endpoint, token_id, kToken + i, pages.get() + i * kEach, kEach));
    }
    named.tseg.token_id = token_id->token_id;
    urma_sge_t here = named.here(8);
    for (uint32_t i = 0; i < kRanges; ++i) {
      for (uint32_t value = 0; value < kRanges; ++value) {
        named.tseg.token_value.token = kToken + value;
        SegmentId id = self.endpoint.segment_id(segments[i], kToken + value);
        urma_target_seg_t* imported = self.endpoint.import(id);
        const urma_cr_status_t expected =
            i == value ? URMA_CR_SUCCESS : URMA_CR_REM_ACCESS_ABORT_ERR;
        const char* const end = pages.get() + (i + 1) * kEach;
        // The last address is in two ranges.
        for (const char* at : {end - kEach, end - 8, end - 4}) {
          for (urma_target_seg_t* tseg : {imported, static_cast<urma_target_seg_t*>(nullptr)}) {
            urma_sge_t there = piece(tseg, at, 8);
            there.user_tseg = &named.tseg;
            self.endpoint.post(write_request(self.queue, &here, &there));
            EXPECT_EQ(wait_for(self.endpoint.send_jfc).status,
                      at == end - 4 ? URMA_CR_REM_ACCESS_ABORT_ERR : expected);
          }
        }
        self.endpoint.unimport(imported);
      }
    }
    for (urma_target_seg_t* segment : segments) {
      EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
    }
  });
}

TEST_P(UserSegmentTest, OnlyRemoteReadsAndWritesTakeIt) {
  run_one([](Channel&) {
    Named named(config());
    Self& self = named.self;
    urma_sge_t here = named.here(8), there = named.there(0, 8);
    urma_jfs_wr_t refused[] = {cas_request(self.queue, &here, &there, 0, 1),
                               fetch_request(URMA_OPC_SWAP, self.queue, &here, &there, 1),
                               add_request(self.queue, &here, &there, 1),
                               write_request(self.queue, &there, &there),
                               read_request(self.queue, &there, &there),
                               send_request(self.queue, &there)};
    for (urma_jfs_wr_t& wr : refused) {
      urma_jfs_wr_t* bad = nullptr;
      EXPECT_EQ(self.endpoint.post(&wr, &bad), URMA_EINVAL);
      EXPECT_EQ(bad, &wr);
    }
    EXPECT_TRUE(has_nothing(self.endpoint.send_jfc));
    EXPECT_EQ(named.status_of(URMA_OPC_WRITE, 0, 8), URMA_CR_SUCCESS);
  });
}

// Each of them asks the owner, who gives the same answer each time.
TEST_P(UserSegmentTest, RefusedRequestsLeakNothing) {
  run_one([](Channel&) {
    Named named(config(), URMA_ACCESS_READ);
    const auto refuse = [&](int times) {
      for (int i = 0; i < times; ++i) {
        ASSERT_EQ(named.status_of(URMA_OPC_WRITE, 0, 8), URMA_CR_REM_ACCESS_ABORT_ERR);
      }
      // Waits for what the owner has yet to say about a mapping.
      ASSERT_EQ(named.status_of(URMA_OPC_READ, 0, 8), URMA_CR_SUCCESS);
    };
    refuse(16);
    const int areas = memfd_areas();
    const size_t heap = ::mallinfo2().uordblks;
    refuse(2000);
    EXPECT_EQ(memfd_areas(), areas);
    // Eight bytes per request: less than any leak.
    EXPECT_LT(::mallinfo2().uordblks, heap + 16000);
  });
}

INSTANTIATE_TEST_SUITE_P(All, UserSegmentTest, testing::Combine(testing::Bool(), testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "Mapped" : "Copied") +
                                  (std::get<1>(info.param) ? "Rc" : "Rm");
                         });

}  // namespace
}  // namespace urma_test
