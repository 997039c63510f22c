/* SPDX-License-Identifier: MIT */

// What happens to connections when calls of the library fail, or a peer does not answer.

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

#include "ofi/address.h"
#include "ofi/cm_message.h"
#include "ofi/cm_port.h"
#include "test/ofi/pair.h"
#include "urma_api.h"

namespace {

// Calls that fail before the next success. One thread sets and reads them.
int failing_sends = 0;
int failing_binds = 0;

template <typename Function>
Function library(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// These override those of the library.
extern "C" urma_status_t urma_post_jetty_send_wr(urma_jetty_t* jetty, urma_jfs_wr_t* wr,
                                                 urma_jfs_wr_t** bad_wr) {
  static const auto real = library<decltype(&urma_post_jetty_send_wr)>("urma_post_jetty_send_wr");
  if (failing_sends == 0) return real(jetty, wr, bad_wr);
  failing_sends--;
  return URMA_EINVAL;
}

extern "C" urma_status_t urma_bind_jetty(urma_jetty_t* jetty, urma_target_jetty_t* target) {
  static const auto real = library<decltype(&urma_bind_jetty)>("urma_bind_jetty");
  if (failing_binds == 0) return real(jetty, target);
  failing_binds--;
  return URMA_ENOPERM;
}

namespace urma_test {
namespace {

class FailureTest : public FabricTest {
 protected:
  void SetUp() override {
    FabricTest::SetUp();
    pep_ = listen_at(info_);
    cq_ = open_cq();
    asking_ = open_ep(info_, cq_);
  }

  void TearDown() override {
    EXPECT_EQ(fi_close(&asking_->fid), 0);
    EXPECT_EQ(fi_close(&cq_->fid), 0);
    EXPECT_EQ(fi_close(&pep_->fid), 0);
    FabricTest::TearDown();
  }

  CmEvent ask() {
    const sockaddr_in6 address = address_of(pep_);
    EXPECT_EQ(fi_connect(asking_, &address, nullptr, 0), 0);
    CmEvent request = next_event(eq_);
    EXPECT_EQ(request.type, static_cast<uint32_t>(FI_CONNREQ));
    return request;
  }

  fid_pep* pep_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_ep* asking_ = nullptr;
};

TEST_F(FailureTest, CanRejectAfterAFailedAccept) {
  const CmEvent request = ask();
  fid_ep* answering = open_ep(request.info, cq_);
  failing_sends = 1;
  EXPECT_EQ(fi_accept(answering, nullptr, 0), -EINVAL);
  EXPECT_EQ(fi_close(&answering->fid), 0);
  EXPECT_EQ(fi_reject(pep_, request.info->handle, "no", 2), 0);
  fi_freeinfo(request.info);
  std::string data;
  EXPECT_EQ(next_failure(eq_, &data).err, FI_ECONNREFUSED);
  EXPECT_EQ(data, "no");
}

TEST_F(FailureTest, CanAcceptAtTheSecondAttempt) {
  const CmEvent request = ask();
  fid_ep* answering = open_ep(request.info, cq_);
  failing_sends = 1;
  EXPECT_EQ(fi_accept(answering, nullptr, 0), -EINVAL);
  EXPECT_EQ(fi_inject(answering, "", 0, 0), -FI_ENOTCONN);
  EXPECT_EQ(fi_accept(answering, nullptr, 0), 0);
  fi_freeinfo(request.info);
  EXPECT_EQ(next_event(eq_).type, static_cast<uint32_t>(FI_CONNECTED));
  EXPECT_EQ(next_event(eq_).type, static_cast<uint32_t>(FI_CONNECTED));
  EXPECT_EQ(fi_close(&answering->fid), 0);
}

TEST_F(FailureTest, TellsTheAcceptorThatTheAskerFailed) {
  const CmEvent request = ask();
  fid_ep* answering = open_ep(request.info, cq_);
  EXPECT_EQ(fi_accept(answering, nullptr, 0), 0);
  fi_freeinfo(request.info);
  failing_binds = 1;
  std::string data;
  EXPECT_EQ(next_failure(eq_, &data).err, EPERM);
  const CmEvent end = next_event(eq_);
  EXPECT_EQ(end.type, static_cast<uint32_t>(FI_SHUTDOWN));
  EXPECT_EQ(end.fid, &answering->fid);
  EXPECT_EQ(fi_close(&answering->fid), 0);
}

TEST_F(FailureTest, TellsTheAcceptorThatTheAskerIsGone) {
  const CmEvent request = ask();
  EXPECT_EQ(fi_close(&asking_->fid), 0);
  asking_ = open_ep(info_, cq_);
  fid_ep* answering = open_ep(request.info, cq_);
  EXPECT_EQ(fi_accept(answering, nullptr, 0), 0);
  fi_freeinfo(request.info);
  const CmEvent end = next_event(eq_);
  EXPECT_EQ(end.type, static_cast<uint32_t>(FI_SHUTDOWN));
  EXPECT_EQ(end.fid, &answering->fid);
  EXPECT_EQ(fi_close(&answering->fid), 0);
}

class UndeliveredCounter : public urma_fi::CmSink {
 public:
  void on_message(urma_fi::CmPort&, const urma_fi::Address&, const urma_fi::CmMessage&) override {}
  void on_undelivered(const urma_fi::CmMessage&, int error, int) override {
    EXPECT_EQ(error, EINVAL);
    count++;
  }
  int count = 0;
};

TEST_F(FailureTest, ReportsAMessageThatWasNeverReceived) {
  int error = 0;
  const auto device = urma_fi::Device::open("urma_shm0", nullptr, &error);
  const auto port = urma_fi::CmPort::open(device, 0, &error);
  ASSERT_NE(port, nullptr);
  const sockaddr_in6 socket = address_of(pep_);
  urma_fi::Address pep;
  ASSERT_TRUE(urma_fi::decode(FI_SOCKADDR_IN6, &socket, sizeof(socket), &pep));
  // More than can be in flight at once.
  const auto message = urma_fi::make_message(urma_fi::CmKind::kReject, 4711, 0, 0, nullptr, 0);
  for (int i = 0; i < 100; i++) ASSERT_EQ(port->send(pep, message), 0);
  failing_sends = 1;
  UndeliveredCounter sink;
  EXPECT_TRUE(until([&] { return port->poll(sink), failing_sends == 0; }));
  EXPECT_EQ(sink.count, 1);
}

class ImpatientTest : public FailureTest {
 protected:
  void SetUp() override {
    setenv("FI_URMA_CONNECT_TIMEOUT", "1", 1);
    FailureTest::SetUp();
  }

  void TearDown() override {
    FailureTest::TearDown();
    unsetenv("FI_URMA_CONNECT_TIMEOUT");
  }
};

TEST_F(ImpatientTest, GivesUpASilentPeer) {
  fid_eq* own = open_eq();
  fid_ep* ep = nullptr;
  ASSERT_EQ(fi_endpoint(domain_, info_, &ep, nullptr), 0);
  ASSERT_EQ(fi_ep_bind(ep, &own->fid, 0), 0);
  ASSERT_EQ(fi_ep_bind(ep, &cq_->fid, FI_TRANSMIT | FI_RECV), 0);
  const sockaddr_in6 address = address_of(pep_);
  ASSERT_EQ(fi_connect(ep, &address, nullptr, 0), 0);
  std::string data;
  const fi_eq_err_entry error = next_failure(own, &data);
  EXPECT_EQ(error.err, FI_ETIMEDOUT);
  EXPECT_EQ(error.fid, &ep->fid);
  EXPECT_EQ(fi_close(&ep->fid), 0);
  EXPECT_EQ(fi_close(&own->fid), 0);
}

}  // namespace
}  // namespace urma_test
