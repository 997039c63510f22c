// SPDX-License-Identifier: MIT
//
// The effect of URMA_FAULT on programs that do not know of it.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/party.h"

namespace urma_test {
namespace {

using std::chrono::steady_clock;

class FaultTest : public ProcessTest {
 protected:
  // The verbs provider reads them for each context separately, see module_fault_test.
  void SetUp() override {
    const char* name = std::getenv("URMA_DEVICE");
    for (const char* other : {"urma_net", "urma_rocm", "urma_hsa"}) {
      if (name != nullptr && std::string_view(name).starts_with(other)) return;
    }
    if (!over_shared_memory())
      GTEST_SKIP() << "needs another device; set URMA_DEVICE to urma_shm0, urma_net0 or urma_rocm0";
  }
};

struct Sides {
  Config config;
  std::string faults;  // of the sender
};

// A sender with faults, and a receiver, which offers its whole buffer and stays until the sender is
// done.
void run_sides(const Sides& sides, const std::function<void(Party&, const Offer&)>& send,
               const std::function<void(Party&)>& prepare,
               const std::function<void(Party&)>& check) {
  run_two(
      "receiver",
      [&](Channel& peer) {
        Party party(sides.config);
        prepare(party);
        peer.send(offer_of(party.endpoint, party.segment));
        const auto other = peer.receive<QueueId>();
        if (sides.config.mode == URMA_TM_RC) party.endpoint.bind(party.endpoint.import(other));
        peer.sync();
        peer.sync();
        check(party);
      },
      "sender",
      [&](Channel& peer) {
        ASSERT_EQ(::setenv("URMA_FAULT", sides.faults.c_str(), 1), 0);
        Party party(sides.config);
        const Offer offer = peer.receive<Offer>();
        peer.send(party.endpoint.queue_id());
        peer.sync();
        send(party, offer);
        peer.sync();
      });
}

void nothing(Party&) {}

// A WRITE of eight bytes from the end of the own buffer to the beginning of the peer's.
struct Writer {
  Writer(Party& own, const Offer& offer)
      : party(own),
        queue(own.endpoint.import(offer.queue)),
        remote(own.endpoint.import(offer.segment)) {
    word() = 77;
  }
  uint64_t& word() { return *reinterpret_cast<uint64_t*>(party.memory.data() + kBufferSize); }
  void write(uint64_t user_ctx) {
    urma_sge_t here = piece(party.segment, &word(), 8);
    urma_sge_t there = piece(remote, remote->seg.ubva.va, 8);
    party.endpoint.post(write_request(queue, &here, &there, user_ctx));
  }
  void read(uint64_t user_ctx) {
    urma_sge_t here = piece(party.segment, &word(), 8);
    urma_sge_t there = piece(remote, remote->seg.ubva.va, 8);
    party.endpoint.post(read_request(queue, &here, &there, user_ctx));
  }
  void message(uint64_t user_ctx) {
    urma_sge_t here = piece(party.segment, &word(), 8);
    party.endpoint.post(send_request(queue, &here, user_ctx));
  }
  urma_jfc_t* jfc() const { return party.endpoint.send_jfc; }

  Party& party;
  urma_target_jetty_t* queue;
  urma_target_seg_t* remote;
};

uint64_t first_word(const Party& party) {
  return *reinterpret_cast<const uint64_t*>(party.memory.data());
}

urma_async_event_t expect_event(Endpoint& endpoint, urma_async_event_type_t type) {
  urma_async_event_t event = {};
  EXPECT_EQ(urma_get_async_event(endpoint.ctx, &event), URMA_SUCCESS);
  EXPECT_EQ(event.event_type, type);
  EXPECT_EQ(event.urma_ctx, endpoint.ctx);
  return event;
}

urma_port_state_t port_state(const Endpoint& endpoint) {
  urma_device_attr_t attr;
  EXPECT_EQ(urma_query_device(endpoint.ctx->dev, &attr), URMA_SUCCESS);
  return attr.port_attr[0].state;
}

TEST_F(FaultTest, DelayHoldsARequestBack) {
  run_sides(
      {{}, "delay:ms=60,op=read,after=1,count=1"},
      [](Party& party, const Offer& offer) {
        Writer writer(party, offer);
        writer.read(1);
        wait_for_success(writer.jfc(), 1);
        const auto start = steady_clock::now();
        writer.read(2);
        wait_for_success(writer.jfc(), 2);
        EXPECT_GE(steady_clock::now() - start, milliseconds(60));
      },
      nothing, nothing);
}

// Also when no one polls and the program sleeps.
TEST_F(FaultTest, DelayEndsWhileTheProgramSleeps) {
  Config config;
  config.events = true;
  run_sides(
      {config, "delay:ms=30"},
      [](Party& party, const Offer& offer) {
        Writer writer(party, offer);
        ASSERT_EQ(urma_rearm_jfc(writer.jfc(), false), URMA_SUCCESS);
        writer.write(1);
        urma_jfc_t* jfc = nullptr;
        ASSERT_EQ(urma_wait_jfc(party.endpoint.jfce, 1, 10'000, &jfc), 1);
        EXPECT_EQ(jfc, writer.jfc());
        wait_for_success(jfc, 1);
        uint32_t one = 1;
        urma_ack_jfc(&jfc, &one, 1);
      },
      nothing, [](Party& party) { EXPECT_EQ(first_word(party), 77u); });
}

TEST_F(FaultTest, RnrFailsOneMessage) {
  run_sides(
      {{}, "rnr:after=1,count=1"},
      [](Party& party, const Offer& offer) {
        Writer writer(party, offer);
        for (uint64_t i = 1; i <= 3; ++i) writer.message(i);
        wait_for_success(writer.jfc(), 1);
        const urma_cr_t record = wait_for(writer.jfc());
        EXPECT_EQ(record.status, URMA_CR_RNR_RETRY_CNT_EXC_ERR);
        EXPECT_EQ(record.user_ctx, 2u);
        wait_for_success(writer.jfc(), 3);
        // Affects messages only.
        writer.write(4);
        wait_for_success(writer.jfc(), 4);
      },
      [](Party& party) {
        for (uint64_t i = 1; i <= 3; ++i) party.post_receive(i);
      },
      [](Party& party) {
        wait_for_success(party.endpoint.receive_jfc, 1);
        wait_for_success(party.endpoint.receive_jfc, 2);
        EXPECT_TRUE(has_nothing(party.endpoint.receive_jfc));
      });
}

TEST_F(FaultTest, WrongTokenMovesNothing) {
  run_sides(
      {{}, "token:count=1"},
      [](Party& party, const Offer& offer) {
        Writer writer(party, offer);
        writer.write(1);
        wait_for_status(writer.jfc(), URMA_CR_REM_ACCESS_ABORT_ERR);
        writer.word() = 0;
        writer.read(2);
        wait_for_success(writer.jfc(), 2);
        EXPECT_EQ(writer.word(), 5u);
      },
      [](Party& party) { *reinterpret_cast<uint64_t*>(party.memory.data()) = 5; }, nothing);
}

TEST_F(FaultTest, DroppedPeerIsFoundAgain) {
  run_sides(
      {{}, "drop:after=1,count=1"},
      [](Party& party, const Offer& offer) {
        Writer writer(party, offer);
        writer.write(1);
        wait_for_success(writer.jfc(), 1);
        writer.write(2);
        wait_for_status(writer.jfc(), URMA_CR_ACK_TIMEOUT_ERR);
        writer.word() = 78;
        writer.write(3);
        wait_for_success(writer.jfc(), 3);
      },
      nothing, [](Party& party) { EXPECT_EQ(first_word(party), 78u); });
}

void bind_and_send_first(Party& party, const Offer& offer) {
  party.endpoint.bind(party.endpoint.import(offer.queue));
  party.send(8, 1);
  wait_for_success(party.endpoint.send_jfc, 1);
}

TEST_F(FaultTest, DroppedPeerOfABoundJettyIsAnEvent) {
  run_sides(
      {rc_config(), "drop:after=1,count=1"},
      [](Party& party, const Offer& offer) {
        bind_and_send_first(party, offer);
        party.send(8, 2);
        wait_for_status(party.endpoint.send_jfc, URMA_CR_ACK_TIMEOUT_ERR);
        urma_async_event_t event = expect_event(party.endpoint, URMA_EVENT_JETTY_ERR);
        EXPECT_EQ(event.element.jetty, party.endpoint.jetty);
        urma_jetty_cfg_t cfg;
        urma_jetty_attr_t attr;
        EXPECT_EQ(urma_query_jetty(party.endpoint.jetty, &cfg, &attr), URMA_SUCCESS);
        EXPECT_EQ(attr.state, URMA_JETTY_STATE_ERROR);
        urma_ack_async_event(&event);
      },
      [](Party& party) { party.post_receive(1); }, nothing);
}

// As over a connection that really breaks.
TEST_F(FaultTest, NothingFollowsADroppedRequestOfABoundJetty) {
  constexpr uint64_t kLast = 9;
  run_sides(
      {rc_config(), "drop:after=1,count=1"},
      [](Party& party, const Offer& offer) {
        bind_and_send_first(party, offer);
        for (uint64_t i = 2; i <= kLast; ++i) party.send(8, i);
        for (uint64_t i = 2; i <= kLast;) {
          const urma_cr_t cr = wait_for(party.endpoint.send_jfc);
          EXPECT_NE(cr.status, URMA_CR_SUCCESS);
          // The jetty fails meanwhile, so its marker comes anywhere.
          if (cr.status == URMA_CR_WR_FLUSH_ERR_DONE) continue;
          EXPECT_EQ(cr.user_ctx, i++);
        }
        // Nor while the connection ends.
        urma_cr_status_t status;
        do {
          party.send(8, kLast);
          status = wait_for(party.endpoint.send_jfc).status;
          EXPECT_NE(status, URMA_CR_SUCCESS);
        } while (status == URMA_CR_ACK_TIMEOUT_ERR);
      },
      [](Party& party) {
        for (uint64_t i = 1; i <= kLast; ++i) party.post_receive(i);
      },
      [](Party& party) {
        wait_for_success(party.endpoint.receive_jfc, 1);
        EXPECT_TRUE(has_nothing(party.endpoint.receive_jfc));
      });
}

TEST_F(FaultTest, JfcOverflowIsAnEvent) {
  run_sides(
      {{}, "jfc:after=1"},
      [](Party& party, const Offer& offer) {
        Writer writer(party, offer);
        for (uint64_t i = 1; i <= 3; ++i) {
          writer.write(i);
          wait_for_success(writer.jfc(), i);
        }
        urma_async_event_t event = expect_event(party.endpoint, URMA_EVENT_JFC_ERR);
        EXPECT_EQ(event.element.jfc, writer.jfc());
        urma_ack_async_event(&event);
      },
      nothing, nothing);
}

// An unacknowledged event holds up the end of its queue.
TEST_F(FaultTest, FailedJfsIsInErrorAndStaysUntilAcknowledged) {
  Config config;
  config.jetty = false;
  run_sides(
      {config, "queue:after=1,count=1"},
      [](Party& party, const Offer& offer) {
        Writer writer(party, offer);
        urma_jfs_cfg_t cfg = party.endpoint.jfs->jfs_cfg;
        cfg.flag.bs.non_blocking = 1;
        urma_jfs_t* jfs = urma_create_jfs(party.endpoint.ctx, &cfg);
        ASSERT_NE(jfs, nullptr);
        for (uint64_t i = 1; i <= 2; ++i) {
          EXPECT_EQ(urma_write(jfs, writer.queue, writer.remote, party.segment,
                               writer.remote->seg.ubva.va,
                               reinterpret_cast<uint64_t>(&writer.word()), 8, {.value = 0}, i),
                    URMA_SUCCESS);
        }
        urma_async_event_t event = expect_event(party.endpoint, URMA_EVENT_JFS_ERR);
        EXPECT_EQ(event.element.jfs, jfs);
        urma_jfs_attr_t attr;
        EXPECT_EQ(urma_query_jfs(jfs, &cfg, &attr), URMA_SUCCESS);
        EXPECT_EQ(attr.state, URMA_JETTY_STATE_ERROR);
        EXPECT_EQ(urma_delete_jfs(jfs), URMA_EAGAIN);
        urma_ack_async_event(&event);
        EXPECT_EQ(urma_delete_jfs(jfs), URMA_SUCCESS);
      },
      nothing, nothing);
}

TEST_F(FaultTest, FailedJettyFlushesAndRecovers) {
  run_sides(
      {{}, "queue:count=1"},
      [](Party& party, const Offer& offer) {
        Writer writer(party, offer);
        writer.message(1);
        urma_async_event_t event = expect_event(party.endpoint, URMA_EVENT_JETTY_ERR);
        EXPECT_EQ(event.element.jetty, party.endpoint.jetty);
        urma_ack_async_event(&event);
        writer.message(2);
        // The first message may have been received before.
        const urma_cr_t first = wait_for(writer.jfc());
        EXPECT_TRUE(first.status == URMA_CR_SUCCESS || first.status == URMA_CR_WR_FLUSH_ERR);
        EXPECT_EQ(first.user_ctx, 1u);
        wait_for_status(writer.jfc(), URMA_CR_WR_FLUSH_ERR_DONE);
        wait_for_status(writer.jfc(), URMA_CR_WR_FLUSH_ERR);
        urma_jetty_attr_t attr = {JETTY_STATE, 0, URMA_JETTY_STATE_READY};
        ASSERT_EQ(urma_modify_jetty(party.endpoint.jetty, &attr), URMA_SUCCESS);
        writer.write(3);
        wait_for_success(writer.jfc(), 3);
      },
      [](Party& party) { party.post_receive(1); }, nothing);
}

TEST_F(FaultTest, FailedJfrReturnsItsReceives) {
  run_one([](Channel&) {
    ASSERT_EQ(::setenv("URMA_FAULT", "jfr:after=1,count=1", 1), 0);
    Party party{Config()};
    urma_jfr_cfg_t cfg = party.endpoint.jfr->jfr_cfg;
    cfg.id = 0;
    cfg.flag.bs.non_blocking = 1;
    urma_jfr_t* jfr = urma_create_jfr(party.endpoint.ctx, &cfg);
    ASSERT_NE(jfr, nullptr);
    for (uint64_t i = 1; i <= 2; ++i) {
      ASSERT_EQ(
          urma_recv(jfr, party.segment, reinterpret_cast<uint64_t>(party.memory.data()), 8, i),
          URMA_SUCCESS);
    }
    urma_async_event_t event = expect_event(party.endpoint, URMA_EVENT_JFR_ERR);
    EXPECT_EQ(event.element.jfr, jfr);
    for (uint64_t i = 1; i <= 2; ++i) {
      const urma_cr_t record = wait_for(party.endpoint.receive_jfc);
      EXPECT_EQ(record.status, URMA_CR_WR_FLUSH_ERR);
      EXPECT_EQ(record.user_ctx, i);
    }
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_EAGAIN);
    urma_ack_async_event(&event);
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
  });
}

TEST_F(FaultTest, PortStaysDown) {
  run_sides(
      {{}, "port:at=20"},
      [](Party& party, const Offer& offer) {
        Writer writer(party, offer);
        EXPECT_EQ(expect_event(party.endpoint, URMA_EVENT_PORT_DOWN).element.port_id, 0u);
        EXPECT_EQ(port_state(party.endpoint), URMA_PORT_DOWN);
        writer.write(1);
        wait_for_status(writer.jfc(), URMA_CR_ACK_TIMEOUT_ERR);
      },
      nothing, [](Party& party) { EXPECT_EQ(first_word(party), 0u); });
}

// The time in between depends on the machine.
TEST_F(FaultTest, PortGoesDownAndUpAgain) {
  run_sides(
      {{}, "port:at=20,for=50"},
      [](Party& party, const Offer& offer) {
        Writer writer(party, offer);
        EXPECT_EQ(expect_event(party.endpoint, URMA_EVENT_PORT_DOWN).element.port_id, 0u);
        EXPECT_EQ(expect_event(party.endpoint, URMA_EVENT_PORT_ACTIVE).element.port_id, 0u);
        EXPECT_EQ(port_state(party.endpoint), URMA_PORT_ACTIVE);
        writer.write(1);
        wait_for_success(writer.jfc(), 1);
      },
      nothing, [](Party& party) { EXPECT_EQ(first_word(party), 77u); });
}

void set_port(Endpoint& endpoint, const char* state, urma_async_event_type_t becomes) {
  const std::string folder = std::string(std::getenv("URMA_RUNTIME_DIR")) + "/class/ubcore/";
  std::ofstream(folder + endpoint.ctx->dev->name + "/port0/state") << state << std::endl;
  urma_async_event_t event = expect_event(endpoint, becomes);
  urma_ack_async_event(&event);
}

// Its owner answers later; the next one is not taken for answered by that.
TEST_F(FaultTest, AnAtomicThatAPortEndsIsForgotten) {
  const char* const device = std::getenv("URMA_DEVICE");
  if (device != nullptr && !std::string_view(device).starts_with("urma_shm")) {
    GTEST_SKIP() << "needs owners that execute atomics, and one port; set URMA_DEVICE=urma_shm0";
  }
  Child owner("owner", [](Channel& parent) {
    ::setenv("URMA_SHM_INPLACE", "0", 1);
    Party party{Config{}};
    parent.send(offer_of(party.endpoint, party.segment));
    parent.receive<char>();
    EXPECT_EQ(first_word(party), 111U);
  });
  Child sender("sender", [](Channel& parent) {
    ::setenv("URMA_FAULT", "delay:ms=1,after=1000000000", 1);
    Party party{Config{}};
    Writer writer(party, parent.receive<Offer>());
    const auto add = [&](uint64_t number) {
      urma_sge_t here = piece(party.segment, &writer.word(), 8);
      urma_sge_t there = piece(writer.remote, writer.remote->seg.ubva.va, 8);
      party.endpoint.post(add_request(writer.queue, &here, &there, number));
    };
    add(1);
    wait_for_success(writer.jfc(), 0);
    parent.sync();
    add(10);
    EXPECT_TRUE(has_nothing(writer.jfc()));
    set_port(party.endpoint, "1", URMA_EVENT_PORT_DOWN);
    wait_for_status(writer.jfc(), URMA_CR_ACK_TIMEOUT_ERR);
    set_port(party.endpoint, "4", URMA_EVENT_PORT_ACTIVE);
    add(100);
    parent.sync();
    wait_for_success(writer.jfc(), 0);
    EXPECT_EQ(writer.word(), 11U) << "what it found";
  });
  sender.channel().send(owner.channel().receive<Offer>());
  sender.channel().receive<char>();
  owner.stop();
  sender.channel().send('s');
  sender.channel().receive<char>();
  ::kill(owner.pid(), SIGCONT);
  sender.channel().send('c');
  sender.expect_success();
  owner.channel().send('e');
  owner.expect_success();
}

TEST_F(FaultTest, EidAndDeviceFaultsRaiseEvents) {
  run_sides(
      {{}, "eid:index=1;fatal:at=20"},
      [](Party& party, const Offer& offer) {
        Writer writer(party, offer);
        EXPECT_EQ(expect_event(party.endpoint, URMA_EVENT_EID_CHANGE).element.eid_idx, 1u);
        expect_event(party.endpoint, URMA_EVENT_DEV_FATAL);
        writer.write(1);
        wait_for_status(writer.jfc(), URMA_CR_LOC_OPERATION_ERR);
        writer.message(2);
        wait_for_status(writer.jfc(), URMA_CR_LOC_OPERATION_ERR);
      },
      nothing, [](Party& party) { EXPECT_EQ(first_word(party), 0u); });
}

// The same request numbers each time.
TEST_F(FaultTest, SameSeedHitsTheSameRequests) {
  constexpr int kRequests = 200;
  std::string first, second, other;
  for (auto [seed, seen] : {std::pair{1, &first}, {1, &second}, {2, &other}}) {
    const std::string faults = "seed=" + std::to_string(seed) + ";token:p=20";
    Child child("sender", [&](Channel& test) {
      ASSERT_EQ(::setenv("URMA_FAULT", faults.c_str(), 1), 0);
      Party party{Config()};
      Writer writer(party, {party.endpoint.queue_id(), party.endpoint.segment_id(party.segment)});
      for (uint64_t i = 0; i < kRequests; ++i) {
        writer.write(i);
        test.send(wait_for(writer.jfc()).status);
      }
    });
    for (int i = 0; i < kRequests; ++i) {
      const auto status = child.channel().receive<urma_cr_status_t>();
      EXPECT_TRUE(status == URMA_CR_SUCCESS || status == URMA_CR_REM_ACCESS_ABORT_ERR);
      *seen += status == URMA_CR_SUCCESS ? '.' : 'x';
    }
    child.expect_success();
  }
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
  EXPECT_NE(first.find('x'), std::string::npos);
  EXPECT_NE(first.find('.'), std::string::npos);
}

TEST_F(FaultTest, InvalidPlanHasNoEffect) {
  run_sides(
      {{}, "token;drop:p=often"},
      [](Party& party, const Offer& offer) {
        Writer writer(party, offer);
        writer.write(1);
        wait_for_success(writer.jfc(), 1);
      },
      nothing, [](Party& party) { EXPECT_EQ(first_word(party), 77u); });
}

// The limit of a jetty with a shared JFR, and the limit of the JFR itself.
TEST_F(FaultTest, LimitOfAJettyIsReportedOnceToItAlone) {
  run_one([](Channel&) {
    Party party{Config()};
    Endpoint& endpoint = party.endpoint;
    urma_jetty_t* other = party.add_jetty();
    for (uint64_t i = 0; i < 4; ++i) party.post_receive(i);
    urma_jetty_attr_t attr = {JETTY_STATE | JETTY_RX_THRESHOLD, endpoint.config.receive_depth + 1,
                              URMA_JETTY_STATE_READY};
    EXPECT_EQ(urma_modify_jetty(other, &attr), URMA_EINVAL);
    attr.rx_threshold = 3;
    EXPECT_EQ(urma_modify_jetty(other, &attr), URMA_SUCCESS);
    urma_jfr_attr_t jfr_attr = {JFR_RX_THRESHOLD, 4, URMA_JFR_STATE_READY};
    EXPECT_EQ(urma_modify_jfr(endpoint.jfr, &jfr_attr), URMA_SUCCESS);
    urma_jetty_cfg_t cfg;
    EXPECT_EQ(urma_query_jetty(other, &cfg, &attr), URMA_SUCCESS);
    EXPECT_EQ(attr.rx_threshold, 3u);
    urma_target_jetty_t* self = party.import(endpoint.jetty->jetty_id.id);
    const auto receive_one = [&](uint64_t i) {
      urma_sge_t data = piece(party.segment, party.memory.data() + kBufferSize, 8);
      endpoint.post(send_request(self, &data, i));
      wait_for_success(endpoint.receive_jfc, i);
      wait_for_success(endpoint.send_jfc, i);
    };
    receive_one(0);
    urma_async_event_t event = expect_event(endpoint, URMA_EVENT_JFR_LIMIT);
    EXPECT_EQ(event.element.jfr, endpoint.jfr);
    urma_ack_async_event(&event);
    receive_one(1);
    event = expect_event(endpoint, URMA_EVENT_JETTY_LIMIT);
    EXPECT_EQ(event.element.jetty, other);
    EXPECT_EQ(urma_query_jetty(other, &cfg, &attr), URMA_SUCCESS);
    EXPECT_EQ(attr.rx_threshold, 0u);
    urma_ack_async_event(&event);
    // A jetty that is deleted takes its limit along.
    attr = {JETTY_STATE | JETTY_RX_THRESHOLD, 2, URMA_JETTY_STATE_READY};
    EXPECT_EQ(urma_modify_jetty(other, &attr), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jetty(other), URMA_SUCCESS);
    party.more.clear();
    receive_one(2);
    receive_one(3);
  });
}

}  // namespace
}  // namespace urma_test
