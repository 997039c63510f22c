// SPDX-License-Identifier: MIT
//
// urma_cas, urma_faa and urma_fao between processes, on memory registered under the access names
// of the specification.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "urma_ext.h"
#include "urma_legacy.h"

namespace urma_test {
namespace {

constexpr uint64_t kStart = 0xffff'ffff'0000'0001;

Config send_queue() {
  Config config;
  config.jetty = false;
  return config;
}

// A process that runs atomics on the words of another one.
class Caller {
 public:
  explicit Caller(const Offer& offer)
      : queue_(endpoint_.import(offer.queue)),
        remote_(endpoint_.import(offer.segment)),
        local_(endpoint_.add(old_.data(), sizeof(old_))) {}

  uint64_t at(uint64_t offset) const { return remote_->seg.ubva.va + offset; }
  uint64_t here() const { return reinterpret_cast<uint64_t>(old_.data()); }
  urma_status_t cas(uint64_t offset, uint32_t bytes, uint64_t compare, uint64_t swap,
                    uint64_t user_ctx) {
    return urma_cas(endpoint_.jfs, queue_, remote_, local_, at(offset), here(), bytes, compare,
                    swap, {}, user_ctx);
  }
  template <typename Call>
  urma_status_t add(Call call, uint64_t offset, uint32_t bytes, uint64_t operand,
                    uint64_t user_ctx) {
    return call(endpoint_.jfs, queue_, remote_, local_, at(offset), here(), bytes, operand,
                urma_jfs_wr_flag_t{}, user_ctx);
  }
  uint64_t old() const { return old_[0]; }
  urma_jfc_t* jfc() { return endpoint_.send_jfc; }
  void close() { endpoint_.close(); }

 private:
  Endpoint endpoint_{send_queue()};
  urma_target_jetty_t* queue_;
  urma_target_seg_t* remote_;
  alignas(16) std::array<uint64_t, 2> old_ = {};
  urma_target_seg_t* local_;
};

void own(Channel& peer, uint32_t access) {
  Endpoint endpoint(send_queue());
  alignas(4096) static std::array<uint64_t, 512> words = {};
  words[0] = words[1] = kStart;
  urma_target_seg_t* segment = endpoint.add(words.data(), sizeof(words), access);
  peer.send(offer_of(endpoint, segment));
  peer.sync();
  peer.send(words[0]);
  peer.send(words[1]);
  peer.sync();
  endpoint.close();
}

class FlatAtomicsTest : public ProcessTest {};

TEST_F(FlatAtomicsTest, ChangeThePeersWordsAndAlwaysComplete) {
  run_two(
      "owner",
      [](Channel& peer) { own(peer, URMA_ACCESS_LOCAL_WRITE | URMA_ACCESS_REMOTE_ATOMIC); },
      "caller",
      [](Channel& peer) {
        Caller caller(peer.receive<Offer>());
        // No flag asks for a completion record.
        ASSERT_EQ(caller.cas(0, 8, kStart, 5, 1), URMA_SUCCESS);
        wait_for_success(caller.jfc(), 1);
        EXPECT_EQ(caller.old(), kStart);
        ASSERT_EQ(caller.cas(0, 8, kStart, 6, 2), URMA_SUCCESS);
        wait_for_success(caller.jfc(), 2);
        EXPECT_EQ(caller.old(), 5u);
        ASSERT_EQ(caller.add(urma_faa, 0, 8, 10, 3), URMA_SUCCESS);
        wait_for_success(caller.jfc(), 3);
        EXPECT_EQ(caller.old(), 5u);
        ASSERT_EQ(caller.add(urma_fao, 0, 8, 100, 4), URMA_SUCCESS);
        wait_for_success(caller.jfc(), 4);
        EXPECT_EQ(caller.old(), 15u);
        EXPECT_TRUE(has_nothing(caller.jfc()));
        peer.sync();
        EXPECT_EQ(peer.receive<uint64_t>(), 115u);
        EXPECT_EQ(peer.receive<uint64_t>(), kStart);
        peer.sync();
        caller.close();
      });
}

TEST_F(FlatAtomicsTest, OfFourBytesChangeNoOtherBytes) {
  run_two(
      "owner",
      [](Channel& peer) { own(peer, URMA_ACCESS_LOCAL_WRITE | URMA_ACCESS_REMOTE_ATOMIC); },
      "caller",
      [](Channel& peer) {
        Caller caller(peer.receive<Offer>());
        ASSERT_EQ(caller.add(urma_faa, 8, 4, 0xffff'ffff, 1), URMA_SUCCESS);
        wait_for_success(caller.jfc(), 1);
        EXPECT_EQ(static_cast<uint32_t>(caller.old()), 1u);
        peer.sync();
        EXPECT_EQ(peer.receive<uint64_t>(), kStart);
        EXPECT_EQ(peer.receive<uint64_t>(), kStart - 1);
        peer.sync();
        caller.close();
      });
}

TEST_F(FlatAtomicsTest, NeedTheRightAndAWidth) {
  run_two(
      "owner", [](Channel& peer) { own(peer, URMA_ACCESS_LOCAL_WRITE | URMA_ACCESS_REMOTE_WRITE); },
      "caller",
      [](Channel& peer) {
        Caller caller(peer.receive<Offer>());
        EXPECT_EQ(caller.cas(0, 3, 0, 0, 1), URMA_EINVAL);
        ASSERT_EQ(caller.cas(0, 8, kStart, 5, 2), URMA_SUCCESS);
        wait_for_status(caller.jfc(), URMA_CR_REM_ACCESS_ABORT_ERR);
        ASSERT_EQ(caller.add(urma_faa, 0, 8, 5, 3), URMA_SUCCESS);
        wait_for_status(caller.jfc(), URMA_CR_REM_ACCESS_ABORT_ERR);
        peer.sync();
        EXPECT_EQ(peer.receive<uint64_t>(), kStart);
        EXPECT_EQ(peer.receive<uint64_t>(), kStart);
        peer.sync();
        caller.close();
      });
}

}  // namespace
}  // namespace urma_test
