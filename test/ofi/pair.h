/* SPDX-License-Identifier: MIT */

// Two connected endpoints of the libfabric provider within one process, made without the registry
// of libfabric, so that the sanitizers see the whole provider.

#ifndef TEST_OFI_PAIR_H_
#define TEST_OFI_PAIR_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/providers/fi_prov.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "test/process/harness.h"

extern "C" fi_provider* fi_prov_ini();

namespace urma_test {

inline constexpr uint32_t kVersion = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
inline constexpr size_t kMessage = 1 << 20;

// Returns whether `done` became true within a limit that only a hang exceeds.
inline bool until(const std::function<bool()>& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// The device that URMA_DEVICE names, or the default.
inline const char* device_name() {
  const char* name = std::getenv("URMA_DEVICE");
  return name == nullptr ? "urma_shm0" : name;
}

// Hints for everything that the provider supports.
inline fi_info* all_hints() {
  fi_info* hints = fi_dupinfo(nullptr);
  hints->ep_attr->type = FI_EP_MSG;
  hints->mode = FI_RX_CQ_DATA;
  hints->caps = FI_MSG | FI_RMA | FI_ATOMIC;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  return hints;
}

// An event of an event queue, followed by its private data.
struct CmEvent {
  uint32_t type = 0;
  fid_t fid = nullptr;
  fi_info* info = nullptr;
  std::string data;
};

class FabricTest : public ProcessTest {
 protected:
  void SetUp() override {
    hints_ = all_hints();
    hints_->caps = caps_;
    hints_->domain_attr->name = strdup(device_name());
    ASSERT_EQ(provider().getinfo(kVersion, nullptr, nullptr, 0, hints_, &info_), 0);
    ASSERT_EQ(provider().fabric(info_->fabric_attr, &fabric_, nullptr), 0);
    ASSERT_EQ(fi_domain(fabric_, info_, &domain_, nullptr), 0);
    eq_ = open_eq();
  }

  void TearDown() override {
    for (fid_t fid : std::vector<fid_t>{&eq_->fid, &domain_->fid, &fabric_->fid})
      EXPECT_EQ(fi_close(fid), 0);
    fi_freeinfo(info_);
    fi_freeinfo(hints_);
    provider().cleanup();
  }

  static fi_provider& provider() { return *fi_prov_ini(); }

  fid_eq* open_eq() {
    fi_eq_attr attr{};
    attr.wait_obj = FI_WAIT_FD;
    fid_eq* eq = nullptr;
    EXPECT_EQ(fi_eq_open(fabric_, &attr, &eq, nullptr), 0);
    return eq;
  }

  fid_cq* open_cq(fi_wait_obj wait = FI_WAIT_FD) {
    fi_cq_attr attr{};
    attr.format = FI_CQ_FORMAT_DATA;
    attr.wait_obj = wait;
    fid_cq* cq = nullptr;
    EXPECT_EQ(fi_cq_open(domain_, &attr, &cq, nullptr), 0);
    return cq;
  }

  fid_pep* listen_at(fi_info* info) {
    fid_pep* pep = nullptr;
    EXPECT_EQ(fi_passive_ep(fabric_, info, &pep, nullptr), 0);
    EXPECT_EQ(fi_pep_bind(pep, &eq_->fid, 0), 0);
    EXPECT_EQ(fi_listen(pep), 0);
    return pep;
  }

  static sockaddr_in6 address_of(fid_pep* pep) {
    sockaddr_in6 address{};
    size_t size = sizeof(address);
    EXPECT_EQ(fi_getname(&pep->fid, &address, &size), 0);
    return address;
  }

  fid_ep* open_ep(fi_info* info, fid_cq* cq) {
    fid_ep* ep = nullptr;
    EXPECT_EQ(fi_endpoint(domain_, info, &ep, nullptr), 0);
    EXPECT_EQ(fi_ep_bind(ep, &eq_->fid, 0), 0);
    EXPECT_EQ(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | cq_flags_), 0);
    return ep;
  }

  CmEvent next_event(fid_eq* eq) {
    CmEvent event;
    alignas(fi_eq_cm_entry) char room[sizeof(fi_eq_cm_entry) + 512];
    const ssize_t size = fi_eq_sread(eq, &event.type, room, sizeof(room), 30000, 0);
    EXPECT_GE(size, static_cast<ssize_t>(sizeof(fi_eq_cm_entry)));
    if (size < static_cast<ssize_t>(sizeof(fi_eq_cm_entry))) return event;
    const auto* entry = reinterpret_cast<fi_eq_cm_entry*>(room);
    event.fid = entry->fid;
    event.info = entry->info;
    event.data.assign(room + sizeof(fi_eq_cm_entry), static_cast<size_t>(size) - sizeof(*entry));
    return event;
  }

  // The request of the next event.
  fi_info* next_request() {
    const CmEvent event = next_event(eq_);
    EXPECT_EQ(event.type, static_cast<uint32_t>(FI_CONNREQ));
    return event.info;
  }

  // The next error, with no event before it.
  fi_eq_err_entry next_failure(fid_eq* eq, std::string* data) {
    uint32_t type;
    char room[256];
    fi_eq_err_entry error{};
    EXPECT_EQ(fi_eq_sread(eq, &type, room, sizeof(room), 30000, 0), -FI_EAVAIL);
    EXPECT_EQ(fi_eq_readerr(eq, &error, 0), static_cast<ssize_t>(sizeof(error)));
    data->assign(static_cast<char*>(error.err_data), error.err_data_size);
    return error;
  }

  uint64_t caps_ = FI_MSG | FI_RMA | FI_ATOMIC;
  uint64_t cq_flags_ = 0;
  fi_info* hints_ = nullptr;
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_eq* eq_ = nullptr;
};

// One end asks and the other accepts; each has a completion queue and registered memory.
class PairTest : public FabricTest {
 protected:
  struct End {
    fid_ep* ep = nullptr;
    fid_cq* cq = nullptr;
    fid_mr* mr = nullptr;
    std::vector<char> memory;
    void* desc() const { return fi_mr_desc(mr); }
    uint64_t address() const { return reinterpret_cast<uint64_t>(memory.data()); }
  };

  void SetUp() override {
    FabricTest::SetUp();
    pep_ = listen_at(info_);
    for (End* end : {&a_, &b_}) {
      end->cq = open_cq();
      end->memory.resize(kMessage);
      ASSERT_EQ(fi_mr_reg(domain_, end->memory.data(), kMessage,
                          FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
                          0, 0, 0, &end->mr, nullptr),
                0);
    }
    connect();
  }

  void TearDown() override {
    for (End* end : {&a_, &b_}) {
      if (end->ep != nullptr) {
        EXPECT_EQ(fi_close(&end->ep->fid), 0);
      }
      EXPECT_EQ(fi_close(&end->mr->fid), 0);
      EXPECT_EQ(fi_close(&end->cq->fid), 0);
    }
    EXPECT_EQ(fi_close(&pep_->fid), 0);
    FabricTest::TearDown();
  }

  void connect() {
    const sockaddr_in6 address = address_of(pep_);
    a_.ep = open_ep(info_, a_.cq);
    prepare(a_);
    ASSERT_EQ(fi_connect(a_.ep, &address, "please", 6), 0);
    CmEvent request = next_event(eq_);
    ASSERT_EQ(request.type, static_cast<uint32_t>(FI_CONNREQ));
    EXPECT_EQ(request.data, "please");
    EXPECT_EQ(request.fid, &pep_->fid);
    b_.ep = open_ep(request.info, b_.cq);
    prepare(b_);
    fi_freeinfo(request.info);
    ASSERT_EQ(fi_accept(b_.ep, "yes", 3), 0);
    CmEvent first = next_event(eq_), second = next_event(eq_);
    EXPECT_EQ(first.type, static_cast<uint32_t>(FI_CONNECTED));
    EXPECT_EQ(first.fid, &a_.ep->fid);
    EXPECT_EQ(first.data, "yes");
    EXPECT_EQ(second.type, static_cast<uint32_t>(FI_CONNECTED));
    EXPECT_EQ(second.fid, &b_.ep->fid);
  }

  // Other objects to bind an endpoint to.
  virtual void prepare(End&) {}

  static fi_cq_data_entry next(const End& end) {
    fi_cq_data_entry entry{};
    EXPECT_EQ(fi_cq_sread(end.cq, &entry, 1, nullptr, 30000), 1);
    return entry;
  }

  static fi_cq_err_entry next_error(const End& end) {
    fi_cq_data_entry entry{};
    fi_cq_err_entry error{};
    EXPECT_EQ(fi_cq_sread(end.cq, &entry, 1, nullptr, 30000), -FI_EAVAIL);
    EXPECT_EQ(fi_cq_readerr(end.cq, &error, 0), 1);
    return error;
  }

  static void fill(End& end, size_t size) {
    for (size_t i = 0; i < size; i++) end.memory[i] = static_cast<char>(i * 7 + size);
  }

  fid_pep* pep_ = nullptr;
  End a_, b_;
};

}  // namespace urma_test

#endif  // TEST_OFI_PAIR_H_
