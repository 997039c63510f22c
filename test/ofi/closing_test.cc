/* SPDX-License-Identifier: MIT */

// What peers in other processes are told when endpoints and event queues are closed.

#include "test/ofi/pair.h"

namespace urma_test {
namespace {

class ClosingTest : public FabricTest {
 protected:
  // The test process makes no URMA call; each side has a fabric of its own.
  void SetUp() override {}
  void TearDown() override {}

  // A process whose passive endpoint the other side connects to. It lives on until that one is
  // done.
  Body listener(const std::function<void(fid_pep*)>& body) {
    return [this, body](Channel& channel) {
      FabricTest::SetUp();
      fid_pep* pep = listen_at(info_);
      channel.send(address_of(pep));
      body(pep);
      channel.sync();
      end();
    };
  }

  // Closes what is left of the fabric.
  void end() {
    if (eq_ != nullptr) {
      EXPECT_EQ(fi_close(&eq_->fid), 0);
    }
    EXPECT_EQ(fi_close(&domain_->fid), 0);
    EXPECT_EQ(fi_close(&fabric_->fid), 0);
    fi_freeinfo(info_);
    fi_freeinfo(hints_);
  }

  Body asker(const std::function<void(Channel&, const sockaddr_in6&)>& body) {
    return [this, body](Channel& channel) {
      FabricTest::SetUp();
      const auto address = channel.receive<sockaddr_in6>();
      cq_ = open_cq(FI_WAIT_NONE);
      body(channel, address);
      for (fid_ep* ep : eps_) EXPECT_EQ(fi_close(&ep->fid), 0);
      EXPECT_EQ(fi_close(&cq_->fid), 0);
      channel.sync();
      end();
    };
  }

  // Asks for `count` connections.
  void ask(const sockaddr_in6& address, int count) {
    for (int i = 0; i < count; i++) {
      eps_.push_back(open_ep(info_, cq_));
      ASSERT_EQ(fi_connect(eps_.back(), &address, nullptr, 0), 0);
    }
  }

  void close_queue() {
    EXPECT_EQ(fi_close(&eq_->fid), 0);
    eq_ = nullptr;
  }

  void run(const Body& asking, const Body& listening) {
    auto [first, second] = Channel::pair();
    Child asks("asks", std::move(first), asking);
    Child listens("listens", std::move(second), listening);
    asks.expect_success();
    listens.expect_success();
  }

  fid_cq* cq_ = nullptr;
  std::vector<fid_ep*> eps_;
};

TEST_F(ClosingTest, ARejectionOutlivesTheEndpoint) {
  const auto ask_once = [this](Channel&, const sockaddr_in6& address) {
    ask(address, 1);
    std::string data;
    EXPECT_EQ(next_failure(eq_, &data).err, FI_ECONNREFUSED);
    EXPECT_EQ(data, "no");
  };
  run(asker(ask_once), listener([this](fid_pep* pep) {
        fi_info* request = next_request();
        EXPECT_EQ(fi_reject(pep, request->handle, "no", 2), 0);
        EXPECT_EQ(fi_close(&pep->fid), 0);
        close_queue();
        fi_freeinfo(request);
      }));
}

TEST_F(ClosingTest, WaitingRequestsAreRejected) {
  const auto ask_thrice = [this](Channel&, const sockaddr_in6& address) {
    ask(address, 3);
    std::string data;
    for (int i = 0; i < 3; i++) EXPECT_EQ(next_failure(eq_, &data).err, FI_ECONNREFUSED);
  };
  run(asker(ask_thrice), listener([this](fid_pep* pep) {
        for (int i = 0; i < 2; i++) {
          fi_info* request = next_request();
          EXPECT_EQ(fi_reject(pep, request->handle, nullptr, 0), 0);
          fi_freeinfo(request);
        }
        // The last one has come and stays in the queue.
        uint32_t type;
        fi_eq_cm_entry entry;
        EXPECT_TRUE(
            until([&] { return fi_eq_read(eq_, &type, &entry, sizeof(entry), FI_PEEK) > 0; }));
        EXPECT_EQ(fi_close(&pep->fid), 0);
        close_queue();
      }));
}

TEST_F(ClosingTest, AnEndpointThatDoesNotAcceptRejects) {
  const auto ask_once = [this](Channel&, const sockaddr_in6& address) {
    ask(address, 1);
    std::string data;
    EXPECT_EQ(next_failure(eq_, &data).err, FI_ECONNREFUSED);
  };
  run(asker(ask_once), listener([this](fid_pep* pep) {
        fi_info* request = next_request();
        fid_ep* ep = nullptr;
        ASSERT_EQ(fi_endpoint(domain_, request, &ep, nullptr), 0);
        EXPECT_EQ(fi_close(&ep->fid), 0);
        EXPECT_EQ(fi_reject(pep, request->handle, nullptr, 0), -FI_EINVAL);
        fi_freeinfo(request);
        EXPECT_EQ(fi_close(&pep->fid), 0);
      }));
}

// Many connections: more than a queue has messages under way at once.
class ManyTest : public ClosingTest {
 protected:
  static constexpr int kConnections = 120;

  // Connects, closes the endpoints in that number of steps, and lets the other side say that it
  // knows.
  void close_in_steps(Channel& channel, const sockaddr_in6& address, int steps,
                      const std::function<void()>& then) {
    ask(address, kConnections);
    for (int i = 0; i < kConnections; i++)
      EXPECT_EQ(next_event(eq_).type, static_cast<uint32_t>(FI_CONNECTED));
    // Reading sends what makes the last connections there.
    uint32_t type;
    fi_eq_cm_entry entry;
    EXPECT_TRUE(until([&] {
      EXPECT_EQ(fi_eq_read(eq_, &type, &entry, sizeof(entry), 0), -FI_EAGAIN);
      return channel.has_message();
    }));
    channel.sync();
    for (int i = 1; i <= kConnections; i++) {
      EXPECT_EQ(fi_close(&eps_.back()->fid), 0);
      eps_.pop_back();
      if (i == kConnections) then();
      if (i % (kConnections / steps) == 0) channel.sync();
    }
  }

  // The other side.
  Body accept_all(int steps) {
    return [this, steps](Channel& channel) {
      FabricTest::SetUp();
      fid_pep* pep = listen_at(info_);
      cq_ = open_cq(FI_WAIT_NONE);
      channel.send(address_of(pep));
      for (int connected = 0; connected < kConnections;) {
        const CmEvent event = next_event(eq_);
        connected += event.type == FI_CONNECTED;
        if (event.type != FI_CONNREQ) continue;
        eps_.push_back(open_ep(event.info, cq_));
        fi_freeinfo(event.info);
        ASSERT_EQ(fi_accept(eps_.back(), nullptr, 0), 0);
      }
      channel.sync();
      for (int i = 1; i <= kConnections; i++) {
        EXPECT_EQ(next_event(eq_).type, static_cast<uint32_t>(FI_SHUTDOWN));
        if (i % (kConnections / steps) == 0) channel.sync();
      }
      channel.sync();
      for (fid_ep* ep : eps_) EXPECT_EQ(fi_close(&ep->fid), 0);
      for (fid_t fid : {&cq_->fid, &pep->fid}) EXPECT_EQ(fi_close(fid), 0);
      end();
    };
  }
};

TEST_F(ManyTest, EveryPeerIsToldOfTheEnd) {
  const auto connect_all = [this](Channel& channel, const sockaddr_in6& address) {
    close_in_steps(channel, address, 1, [this] { close_queue(); });
  };
  run(asker(connect_all), accept_all(1));
}

// Closing makes the progress that nobody makes by reading the queue.
TEST_F(ManyTest, ClosingMakesRoomForFurtherMessages) {
  const auto connect_all = [this](Channel& channel, const sockaddr_in6& address) {
    close_in_steps(channel, address, 4, [] {});
  };
  run(asker(connect_all), accept_all(4));
}

}  // namespace
}  // namespace urma_test
