// SPDX-License-Identifier: MIT
//
// A provider written by hand, whose answers a test chooses.
#ifndef TEST_UNIT_CORE_FAKE_H_
#define TEST_UNIT_CORE_FAKE_H_

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <type_traits>

#include "urma/core/api/checks.h"
#include "urma/core/process/core.h"
#include "urma_api.h"
#include "urma_perf.h"

namespace core_fake {

// The next answers of the provider, and the calls it has seen.
struct Provider {
  urma_status_t status = URMA_SUCCESS;  // of every call that returns one
  int error = 0;                        // what a failing create leaves in errno
  bool fails = false;                   // create returns NULL
  int survivors_from = 0;               // first element that a failing batch leaves
  int calls = 0;
  urma_jfs_wr_t send_wr;
  urma_sge_t src, dst;
  urma_jfr_wr_t recv_wr;
  urma_seg_cfg_t seg_cfg;
  urma_notify_t notify;
};

inline Provider g_provider;

template <typename Object>
Object* make() {
  ++g_provider.calls;
  if (!g_provider.fails) return new Object();
  if (g_provider.error != 0) errno = g_provider.error;
  return nullptr;
}

template <typename Object>
urma_status_t unmake(Object* object) {
  ++g_provider.calls;
  if (g_provider.status == URMA_SUCCESS) delete object;
  return g_provider.status;
}

template <typename Object>
urma_status_t unmake_batch(Object** objects, int count, Object** bad) {
  const int gone = g_provider.status == URMA_SUCCESS ? count : g_provider.survivors_from;
  for (int i = 0; i < gone; ++i) delete objects[i];
  if (gone < count) *bad = objects[gone];
  return g_provider.status;
}

template <typename Object, typename Config>
urma_status_t alloc(urma_context_t*, Config*, Object** result) {
  if (g_provider.status == URMA_SUCCESS) *result = make<Object>();
  return g_provider.status;
}

// Slots of any signature that only answer.
template <typename Slot>
struct Answer;
template <typename Result, typename... Args>
struct Answer<Result (*)(Args...)> {
  static Result call(Args...) {
    ++g_provider.calls;
    if constexpr (!std::is_void_v<Result>) return static_cast<Result>(g_provider.status);
  }
};
template <typename Slot>
void answer(Slot& slot) {
  slot = Answer<Slot>::call;
}

template <typename Slot>
struct Create;
template <typename Object, typename... Args>
struct Create<Object* (*)(Args...)> {
  static Object* call(Args...) { return make<Object>(); }
};
template <typename Slot>
void creates(Slot& slot) {
  slot = Create<Slot>::call;
}

urma_status_t post_send(urma_jfs_t*, urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) {
  ++g_provider.calls;
  std::memcpy(&g_provider.send_wr, wr, sizeof *wr);
  if (wr->opcode != URMA_OPC_SEND) {
    g_provider.src = wr->rw.src.sge[0];
    g_provider.dst = wr->rw.dst.sge[0];
  } else {
    g_provider.src = wr->send.src.sge[0];
  }
  if (g_provider.status != URMA_SUCCESS) *bad_wr = wr;
  return g_provider.status;
}

urma_status_t post_receive(urma_jfr_t*, urma_jfr_wr_t* wr, urma_jfr_wr_t**) {
  ++g_provider.calls;
  g_provider.recv_wr = *wr;
  g_provider.src = wr->src.sge[0];
  return g_provider.status;
}

urma_target_seg_t* register_seg(urma_context_t*, urma_seg_cfg_t* cfg) {
  g_provider.seg_cfg = *cfg;
  return make<urma_target_seg_t>();
}

int wait_notify(urma_notifier_t*, uint32_t, urma_notify_t* notify, int) {
  *notify = g_provider.notify;
  return 1;
}

urma_ops_t full_ops() {
  urma_ops_t ops = {};
  ops.name = "fake";
  creates(ops.create_jfc), creates(ops.create_jfs), creates(ops.create_jfr);
  creates(ops.create_jetty), creates(ops.create_jetty_grp), creates(ops.create_jfce);
  creates(ops.create_notifier), creates(ops.alloc_token_id), creates(ops.alloc_token_id_ex);
  creates(ops.import_seg), creates(ops.import_jetty_async);
  ops.register_seg = register_seg;
  ops.delete_jfc = ops.free_jfc = unmake, ops.delete_jfs = ops.free_jfs = unmake;
  ops.delete_jfr = ops.free_jfr = unmake, ops.delete_jetty = ops.free_jetty = unmake;
  ops.delete_jetty_grp = unmake, ops.delete_jfce = unmake, ops.delete_notifier = unmake;
  ops.free_token_id = unmake, ops.unregister_seg = ops.unimport_seg = unmake;
  ops.unimport_jetty_async = unmake;
  ops.delete_jfc_batch = unmake_batch, ops.delete_jfs_batch = unmake_batch;
  ops.delete_jfr_batch = unmake_batch, ops.delete_jetty_batch = unmake_batch;
  ops.alloc_jfc = alloc, ops.alloc_jfs = alloc, ops.alloc_jfr = alloc, ops.alloc_jetty = alloc;
  answer(ops.set_jfc_opt), answer(ops.active_jfc), answer(ops.get_jfc_opt),
      answer(ops.deactive_jfc);
  answer(ops.set_jfs_opt), answer(ops.active_jfs), answer(ops.get_jfs_opt),
      answer(ops.deactive_jfs);
  answer(ops.set_jfr_opt), answer(ops.active_jfr), answer(ops.get_jfr_opt),
      answer(ops.deactive_jfr);
  answer(ops.set_jetty_opt), answer(ops.active_jetty), answer(ops.get_jetty_opt);
  answer(ops.deactive_jetty), answer(ops.bind_jetty), answer(ops.unbind_jetty);
  answer(ops.bind_jetty_ex), answer(ops.bind_jetty_async), answer(ops.unbind_jetty_async);
  answer(ops.ack_notify);
  answer(ops.rearm_jfc), answer(ops.wait_jfc), answer(ops.ack_jfc), answer(ops.poll_jfc);
  ops.wait_notify = wait_notify;
  ops.post_jfs_wr = post_send, ops.post_jfr_wr = post_receive;
  answer(ops.post_jetty_send_wr), answer(ops.post_jetty_recv_wr);
  return ops;
}

constexpr uint32_t kDepth = 64;  // limit of every queue of the fake device

class CoreApi : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static urma_provider_ops_t provider = {};
    provider.name = "fake";
    urma::DeviceDescription description = {};
    description.name = "fake0";
    description.type = URMA_TRANSPORT_UB;
    urma_device_cap_t& cap = description.attr.dev_cap;
    cap.max_jfc_depth = cap.max_jfs_depth = cap.max_jfr_depth = kDepth;
    cap.max_jfs_inline_len = 32;
    cap.max_jfs_sge = cap.max_jfs_rsge = cap.max_jfr_sge = 4;
    cap.max_jetty_in_jetty_grp = 2;
    urma::core::device_table().add_device(&provider, description);
    device_ = urma::core::device_table().find("fake0");
  }
  static void TearDownTestSuite() { urma::core::device_table().clear(); }

  void SetUp() override {
    g_provider = {};
    provider_ops_.name = "fake";
    provider_ops_.delete_context = [](urma_context_t*) { return g_provider.status; };
    device_->ops = &provider_ops_;
    device_->type = URMA_TRANSPORT_UB;
    std::strcpy(device_->name, "fake0");
    ops_ = full_ops();
    ctx_.dev = device_;
    ctx_.ops = &ops_;
    ctx_.dev_fd = -1;
    ctx_.uasid = 77;
    ctx_.ref.atomic_cnt = 1;
    jfc_cfg_.depth = kDepth;
    jfs_cfg_.depth = kDepth;
    jfs_cfg_.trans_mode = URMA_TM_RM;
    jfr_cfg_.depth = kDepth;
    jfr_cfg_.trans_mode = URMA_TM_RM;
  }

  void TearDown() override { EXPECT_EQ(children(), 0u); }

  unsigned long children() const { return ctx_.ref.atomic_cnt.load() - 1; }

  // A JFC and a JFR for tests that need them, and their end.
  void make_queues(urma_transport_mode_t mode = URMA_TM_RM) {
    jfc_ = urma_create_jfc(&ctx_, &jfc_cfg_);
    jfs_cfg_.jfc = jfr_cfg_.jfc = jfc_;
    jfs_cfg_.trans_mode = jfr_cfg_.trans_mode = mode;
    jfr_ = urma_create_jfr(&ctx_, &jfr_cfg_);
    jetty_cfg_.jfs_cfg = jfs_cfg_;
    jetty_cfg_.flag.bs.share_jfr = URMA_SHARE_JFR;
    jetty_cfg_.shared.jfr = jfr_;
  }
  void end_queues() {
    EXPECT_EQ(urma_delete_jfr(jfr_), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(jfc_), URMA_SUCCESS);
  }

  urma_provider_ops_t provider_ops_ = {};
  urma_ops_t ops_ = {};
  static inline urma_device_t* device_ = nullptr;
  urma_context_t ctx_ = {};
  urma_jfc_cfg_t jfc_cfg_ = {};
  urma_jfs_cfg_t jfs_cfg_ = {};
  urma_jfr_cfg_t jfr_cfg_ = {};
  urma_jetty_cfg_t jetty_cfg_ = {};
  urma_jfc_t* jfc_ = nullptr;
  urma_jfr_t* jfr_ = nullptr;
};

// Sets errno to another value first, to detect a call that does not set it.
#define EXPECT_NULL(call, error) \
  do {                           \
    errno = EPROTO;              \
    EXPECT_EQ((call), nullptr);  \
    EXPECT_EQ(errno, (error));   \
  } while (0)
#define EXPECT_STATUS(call, status) \
  do {                              \
    errno = EPROTO;                 \
    EXPECT_EQ((call), (status));    \
    EXPECT_EQ(errno, EPROTO);       \
  } while (0)

}  // namespace core_fake

#endif  // TEST_UNIT_CORE_FAKE_H_
