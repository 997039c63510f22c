// SPDX-License-Identifier: MIT
//
// How iWARP connections are made, refused, given up and lost.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "test/verbs/cm_ends.h"
#include "urma/base/error.h"

namespace urma::verbs {
namespace {

constexpr uint64_t kLong = 60'000'000'000;
// Long enough for a call to begin on a busy machine.
constexpr uint64_t kShort = 200'000'000;

class CmTest : public testing::Test {
 protected:
  CmTest() {
    for (const uint8_t host : {1, 2, 3}) fake_.add_device(CmEnd::options_of(host));
  }
  // The second host may have a shorter timeout than the others, which must connect first.
  void open(uint64_t patience_ns = kLong, uint64_t patience_of_second_ns = 0) {
    if (patience_of_second_ns == 0) patience_of_second_ns = patience_ns;
    for (const uint8_t host : {1, 2, 3}) {
      ends_[host] = std::make_unique<CmEnd>(&service_, fake_.api(), host,
                                            host == 2 ? patience_of_second_ns : patience_ns);
    }
    closed_before_ = fake_.calls("destroy_qp");
  }
  // Queue pairs returned to the device since then.
  uint64_t closed() const { return fake_.calls("destroy_qp") - closed_before_; }
  CmEnd& end(uint8_t host) { return *ends_[host]; }

  ConnectRequest request_of(CmEnd& from, const CmEnd& to, uint64_t connection) {
    ConnectRequest request = {};
    request.connection = connection;
    request.source.eid = from.config.eid;
    request.end = from.pair->address();
    request.target.eid = to.config.eid;
    request.target.id = 5;
    return request;
  }
  // What the control messages do: `to` expects the call, and `from` is told so.
  ConnectRequest agree(CmEnd& from, CmEnd& to, uint64_t connection = 1) {
    const ConnectRequest request = request_of(from, to, connection);
    to.acceptor->expect(from.ref(), request, to.pair->address(), to.pair);
    from.asking.answer = {Answer::kAccepted, {}, to.nonce};
    from.asking.answer.reply.end = to.pair->address();
    from.asking.answer.reply.cm_port = to.acceptor->port();
    return request;
  }
  void call(CmEnd& from, const ConnectRequest& request) {
    from.connector->connect(from.pair, request,
                            [this](const ConnectAnswer& answer) { answers_.push_back(answer); });
  }
  // The first host calls the second, whose sign comes with release_signs().
  void call_without_sign() {
    end(1).asking.gives_sign = false;
    call(end(1), agree(end(1), end(2)));
    run_until([this] { return end(1).asking.signs.size() == 1; });
  }
  template <typename Condition>
  void run_until(Condition condition) {
    const uint64_t deadline = monotonic_ns() + 20'000'000'000;
    while (!condition() && monotonic_ns() < deadline) {
      if (!service_.turn()) std::this_thread::yield();
    }
    ASSERT_TRUE(condition());
  }
  Answer answer() {
    run_until([this] { return !answers_.empty(); });
    service_.settle();
    EXPECT_EQ(answers_.size(), 1U);
    return answers_.empty() ? Answer::kMalformed : std::exchange(answers_, {}).front().answer;
  }
  ibv_qp_state state_of(const QueuePair& pair) {
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init = {};
    EXPECT_EQ(fake_.api()->query_qp(pair.handle(), &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
  }
  // Whether something that one end writes is confirmed.
  bool leads_through(const CmEnd& from) {
    ibv_send_wr nothing = {};
    nothing.opcode = IBV_WR_RDMA_WRITE;
    nothing.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    if (fake_.api()->post_send(from.pair->handle(), &nothing, &bad) != 0) return false;
    ibv_wc completion;
    return from.pump->poll(&completion, 1) == 1 && completion.status == IBV_WC_SUCCESS;
  }

  FakeVerbs fake_;
  uint64_t closed_before_ = 0;
  HandService service_;
  std::map<uint8_t, std::unique_ptr<CmEnd>> ends_;
  std::vector<ConnectAnswer> answers_;
};

TEST_F(CmTest, ConnectsTheAgreedEnds) {
  open();
  call(end(1), agree(end(1), end(2)));
  EXPECT_EQ(answer(), Answer::kAccepted);
  EXPECT_EQ(state_of(*end(1).pair), IBV_QPS_RTS);
  EXPECT_EQ(state_of(*end(2).pair), IBV_QPS_RTS);
  EXPECT_TRUE(leads_through(end(1)));
  EXPECT_TRUE(end(1).asking.disconnects.empty());
}

TEST_F(CmTest, ReportsTheAnswerOfTheOwner) {
  open();
  const ConnectRequest request = agree(end(1), end(2));
  end(1).asking.answer = {Answer::kWrongToken, {}, end(2).nonce};
  call(end(1), request);
  EXPECT_EQ(answer(), Answer::kWrongToken);
  end(1).asking.answer = {Answer::kAccepted, {}, end(2).nonce};
  call(end(1), request);
  run_until([this] { return !answers_.empty(); });
  EXPECT_TRUE(answers_.front().later());
  EXPECT_EQ(fake_.calls("cm_connect"), 0U);
}

TEST_F(CmTest, RefusesAWrongTicket) {
  open();
  const ConnectRequest right = agree(end(1), end(2));
  for (int wrong = 0; wrong < 4; ++wrong) {
    ConnectRequest request = right;
    ConnectAnswer& told = end(1).asking.answer;
    const ConnectAnswer before = told;
    if (wrong == 0) request.connection = 77;
    if (wrong == 1) request.end.psn ^= 1;
    if (wrong == 2) told.reply.end.psn ^= 1;
    if (wrong == 3) told.owner ^= 1;
    call(end(1), request);
    EXPECT_EQ(answer(), Answer::kNoSuchObject) << wrong;
    ASSERT_EQ(end(1).asking.disconnects.size(), 1U);
    end(1).asking.disconnects.clear();
    told = before;
  }
  // From another host.
  ends_[3]->asking.answer = end(1).asking.answer;
  call(end(3), right);
  EXPECT_EQ(answer(), Answer::kNoSuchObject);
  EXPECT_EQ(state_of(*end(2).pair), IBV_QPS_INIT);
  // None of them has replaced the right one.
  call(end(1), right);
  EXPECT_EQ(answer(), Answer::kAccepted);
  // It does not come twice either.
  const std::shared_ptr<QueuePair> first = std::exchange(end(1).pair, end(1).make_pair());
  call(end(3), right);
  EXPECT_EQ(answer(), Answer::kNoSuchObject);
  EXPECT_EQ(state_of(*first), IBV_QPS_RTS);
}

TEST_F(CmTest, RefusesASilentPeer) {
  open();
  agree(end(1), end(2));
  struct Stranger : CmHandler {
    void cm_event(const CmEvent& event) override { types.push_back(event.type); }
    std::vector<rdma_cm_event_type> types;
  } stranger;
  const CmId id = end(1).channel->make_id(&stranger);
  SocketAddress from;
  SocketAddress to;
  to_socket_address(address_of(end(1).config.eid, LinkLayer::kIwarp, 0), 0, &from);
  to_socket_address(address_of(end(2).config.eid, LinkLayer::kIwarp, end(2).acceptor->port()), 0,
                    &to);
  ASSERT_EQ(fake_.api()->cm_resolve_addr(id.get(), &from.any, &to.any, 1000), 0);
  service_.settle();
  rdma_conn_param param = {};
  param.qp_num = end(1).pair->number();
  ASSERT_EQ(fake_.api()->cm_connect(id.get(), &param), 0);
  run_until([&] { return stranger.types.size() == 2; });
  EXPECT_EQ(stranger.types.back(), RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(fake_.calls("cm_accept"), 0U);
}

TEST_F(CmTest, ForgottenEndIsNotFound) {
  open();
  const ConnectRequest request = agree(end(1), end(2));
  end(2).acceptor->forget(end(1).nonce, 1);
  call(end(1), request);
  EXPECT_EQ(answer(), Answer::kNoSuchObject);
  const ConnectRequest closed = agree(end(1), end(2), 2);
  end(2).pair->close();
  call(end(1), closed);
  EXPECT_EQ(answer(), Answer::kNoSuchObject);
}

TEST_F(CmTest, WithoutAListenerThePeerIsUnreachable) {
  open();
  const ConnectRequest request = agree(end(1), end(2));
  end(2).acceptor.reset();
  call(end(1), request);
  EXPECT_EQ(answer(), Answer::kUnreachable);
  EXPECT_EQ(end(1).asking.disconnects.size(), 1U);
}

TEST_F(CmTest, PeerThatDiesDuringConnect) {
  open();
  const ConnectRequest request = agree(end(1), end(2));
  // It has stopped before it looks at the call.
  end(2).channel->stop();
  call(end(1), request);
  run_until([this] { return fake_.calls("cm_connect") == 1; });
  EXPECT_TRUE(answers_.empty());
  end(2).acceptor.reset();
  EXPECT_EQ(answer(), Answer::kUnreachable);
  // The queue pair is free again.
  EXPECT_EQ(fake_.waits_for_calls(), 0U);
  end(1).pair->close();
  // The thread that calls may have yet to return from rdma_connect.
  run_until([this] { return closed() == 1; });
}

TEST_F(CmTest, EachStepMayFail) {
  for (const char* verb : {"cm_create_id", "cm_resolve_addr", "cm_resolve_route", "cm_connect"}) {
    open();
    const ConnectRequest request = agree(end(1), end(2));
    fake_.fail(verb, ENOMEM);
    call(end(1), request);
    EXPECT_EQ(answer(), Answer::kUnreachable) << verb;
    EXPECT_EQ(end(1).asking.disconnects.size(), 1U) << verb;
    ends_.clear();
  }
  open();
  const ConnectRequest request = agree(end(1), end(2));
  fake_.fail("cm_accept", ENOMEM);
  call(end(1), request);
  EXPECT_EQ(answer(), Answer::kNoResources);
}

// Until the kernel gives up the call, neither the id nor the queue pair can be destroyed without
// waiting.
TEST_F(CmTest, SilentPeerTimesOut) {
  open(kShort);
  const ConnectRequest request = agree(end(1), end(2));
  end(2).channel->stop();
  call(end(1), request);
  EXPECT_EQ(answer(), Answer::kUnreachable);
  end(1).pair->close();
  service_.settle();
  EXPECT_EQ(closed(), 0U);
  fake_.give_up_calls();
  run_until([this] { return closed() == 1; });
  EXPECT_EQ(fake_.waits_for_calls(), 0U);
  EXPECT_TRUE(answers_.empty());
}

TEST_F(CmTest, LateAcceptanceIsTurnedDown) {
  open(kShort);
  const ConnectRequest request = agree(end(1), end(2));
  end(2).channel->stop();
  call(end(1), request);
  EXPECT_EQ(answer(), Answer::kUnreachable);
  end(1).pair->close();
  end(2).channel->start();
  run_until([this] { return closed() == 1; });
  service_.settle();
  EXPECT_EQ(state_of(*end(2).pair), IBV_QPS_ERR);
  EXPECT_TRUE(answers_.empty());
}

// The called end of Soft-iWARP ignores data that arrive while it still accepts.
TEST_F(CmTest, NothingIsSentBeforeTheOwnerHasAccepted) {
  open();
  call_without_sign();
  service_.settle();
  EXPECT_EQ(state_of(*end(1).pair), IBV_QPS_RTS);
  EXPECT_TRUE(answers_.empty());
  end(1).asking.release_signs(/*there=*/true);
  EXPECT_EQ(answer(), Answer::kAccepted);
  EXPECT_TRUE(leads_through(end(1)));
}

TEST_F(CmTest, OwnerWithoutASignIsUnreachable) {
  open();
  call_without_sign();
  end(1).asking.release_signs(/*there=*/false);
  EXPECT_EQ(answer(), Answer::kUnreachable);
  EXPECT_EQ(end(1).asking.disconnects.size(), 1U);
  EXPECT_EQ(state_of(*end(2).pair), IBV_QPS_ERR);
}

TEST_F(CmTest, LateSignEndsTheConnection) {
  open(kShort);
  call_without_sign();
  EXPECT_EQ(answer(), Answer::kUnreachable);
  end(1).asking.release_signs(/*there=*/true);
  service_.settle();
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(state_of(*end(2).pair), IBV_QPS_ERR);
}

TEST_F(CmTest, ConnectionBrokenBeforeTheSignIsUnreachable) {
  open();
  call_without_sign();
  end(2).pair->close();
  EXPECT_EQ(answer(), Answer::kUnreachable);
  EXPECT_TRUE(end(1).broken.empty());
  end(1).asking.release_signs(/*there=*/true);
  service_.settle();
  EXPECT_TRUE(answers_.empty());
}

TEST_F(CmTest, BrokenConnectionIsReported) {
  open();
  call(end(1), agree(end(1), end(2), 9));
  ASSERT_EQ(answer(), Answer::kAccepted);
  end(2).pair->close();
  run_until([this] { return !end(1).broken.empty(); });
  EXPECT_EQ(end(1).broken, std::vector<uint64_t>{9});
}

TEST_F(CmTest, ClosedConnectionIsNotReportedAsBroken) {
  open();
  const ConnectRequest request = agree(end(1), end(2));
  call(end(1), request);
  ASSERT_EQ(answer(), Answer::kAccepted);
  end(1).pair->close();
  end(1).connector->disconnect(request, DisconnectReason::kClosed);
  service_.settle();
  EXPECT_TRUE(end(1).broken.empty());
  EXPECT_EQ(end(1).asking.disconnects.size(), 1U);
}

// A message that has left its sender may arrive after the control message about the close.
TEST_F(CmTest, FinishWaitsForRequestsInFlight) {
  open();
  call(end(1), agree(end(1), end(2)));
  ASSERT_EQ(answer(), Answer::kAccepted);
  int finished = 0;
  const auto count = [&] { ++finished; };
  end(2).acceptor->finish(end(1).nonce, 1, count);
  end(2).acceptor->finish(end(1).nonce, 1, count);
  service_.settle();
  EXPECT_EQ(finished, 0);
  end(1).pair->close();
  run_until([&] { return finished != 0; });
  EXPECT_EQ(finished, 1);
  // A peer that never called or is unknown has nothing in flight.
  agree(end(1), end(2), 2);
  end(2).acceptor->finish(end(1).nonce, 2, count);
  EXPECT_EQ(finished, 2);
  end(2).acceptor->finish(end(1).nonce, 3, count);
  EXPECT_EQ(finished, 3);
}

TEST_F(CmTest, FinishHasATimeout) {
  open(kLong, 1'000'000);
  call(end(1), agree(end(1), end(2)));
  ASSERT_EQ(answer(), Answer::kAccepted);
  bool finished = false;
  end(2).acceptor->finish(end(1).nonce, 1, [&] { finished = true; });
  run_until([&] { return finished; });
}

TEST_F(CmTest, StoppedEndsAreUnreachable) {
  open();
  const ConnectRequest request = agree(end(1), end(2));
  end(2).channel->stop();
  call(end(1), request);
  run_until([this] { return fake_.calls("cm_connect") == 1; });
  end(1).channel->stop();
  end(1).connector->stop();
  EXPECT_EQ(answer(), Answer::kUnreachable);
  call(end(1), request);
  service_.settle();
  EXPECT_EQ(fake_.calls("cm_connect"), 1U);
}

TEST_F(CmTest, OtherDeviceAtTheAddressIsNamed) {
  FakeDeviceOptions other = CmEnd::options_of(4);
  other.gids.push_back({"10.0.0.5", IBV_GID_TYPE_ROCE_V2, 4});
  fake_.add_device(other);
  fake_.add_device(CmEnd::options_of(5));
  const CmEnd first(&service_, fake_.api(), 4, kLong);
  try {
    CmEnd(&service_, fake_.api(), 5, kLong);
    FAIL() << "it listens at another device";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("iw4"), std::string::npos) << error.what();
  }
}

// Calls that return when the test lets them, and no later than its end.
struct Gate {
  static Gate* current;
  static int connect(rdma_cm_id* id, rdma_conn_param* param) {
    Gate& gate = *current;
    const auto connect_really = gate.connect_really;
    ++gate.waiting;
    {
      std::unique_lock lock(gate.mutex);
      gate.opened.wait(lock, [&gate] { return gate.open; });
      ++gate.passed;
      gate.left.notify_all();
    }
    return connect_really(id, param);
  }
  explicit Gate(FakeVerbs* fake) : connect_really(fake->api()->cm_connect) {
    current = this;
    fake->table().cm_connect = connect;
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    let_all_through();
    std::unique_lock lock(mutex);
    left.wait(lock, [this] { return passed == waiting; });
  }

  void let_all_through() {
    {
      const std::lock_guard lock(mutex);
      open = true;
    }
    opened.notify_all();
  }

  std::mutex mutex;
  std::condition_variable opened;
  std::condition_variable left;
  bool open = false;
  int passed = 0;
  std::atomic<int> waiting{0};
  int (*const connect_really)(rdma_cm_id* id, rdma_conn_param* param);
};
Gate* Gate::current = nullptr;

TEST_F(CmTest, BlockingCallDelaysNoOther) {
  Gate gate(&fake_);
  open(kShort);
  call(end(1), agree(end(1), end(2)));
  run_until([&] { return gate.waiting == 1; });
  // The service thread continues, and gives it up.
  EXPECT_EQ(answer(), Answer::kUnreachable);
  end(1).pair->close();
  // Another host does not wait for this one either.
  end(1).pair = end(1).make_pair();
  call(end(1), agree(end(1), end(3), 2));
  run_until([&] { return gate.waiting == 2; });
  EXPECT_EQ(answer(), Answer::kUnreachable);
  EXPECT_EQ(closed(), 0U);
  gate.let_all_through();
  run_until([&] { return closed() == 1; });
}

// Otherwise each call of a program would wait until all earlier ones have failed.
TEST_F(CmTest, CallAfterABlockingOneTimesOut) {
  Gate gate(&fake_);
  open(kShort);
  call(end(1), agree(end(1), end(2)));
  run_until([&] { return gate.waiting == 1; });
  EXPECT_EQ(answer(), Answer::kUnreachable);
  const std::shared_ptr<QueuePair> first = std::exchange(end(1).pair, end(1).make_pair());
  call(end(1), agree(end(1), end(2), 2));
  EXPECT_EQ(answer(), Answer::kUnreachable);
  EXPECT_EQ(end(1).asking.disconnects.size(), 2U);
  end(1).pair->close();
  EXPECT_EQ(closed(), 1U);
  gate.let_all_through();
  first->close();
  run_until([&] { return closed() == 2; });
  EXPECT_EQ(gate.waiting, 1);
}

}  // namespace
}  // namespace urma::verbs
