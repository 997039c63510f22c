// SPDX-License-Identifier: MIT
//
// Section 2 of the list in docs/reference/conformance.md: two processes, each with one send queue
// and one receive queue, in every mode. Both do the same at the same time.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr std::array<uint32_t, 3> kSizes = {100, 200, 300};
constexpr uint32_t kRoom = 512;  // bytes of each buffer

struct Way {
  const char* name;
  urma_transport_mode_t mode;
  bool jetty;
};

constexpr Way kWays[] = {
    {"RmJetty", URMA_TM_RM, true},      {"RcJetty", URMA_TM_RC, true},
    {"UmJetty", URMA_TM_UM, true},      {"RmJfsAndJfr", URMA_TM_RM, false},
    {"UmJfsAndJfr", URMA_TM_UM, false},
};

// What a process tells the other one.
struct Introduction {
  urma_jetty_id_t receiver;
  urma_jetty_id_t sender;
  urma_seg_t segment;
};

// One of the two processes.
class Peer {
 public:
  Peer(Channel& channel, const Way& way) : channel_(channel), way_(way), endpoint_(config_of(way)) {
    memory_.fill('b');
    segment_ = endpoint_.add(memory_.data(), memory_.size());
    const Introduction mine = {way.jetty ? endpoint_.jetty->jetty_id : endpoint_.jfr->jfr_id,
                               way.jetty ? endpoint_.jetty->jetty_id : endpoint_.jfs->jfs_id,
                               segment_->seg};
    peer_ = channel.swap(mine);
    target_ = import(peer_.receiver);
    if (way.mode == URMA_TM_RC) endpoint_.bind(target_);
    remote_ = urma_import_seg(endpoint_.ctx, &peer_.segment, nullptr, 0, {});
    EXPECT_NE(remote_, nullptr);
    channel.sync();
  }

  void send_and_receive() {
    for (size_t i = 0; i < kSizes.size(); ++i) {
      endpoint_.post_receive(segment_, receive_buffer(i), kRoom, i);
      std::memset(send_buffer(i), 'A' + static_cast<int>(i), kRoom);
    }
    channel_.sync();
    for (size_t i = 0; i < kSizes.size(); ++i) {
      urma_sge_t sge = piece(segment_, send_buffer(i), kSizes[i]);
      endpoint_.post(send_request(target_, &sge, i));
    }
    for (size_t i = 0; i < kSizes.size(); ++i) check_sent(i);
    for (size_t i = 0; i < kSizes.size(); ++i) check_received(i);
    EXPECT_TRUE(has_nothing(endpoint_.send_jfc));
    EXPECT_TRUE(has_nothing(endpoint_.receive_jfc));
    channel_.sync();
  }

  void write() {
    for (size_t i = 0; i < kSizes.size(); ++i) {
      std::memset(receive_buffer(i), 'b', kRoom);
      std::memset(send_buffer(i), 'a', kRoom);
    }
    channel_.sync();
    for (size_t i = 0; i < kSizes.size(); ++i) {
      urma_sge_t local = piece(segment_, send_buffer(i), kSizes[i]);
      urma_sge_t remote = piece(remote_, peer_.segment.ubva.va + i * kRoom, kSizes[i]);
      endpoint_.post(write_request(target_, &local, &remote, 100 + i));
      check_sent(100 + i, i);
    }
    channel_.sync();
    for (size_t i = 0; i < kSizes.size(); ++i) expect_bytes(i, 'a', kSizes[i]);
    EXPECT_TRUE(has_nothing(endpoint_.receive_jfc));
    channel_.sync();
  }

  // Datagrams have no one-sided requests.
  void write_in_vain() {
    for (size_t i = 0; i < kSizes.size(); ++i) {
      std::memset(receive_buffer(i), 'b', kRoom);
      std::memset(send_buffer(i), 'a', kRoom);
    }
    channel_.sync();
    for (size_t i = 0; i < kSizes.size(); ++i) {
      urma_sge_t local = piece(segment_, send_buffer(i), kSizes[i]);
      urma_sge_t remote = piece(remote_, peer_.segment.ubva.va + i * kRoom, kSizes[i]);
      urma_jfs_wr_t wr = write_request(target_, &local, &remote, 100 + i), *bad = nullptr;
      EXPECT_EQ(endpoint_.post(&wr, &bad), URMA_EINVAL);
      EXPECT_EQ(bad, &wr);
    }
    channel_.sync();
    for (size_t i = 0; i < kSizes.size(); ++i) expect_bytes(i, 'b', 0);
    EXPECT_TRUE(has_nothing(endpoint_.send_jfc));
    channel_.sync();
  }

  void end() {
    if (way_.mode == URMA_TM_RC) {
      EXPECT_EQ(urma_unbind_jetty(endpoint_.jetty), URMA_SUCCESS);
    }
    channel_.sync();
    EXPECT_EQ(urma_unimport_seg(remote_), URMA_SUCCESS);
    EXPECT_EQ(way_.jetty ? urma_unimport_jetty(target_) : urma_unimport_jfr(target_), URMA_SUCCESS);
    endpoint_.close();
  }

 private:
  static Config config_of(const Way& way) {
    Config config;
    config.mode = way.mode;
    config.jetty = way.jetty;
    return config;
  }

  urma_target_jetty_t* import(const urma_jetty_id_t& id) const {
    urma_token_t token = {};
    const urma_tp_type_t tp_type = way_.mode == URMA_TM_UM ? URMA_UTP : URMA_RTP;
    urma_target_jetty_t* target;
    if (way_.jetty) {
      urma_rjetty_t remote = remote_jetty(id, way_.mode);
      remote.tp_type = tp_type;
      target = urma_import_jetty(endpoint_.ctx, &remote, &token);
    } else {
      urma_rjfr_t remote = remote_jfr(id, way_.mode);
      remote.tp_type = tp_type;
      target = urma_import_jfr(endpoint_.ctx, &remote, &token);
    }
    EXPECT_NE(target, nullptr);
    return target;
  }

  void check_sent(uint64_t user_ctx, size_t index) const {
    const urma_cr_t cr = wait_for_success(endpoint_.send_jfc, user_ctx);
    EXPECT_EQ(cr.flag.bs.s_r, 0);
    EXPECT_EQ(cr.flag.bs.jetty, way_.jetty ? 1 : 0);
    EXPECT_EQ(cr.local_id, endpoint_.sender_id());
    EXPECT_EQ(cr.completion_len, kSizes[index]);
    EXPECT_GT(static_cast<int>(cr.opcode), URMA_CR_OPC_FLUSH_WRITE);
  }
  void check_sent(size_t index) const { check_sent(index, index); }

  void check_received(size_t index) {
    const urma_cr_t cr = wait_for_success(endpoint_.receive_jfc, index);
    EXPECT_EQ(cr.opcode, URMA_CR_OPC_SEND);
    EXPECT_EQ(cr.flag.bs.s_r, 1);
    EXPECT_EQ(cr.local_id, endpoint_.receiver_id());
    if (way_.mode == URMA_TM_UM) {
      // Datagrams may overtake each other.
      const auto size = std::find(kSizes.begin(), kSizes.end(), cr.completion_len);
      ASSERT_NE(size, kSizes.end());
      expect_bytes(index, static_cast<char>('A' + (size - kSizes.begin())), *size);
      return;
    }
    EXPECT_EQ(cr.completion_len, kSizes[index]);
    EXPECT_EQ(cr.remote_id.id, peer_.sender.id);
    EXPECT_EQ(cr.remote_id.uasid, peer_.sender.uasid);
    expect_bytes(index, static_cast<char>('A' + static_cast<int>(index)), kSizes[index]);
  }

  // `bytes` bytes of a receive buffer have changed, and none after them.
  void expect_bytes(size_t index, char expected, uint32_t size) {
    const char* buffer = receive_buffer(index);
    for (uint32_t i = 0; i < kRoom; ++i) {
      const char wanted = i < size ? expected : 'b';
      if (buffer[i] == wanted) continue;
      ADD_FAILURE() << "byte " << i << " of buffer " << index << " is " << buffer[i] << ", not "
                    << wanted;
      return;
    }
  }

  char* receive_buffer(size_t index) { return memory_.data() + index * kRoom; }
  char* send_buffer(size_t index) { return memory_.data() + (kSizes.size() + index) * kRoom; }

  Channel& channel_;
  const Way& way_;
  Endpoint endpoint_;
  std::array<char, 2 * kSizes.size() * kRoom> memory_;
  urma_target_seg_t* segment_ = nullptr;
  Introduction peer_ = {};
  urma_target_jetty_t* target_ = nullptr;
  urma_target_seg_t* remote_ = nullptr;
};

class TwoProcesses : public ProcessTest, public testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    ProcessTest::SetUp();
    SKIP_WITHOUT(device_traits().has_mode(GetParam().mode), "this transport mode");
  }
};

TEST_P(TwoProcesses, S2_01_SendAndReceive) {
  const auto body = [](Channel& channel) {
    Peer peer(channel, GetParam());
    peer.send_and_receive();
    peer.end();
  };
  run_two("first", body, "second", body);
}

TEST_P(TwoProcesses, S2_02_Write) {
  const auto body = [](Channel& channel) {
    Peer peer(channel, GetParam());
    if (GetParam().mode == URMA_TM_UM) {
      peer.write_in_vain();
    } else {
      peer.write();
    }
    peer.end();
  };
  run_two("first", body, "second", body);
}

INSTANTIATE_TEST_SUITE_P(Modes, TwoProcesses, testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace urma_test
