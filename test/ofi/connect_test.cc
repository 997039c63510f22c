/* SPDX-License-Identifier: MIT */

// The list of the provider, and how endpoints connect and disconnect.

// Old programs use names that libfabric 2 deprecates.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#include "ofi/address.h"
#include "ofi/cm_message.h"
#include "ofi/cm_port.h"
#include "test/ofi/pair.h"
#include "urma_api.h"

namespace urma_test {
namespace {

using InfoTest = FabricTest;
using ConnectTest = PairTest;

int count(const fi_info* info) {
  int number = 0;
  for (; info != nullptr; info = info->next) number++;
  return number;
}

TEST_F(InfoTest, ListsEachDeviceAsADomain) {
  fi_info* info = nullptr;
  ASSERT_EQ(provider().getinfo(kVersion, nullptr, nullptr, 0, nullptr, &info), 0);
  int devices = 0;
  urma_free_device_list(urma_get_device_list(&devices));
  EXPECT_EQ(count(info), 2 * devices);
  EXPECT_STREQ(info->domain_attr->name, "urma_shm0");
  EXPECT_EQ(info->ep_attr->type, FI_EP_MSG);
  EXPECT_STREQ(info->next->domain_attr->name, "urma_shm0");
  EXPECT_EQ(info->next->ep_attr->type, FI_EP_RDM);
  fi_freeinfo(info);
}

TEST_F(InfoTest, MatchesOnlySupportedHints) {
  const auto offered = [&](const std::function<void(fi_info*)>& change) {
    fi_info* hints = all_hints();
    change(hints);
    fi_info* info = nullptr;
    const int error = provider().getinfo(kVersion, nullptr, nullptr, 0, hints, &info);
    EXPECT_TRUE(error == 0 || error == -FI_ENODATA) << error;
    EXPECT_EQ(error == 0, info != nullptr);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    return error == 0;
  };
  EXPECT_TRUE(offered([](fi_info*) {}));
  EXPECT_FALSE(offered([](fi_info* hints) { hints->ep_attr->type = FI_EP_RDM; }));
  EXPECT_FALSE(offered([](fi_info* hints) { hints->caps |= FI_TAGGED; }));
  EXPECT_FALSE(offered([](fi_info* hints) { hints->domain_attr->mr_mode = 0; }));
  EXPECT_FALSE(offered([](fi_info* hints) { hints->tx_attr->inject_size = 1 << 20; }));
  EXPECT_FALSE(offered([](fi_info* hints) { hints->tx_attr->size = 1 << 20; }));
  EXPECT_FALSE(offered([](fi_info* hints) { hints->rx_attr->size = 1 << 20; }));
  EXPECT_FALSE(offered([](fi_info* hints) {
    hints->mode = 0;
    hints->domain_attr->cq_data_size = 8;
  }));
  EXPECT_FALSE(offered([](fi_info* hints) {
    hints->dest_addrlen = 4;
    hints->dest_addr = strdup("far");
  }));
  EXPECT_FALSE(offered([](fi_info* hints) { hints->tx_attr->msg_order = FI_ORDER_STRICT; }));
  EXPECT_FALSE(offered([](fi_info* hints) { hints->addr_format = FI_ADDR_GNI; }));
  EXPECT_FALSE(offered([](fi_info* hints) { hints->domain_attr->name = strdup("other0"); }));
  EXPECT_FALSE(offered([](fi_info* hints) { hints->fabric_attr->name = strdup("other"); }));
}

TEST_F(InfoTest, OffersNoCqDataToProgramsThatCannotTakeIt) {
  hints_->mode = 0;
  fi_info* info = nullptr;
  ASSERT_EQ(provider().getinfo(kVersion, nullptr, nullptr, 0, hints_, &info), 0);
  EXPECT_EQ(info->mode, 0u);
  EXPECT_EQ(info->rx_attr->mode, 0u);
  EXPECT_EQ(info->domain_attr->cq_data_size, 0u);
  fi_freeinfo(info);
}

TEST_F(InfoTest, AnswersOldProgramsInOldTerms) {
  constexpr uint32_t kOld = FI_VERSION(1, 4);
  fi_info* info = nullptr;
  ASSERT_EQ(provider().getinfo(kOld, nullptr, nullptr, 0, nullptr, &info), 0);
  EXPECT_EQ(info->domain_attr->mr_mode, FI_MR_BASIC);
  EXPECT_NE(info->mode & FI_LOCAL_MR, 0u);
  fi_freeinfo(info);
}

TEST_F(InfoTest, TakesOnlyUrmaAddresses) {
  fi_info* info = nullptr;
  EXPECT_EQ(provider().getinfo(kVersion, "localhost", "7471", 0, hints_, &info), -FI_ENODATA);
  EXPECT_EQ(provider().getinfo(kVersion, nullptr, "65536", FI_SOURCE, hints_, &info), -FI_ENODATA);
  EXPECT_EQ(provider().getinfo(kVersion, "urma://::1/x", nullptr, 0, hints_, &info), -FI_ENODATA);
  hints_->addr_format = FI_ADDR_STR;
  ASSERT_EQ(provider().getinfo(kVersion, "urma://fd00::1/77", nullptr, 0, hints_, &info), 0);
  EXPECT_STREQ(static_cast<char*>(info->dest_addr), "urma://fd00::1/77");
  fi_freeinfo(info);
  hints_->addr_format = FI_FORMAT_UNSPEC;
}

TEST_F(InfoTest, ReadsWhatItWrites) {
  for (const uint32_t format : {FI_ADDR_STR, FI_SOCKADDR_IN6, FI_SOCKADDR}) {
    for (const std::string id : {"4711", "65535", "65536", "4294967295"}) {
      urma_fi::Address address, read;
      ASSERT_TRUE(urma_fi::parse("urma://fd75:726d::1/" + id, &address));
      const std::vector<char> bytes = urma_fi::encode(format, address);
      ASSERT_TRUE(urma_fi::decode(format, bytes.data(), bytes.size(), &read));
      EXPECT_EQ(urma_fi::to_text(read), "urma://fd75:726d::1/" + id);
    }
  }
  sockaddr_in foreign{};
  foreign.sin_family = AF_INET;
  urma_fi::Address address;
  EXPECT_FALSE(urma_fi::decode(FI_SOCKADDR, &foreign, sizeof(foreign), &address));
  sockaddr_in6 labelled{};
  labelled.sin6_family = AF_INET6;
  labelled.sin6_flowinfo = htonl(1 << 16);
  EXPECT_FALSE(urma_fi::decode(FI_SOCKADDR_IN6, &labelled, sizeof(labelled), &address));
  EXPECT_FALSE(urma_fi::parse("urma://fd75::1/4294967296", &address));
  EXPECT_FALSE(urma_fi::parse("urma://fd75::1/", &address));
  EXPECT_FALSE(urma_fi::parse("urma_shm0", &address));
}

TEST_F(InfoTest, RefusesMalformedMessages) {
  using urma_fi::CmKind;
  const auto message = urma_fi::make_message(CmKind::kRequest, 0, 7, 9, "data", 4);
  const size_t size = urma_fi::size_of(message);
  EXPECT_TRUE(urma_fi::is_valid(message, size));
  EXPECT_FALSE(urma_fi::is_valid(message, size - 1));
  EXPECT_FALSE(urma_fi::is_valid(message, size + 1));
  EXPECT_FALSE(urma_fi::is_valid(message, 0));
  const auto with = [&](const std::function<void(urma_fi::CmMessage&)>& change) {
    urma_fi::CmMessage changed = message;
    change(changed);
    return urma_fi::is_valid(changed, urma_fi::size_of(changed));
  };
  EXPECT_FALSE(with([](auto& one) { one.magic++; }));
  EXPECT_FALSE(with([](auto& one) { one.version++; }));
  EXPECT_FALSE(with([](auto& one) { one.data_size = urma_fi::kCmDataSize + 1; }));
  EXPECT_FALSE(with([](auto& one) { one.kind = static_cast<CmKind>(77); }));
  EXPECT_FALSE(with([](auto& one) { one.jetty = 0; }));
  EXPECT_FALSE(with([](auto& one) { one.from = 0; }));
  EXPECT_FALSE(with([](auto& one) { one.kind = CmKind::kAccept; }));
}

TEST_F(InfoTest, RefusesInvalidCalls) {
  fi_cq_attr cq_attr{};
  cq_attr.wait_obj = FI_WAIT_MUTEX_COND;
  fid_cq* cq = nullptr;
  EXPECT_EQ(fi_cq_open(domain_, &cq_attr, &cq, nullptr), -FI_ENOSYS);
  fi_eq_attr eq_attr{};
  eq_attr.wait_obj = FI_WAIT_SET;
  fid_eq* eq = nullptr;
  EXPECT_EQ(fi_eq_open(fabric_, &eq_attr, &eq, nullptr), -FI_ENOSYS);
  fid_mr* mr = nullptr;
  char byte;
  EXPECT_LT(fi_mr_reg(domain_, nullptr, 8, FI_SEND, 0, 0, 0, &mr, nullptr), 0);
  EXPECT_EQ(fi_mr_reg(domain_, &byte, 1, FI_SEND, 0, 0, FI_RMA_EVENT, &mr, nullptr), -FI_EINVAL);
  fid_ep* ep = nullptr;
  ASSERT_EQ(fi_endpoint(domain_, info_, &ep, nullptr), 0);
  EXPECT_EQ(fi_enable(ep), -FI_ENOEQ);
  EXPECT_EQ(fi_ep_bind(ep, &eq_->fid, 0), 0);
  EXPECT_EQ(fi_enable(ep), -FI_ENOCQ);
  EXPECT_EQ(fi_recv(ep, nullptr, 0, nullptr, 0, nullptr), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_inject(ep, "", 0, 0), -FI_ENOTCONN);
  EXPECT_EQ(fi_close(&eq_->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&domain_->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&fabric_->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&ep->fid), 0);
  fi_info unnamed = *info_;
  fi_domain_attr attr = *info_->domain_attr;
  attr.name = const_cast<char*>("gone0");
  unnamed.domain_attr = &attr;
  fid_domain* domain = nullptr;
  EXPECT_EQ(fi_domain(fabric_, &unnamed, &domain, nullptr), -FI_ENODEV);
}

TEST_F(InfoTest, ConnectWithoutAListenerIsRefused) {
  fid_cq* cq = open_cq();
  fid_ep* ep = open_ep(info_, cq);
  sockaddr_in6 nowhere{};
  std::memcpy(&nowhere, info_->src_addr, sizeof(nowhere));
  nowhere.sin6_port = htons(77);
  sockaddr_in foreign{};
  foreign.sin_family = AF_INET;
  EXPECT_EQ(fi_connect(ep, &foreign, nullptr, 0), -FI_EINVAL);
  ASSERT_EQ(fi_connect(ep, &nowhere, nullptr, 0), 0);
  EXPECT_EQ(fi_connect(ep, &nowhere, nullptr, 0), -FI_EOPBADSTATE);
  std::string data;
  const fi_eq_err_entry error = next_failure(eq_, &data);
  EXPECT_EQ(error.err, FI_ECONNREFUSED);
  EXPECT_EQ(error.fid, &ep->fid);
  EXPECT_EQ(fi_close(&ep->fid), 0);
  EXPECT_EQ(fi_close(&cq->fid), 0);
}

TEST_F(InfoTest, IsRejectedWithData) {
  fid_pep* pep = listen_at(info_);
  fid_cq* cq = open_cq();
  fid_ep* ep = open_ep(info_, cq);
  const sockaddr_in6 address = address_of(pep);
  ASSERT_EQ(fi_connect(ep, &address, nullptr, 0), 0);
  fi_info* request = next_request();
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(fi_reject(pep, request->handle, "no", 2), 0);
  fi_freeinfo(request);
  std::string data;
  EXPECT_EQ(next_failure(eq_, &data).err, FI_ECONNREFUSED);
  EXPECT_EQ(data, "no");
  EXPECT_EQ(fi_close(&ep->fid), 0);
  EXPECT_EQ(fi_close(&cq->fid), 0);
  EXPECT_EQ(fi_close(&pep->fid), 0);
}

TEST_F(InfoTest, ARequestIsAnsweredOnce) {
  fid_pep* pep = listen_at(info_);
  fid_cq* cq = open_cq();
  fid_ep* ep = open_ep(info_, cq);
  const sockaddr_in6 address = address_of(pep);
  ASSERT_EQ(fi_connect(ep, &address, nullptr, 0), 0);
  fi_info* request = next_request();
  ASSERT_NE(request, nullptr);
  fid_ep* answering = open_ep(request, cq);
  EXPECT_EQ(fi_reject(pep, request->handle, "no", 2), 0);
  EXPECT_EQ(fi_reject(pep, request->handle, "no", 2), -FI_EINVAL);
  EXPECT_EQ(fi_accept(answering, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_close(&answering->fid), 0);
  fi_freeinfo(request);
  std::string data;
  EXPECT_EQ(next_failure(eq_, &data).err, FI_ECONNREFUSED);
  EXPECT_EQ(data, "no");
  EXPECT_EQ(fi_close(&ep->fid), 0);
  EXPECT_EQ(fi_close(&cq->fid), 0);
  EXPECT_EQ(fi_close(&pep->fid), 0);
}

TEST_F(InfoTest, ConnectIsRefusedWhenTheListenerCloses) {
  fid_pep* pep = listen_at(info_);
  fid_cq* cq = open_cq();
  fid_ep* ep = open_ep(info_, cq);
  const sockaddr_in6 address = address_of(pep);
  ASSERT_EQ(fi_connect(ep, &address, nullptr, 0), 0);
  EXPECT_EQ(fi_close(&pep->fid), 0);
  std::string data;
  EXPECT_EQ(next_failure(eq_, &data).err, FI_ECONNREFUSED);
  EXPECT_EQ(fi_close(&ep->fid), 0);
  EXPECT_EQ(fi_close(&cq->fid), 0);
}

TEST_F(InfoTest, ListensAtAChosenIdOnce) {
  fi_info* chosen = nullptr;
  ASSERT_EQ(provider().getinfo(kVersion, nullptr, "77", FI_SOURCE, hints_, &chosen), 0);
  fid_pep* pep = listen_at(chosen);
  EXPECT_EQ(ntohs(address_of(pep).sin6_port), 77);
  fid_pep* second = nullptr;
  ASSERT_EQ(fi_passive_ep(fabric_, chosen, &second, nullptr), 0);
  EXPECT_EQ(fi_listen(second), -FI_ENOEQ);
  ASSERT_EQ(fi_pep_bind(second, &eq_->fid, 0), 0);
  EXPECT_EQ(fi_listen(second), -FI_EADDRINUSE);
  EXPECT_EQ(fi_close(&second->fid), 0);
  EXPECT_EQ(fi_close(&pep->fid), 0);
  fi_freeinfo(chosen);
}

TEST_F(InfoTest, QueuesEventsOfTheProgram) {
  uint32_t type = 0;
  char room[8];
  EXPECT_EQ(fi_eq_sread(eq_, &type, room, sizeof(room), 0, 0), -FI_EAGAIN);
  EXPECT_EQ(fi_eq_write(eq_, 77, "mine", 4, 0), 4);
  EXPECT_EQ(fi_eq_read(eq_, &type, room, 2, 0), -FI_ETOOSMALL);
  EXPECT_EQ(fi_eq_read(eq_, &type, room, sizeof(room), FI_PEEK), 4);
  EXPECT_EQ(fi_eq_read(eq_, &type, room, sizeof(room), 0), 4);
  EXPECT_EQ(type, 77u);
  EXPECT_EQ(std::string(room, 4), "mine");
}

class Rejects : public urma_fi::CmSink {
 public:
  void on_message(urma_fi::CmPort&, const urma_fi::Address&,
                  const urma_fi::CmMessage& message) override {
    if (message.kind == urma_fi::CmKind::kReject && message.to == 7) count++;
  }
  void on_undelivered(const urma_fi::CmMessage&, int, int) override { ADD_FAILURE(); }
  int count = 0;
};

// Any process can send to a port.
TEST_F(ConnectTest, IgnoresUnexpectedMessages) {
  using urma_fi::CmKind;
  int error = 0;
  const auto device = urma_fi::Device::open("urma_shm0", nullptr, &error);
  const auto stranger = urma_fi::CmPort::open(device, 0, &error);
  ASSERT_NE(stranger, nullptr);
  const sockaddr_in6 socket = address_of(pep_);
  urma_fi::Address pep;
  ASSERT_TRUE(urma_fi::decode(FI_SOCKADDR_IN6, &socket, sizeof(socket), &pep));
  auto message = urma_fi::make_message(CmKind::kRequest, 0, 7, 1, "hello", 5);
  message.magic = 0;
  EXPECT_EQ(stranger->send(pep, message), 0);
  for (const CmKind kind : {CmKind::kAccept, CmKind::kReject, CmKind::kReady, CmKind::kShutdown})
    EXPECT_EQ(stranger->send(pep, urma_fi::make_message(kind, 4711, 7, 1, nullptr, 0)), 0);
  EXPECT_EQ(stranger->send(pep, urma_fi::make_message(CmKind::kRequest, 0, 7, 1, "hello", 5)), 0);
  CmEvent request = next_event(eq_);
  EXPECT_EQ(request.type, static_cast<uint32_t>(FI_CONNREQ));
  EXPECT_EQ(request.data, "hello");
  EXPECT_EQ(fi_reject(pep_, request.info->handle, nullptr, 0), 0);
  fi_freeinfo(request.info);
  Rejects rejects;
  EXPECT_TRUE(until([&] { return stranger->poll(rejects), rejects.count == 1; }));
  ASSERT_EQ(fi_recv(b_.ep, b_.memory.data(), 8, b_.desc(), 0, nullptr), 0);
  ASSERT_EQ(fi_inject(a_.ep, "as ever", 8, 0), 0);
  EXPECT_EQ(next(b_).len, 8u);
}

TEST_F(ConnectTest, ReportsAShutdown) {
  EXPECT_EQ(fi_accept(a_.ep, nullptr, 0), -FI_EINVAL);
  sockaddr_in6 peer{};
  size_t size = sizeof(peer);
  EXPECT_EQ(fi_getpeer(a_.ep, &peer, &size), 0);
  size = 1;
  EXPECT_EQ(fi_getname(&a_.ep->fid, &peer, &size), -FI_ETOOSMALL);
  EXPECT_EQ(size, sizeof(peer));
  ASSERT_EQ(fi_recv(a_.ep, a_.memory.data(), 8, a_.desc(), 0, &a_), 0);
  EXPECT_EQ(fi_shutdown(a_.ep, 0), 0);
  EXPECT_EQ(fi_shutdown(a_.ep, 0), -FI_ENOTCONN);
  const CmEvent event = next_event(eq_);
  EXPECT_EQ(event.type, static_cast<uint32_t>(FI_SHUTDOWN));
  EXPECT_EQ(event.fid, &b_.ep->fid);
  const fi_cq_err_entry flushed = next_error(a_);
  EXPECT_EQ(flushed.err, FI_ECANCELED);
  EXPECT_EQ(flushed.op_context, &a_);
}

TEST_F(ConnectTest, ReportsAClosedEndpoint) {
  EXPECT_EQ(fi_close(&b_.ep->fid), 0);
  b_.ep = nullptr;
  const CmEvent event = next_event(eq_);
  EXPECT_EQ(event.type, static_cast<uint32_t>(FI_SHUTDOWN));
  EXPECT_EQ(event.fid, &a_.ep->fid);
}

TEST_F(ConnectTest, KeepsMessagesThatArrivedBeforeTheEnd) {
  ASSERT_EQ(fi_recv(a_.ep, a_.memory.data(), 8, a_.desc(), 0, &a_), 0);
  ASSERT_EQ(fi_inject(b_.ep, "the end", 8, 0), 0);
  EXPECT_EQ(fi_close(&b_.ep->fid), 0);
  b_.ep = nullptr;
  EXPECT_EQ(next_event(eq_).type, static_cast<uint32_t>(FI_SHUTDOWN));
  EXPECT_EQ(fi_close(&a_.ep->fid), 0);
  a_.ep = nullptr;
  const fi_cq_data_entry last = next(a_);
  EXPECT_EQ(last.op_context, &a_);
  EXPECT_STREQ(a_.memory.data(), "the end");
}

}  // namespace
}  // namespace urma_test
