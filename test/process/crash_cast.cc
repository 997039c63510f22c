// SPDX-License-Identifier: MIT
#include "test/process/crash_cast.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace urma_test {
namespace {

constexpr uint32_t kBoundDepth = 32;

template <typename T>
T* made(T* object, const char* call) {
  if (object == nullptr) throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
  return object;
}

}  // namespace

const char* name_of(Role role) {
  constexpr std::array kNames = {"sender",    "receiver", "accessor", "importer",
                                 "registrar", "binder",   "starter"};
  return kNames[static_cast<size_t>(role)];
}

BoundQueue::BoundQueue(Endpoint& endpoint) : endpoint_(endpoint) {
  urma_jfr_cfg_t jfr_cfg = endpoint.jfr->jfr_cfg;
  jfr_cfg.id = 0;
  jfr_cfg.trans_mode = URMA_TM_RC;
  jfr_cfg.flag.bs.order_type = URMA_DEF_ORDER;
  jfr_cfg.depth = kBoundDepth;
  jfr_ = made(urma_create_jfr(endpoint.ctx, &jfr_cfg), "urma_create_jfr");
  urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
  cfg.id = 0;
  cfg.jfs_cfg.trans_mode = URMA_TM_RC;
  cfg.jfs_cfg.flag.bs.order_type = URMA_DEF_ORDER;
  cfg.shared.jfr = jfr_;
  jetty = made(urma_create_jetty(endpoint.ctx, &cfg), "urma_create_jetty");
}

void BoundQueue::close() {
  EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfr(jfr_), URMA_SUCCESS);
}

QueueId BoundQueue::id() const { return {endpoint_.ctx->eid, jetty->jetty_id.id, kNoToken, true}; }

urma_target_jetty_t* BoundQueue::import(const QueueId& id) {
  urma_rjetty_t remote = {};
  remote.jetty_id.eid = id.eid;
  remote.jetty_id.id = id.id;
  remote.trans_mode = URMA_TM_RC;
  remote.type = URMA_JETTY;
  remote.tp_type = URMA_RTP;
  urma_token_t token = {};
  return made(urma_import_jetty(endpoint_.ctx, &remote, &token), "urma_import_jetty");
}

void BoundQueue::post_receive(urma_target_seg_t* segment, void* memory, size_t bytes,
                              uint64_t user_ctx) {
  urma_sge_t sge = piece(segment, memory, bytes);
  urma_jfr_wr_t wr = {};
  wr.src = {&sge, 1};
  wr.user_ctx = user_ctx;
  urma_jfr_wr_t* bad = nullptr;
  EXPECT_EQ(urma_post_jetty_recv_wr(jetty, &wr, &bad), URMA_SUCCESS);
}

void BoundQueue::post(urma_jfs_wr_t wr) {
  urma_jfs_wr_t* bad = nullptr;
  EXPECT_EQ(urma_post_jetty_send_wr(jetty, &wr, &bad), URMA_SUCCESS);
}

}  // namespace urma_test
