// SPDX-License-Identifier: MIT
//
// Programs that dlopen liburma.so.0 privately after start. Nothing here is linked with the library.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/process/configs.h"
#include "test/process/harness.h"
#include "urma_api.h"

namespace urma_test {
namespace {

constexpr size_t kSize = 100000;

// All functions of urma_api.h, as pointers under their own names.
struct Api {
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define X(name) decltype(&::name) name;
#include "test/process/urma_api_names.inc"
#undef X
};

class Library {
 public:
  Library() {
    const char* path = std::getenv("LIBURMA");
    if (path == nullptr) throw std::runtime_error("LIBURMA is not set");
    handle_ = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
#define X(name) find(#name, api_.name);
#include "test/process/urma_api_names.inc"
#undef X
  }
  void close() { EXPECT_EQ(::dlclose(handle_), 0); }
  const Api& operator*() const { return api_; }
  int functions() const { return functions_; }

 private:
  template <typename Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    EXPECT_NE(function, nullptr) << name;
    ++functions_;
  }

  void* handle_ = nullptr;
  Api api_ = {};
  int functions_ = 0;
};

struct Offer {
  urma_jetty_id_t jetty;
  urma_seg_t segment;
};

// One side of an exchange: a message each way, and a write each way.
class Side {
 public:
  explicit Side(const Api& api) : api_(api), memory_(3 * kSize, 'm') {
    int count = 0;
    urma_device_t** list = api_.urma_get_device_list(&count);
    check(list, "urma_get_device_list");
    char* name = std::getenv("URMA_DEVICE");
    urma_device_t* device = name != nullptr ? api_.urma_get_device_by_name(name) : list[0];
    api_.urma_free_device_list(list);
    ctx_ = check(api_.urma_create_context(device, 0), "urma_create_context");
    urma_jfc_cfg_t jfc_cfg = jfc_config(64);
    jfc_ = check(api_.urma_create_jfc(ctx_, &jfc_cfg), "urma_create_jfc");
    create_jetty();
    urma_seg_cfg_t cfg =
        seg_config(memory_.data(), memory_.size(), URMA_ACCESS_READ | URMA_ACCESS_WRITE);
    segment_ = check(api_.urma_register_seg(ctx_, &cfg), "urma_register_seg");
  }

  // The first third of the memory is for receives, the second is written to, the third is sent.
  void converse(Channel& channel, char mine, char theirs) {
    std::memset(memory_.data() + 2 * kSize, mine, kSize);
    urma_sge_t inbox = piece(segment_, 0), outbox = piece(segment_, 2 * kSize);
    urma_jfr_wr_t receive = {};
    receive.src = {&inbox, 1};
    urma_jfr_wr_t* bad_receive;
    EXPECT_EQ(api_.urma_post_jetty_recv_wr(jetty_, &receive, &bad_receive), URMA_SUCCESS);
    import(channel.swap(Offer{jetty_->jetty_id, segment_->seg}));

    urma_sge_t there = piece(remote_, kSize);
    urma_jfs_wr_t write = request(URMA_OPC_WRITE), send = request(URMA_OPC_SEND);
    write.rw.src = {&outbox, 1};
    write.rw.dst = {&there, 1};
    write.next = &send;
    send.send.src = {&outbox, 1};
    urma_jfs_wr_t* bad;
    EXPECT_EQ(api_.urma_post_jetty_send_wr(jetty_, &write, &bad), URMA_SUCCESS);
    for (int i = 0; i < 3; ++i) wait();  // write, send and receive
    channel.sync();
    EXPECT_EQ(std::string(memory_.data(), 2 * kSize), std::string(2 * kSize, theirs));
  }

  void close() {
    EXPECT_EQ(api_.urma_unimport_jetty(peer_), URMA_SUCCESS);
    EXPECT_EQ(api_.urma_delete_jetty(jetty_), URMA_SUCCESS);
    EXPECT_EQ(api_.urma_delete_jfr(jfr_), URMA_SUCCESS);
    EXPECT_EQ(api_.urma_delete_jfc(jfc_), URMA_SUCCESS);
    EXPECT_EQ(api_.urma_unimport_seg(remote_), URMA_SUCCESS);
    EXPECT_EQ(api_.urma_unregister_seg(segment_), URMA_SUCCESS);
    EXPECT_EQ(api_.urma_delete_context(ctx_), URMA_SUCCESS);
  }

 private:
  template <typename T>
  static T* check(T* object, const char* call) {
    if (object == nullptr) throw std::runtime_error(std::string(call) + " failed");
    return object;
  }

  void create_jetty() {
    urma_jfr_cfg_t jfr_cfg = jfr_config(jfc_, 16);
    jfr_ = check(api_.urma_create_jfr(ctx_, &jfr_cfg), "urma_create_jfr");
    urma_jetty_cfg_t cfg = jetty_config(jfr_, jfs_config(jfc_, 16));
    cfg.jfs_cfg.max_rsge = 1;
    cfg.jfs_cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
    cfg.jfs_cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
    jetty_ = check(api_.urma_create_jetty(ctx_, &cfg), "urma_create_jetty");
  }

  void import(Offer offer) {
    urma_rjetty_t remote = remote_jetty(offer.jetty);
    peer_ = check(api_.urma_import_jetty(ctx_, &remote, nullptr), "urma_import_jetty");
    remote_ = check(api_.urma_import_seg(ctx_, &offer.segment, nullptr, 0, {}), "urma_import_seg");
  }

  static urma_sge_t piece(urma_target_seg_t* segment, size_t offset) {
    urma_sge_t sge = {};
    sge.addr = segment->seg.ubva.va + offset;
    sge.len = kSize;
    sge.tseg = segment;
    return sge;
  }

  urma_jfs_wr_t request(urma_opcode_t opcode) const {
    urma_jfs_wr_t wr = {};
    wr.opcode = opcode;
    wr.flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
    wr.tjetty = peer_;
    return wr;
  }

  void wait() {
    const auto deadline = Clock::now() + patience(seconds(10));
    urma_cr_t cr = {};
    while (api_.urma_poll_jfc(jfc_, 1, &cr) == 0) {
      if (Clock::now() > deadline) throw std::runtime_error("no completion in time");
      ::sched_yield();
    }
    EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
  }

  const Api& api_;
  std::vector<char> memory_;
  urma_context_t* ctx_ = nullptr;
  urma_jfc_t* jfc_ = nullptr;
  urma_jfr_t* jfr_ = nullptr;
  urma_jetty_t* jetty_ = nullptr;
  urma_target_seg_t* segment_ = nullptr;
  urma_target_seg_t* remote_ = nullptr;
  urma_target_jetty_t* peer_ = nullptr;
};

Body speaker(char mine, char theirs) {
  return [mine, theirs](Channel& channel) {
    for (int round = 0; round < 3; ++round) {
      SCOPED_TRACE(round);
      Library library;
      const Api& api = *library;
      EXPECT_EQ(api.urma_init(nullptr), URMA_SUCCESS);
      Side side(api);
      side.converse(channel, mine, theirs);
      side.close();
      EXPECT_EQ(api.urma_uninit(), URMA_SUCCESS);
      library.close();
    }
  };
}

using DlopenTest = ProcessTest;

TEST_F(DlopenTest, EveryFunctionIsThere) {
  run_one([](Channel&) {
    Library library;
    EXPECT_EQ(library.functions(), 128);
    // RTLD_LOCAL hides it from everything else.
    EXPECT_EQ(::dlsym(RTLD_DEFAULT, "urma_init"), nullptr);
    library.close();
  });
}

TEST_F(DlopenTest, OpensTalksAndClosesThreeTimes) {
  run_two("first", speaker('a', 'b'), "second", speaker('b', 'a'));
}

}  // namespace
}  // namespace urma_test
