// SPDX-License-Identifier: MIT
//
// send_recv_polling.c in C++: two programs send each other messages and poll for their completions.
//
//   send_recv_polling_cc server [port] | client host [port]
//
// The calls are the same; what was made ends by itself, the last first.

#include <cstdio>
#include <vector>

#include "device.h"
#include "exchange.h"
#include "urma.hpp"

namespace {

constexpr uint32_t kMaxMessage = 64 * 1024, kDepth = 16;

// Queues in the order in which they are made.
struct Queues {
  explicit Queues(urma_context_t* context)
      : sent(make_jfc(context)),
        arrived(make_jfc(context)),
        jfr(make_jfr(context, arrived)),
        jetty(make_jetty(context, jfr, sent)) {}

  static urma_jfc_t* make_jfc(urma_context_t* context) {
    urma_jfc_cfg_t cfg = {};
    cfg.depth = kDepth;
    return urma_create_jfc(context, &cfg);
  }

  static urma_jfr_t* make_jfr(urma_context_t* context, urma_jfc_t* jfc) {
    urma_jfr_cfg_t cfg = {};
    cfg.depth = kDepth;
    cfg.trans_mode = URMA_TM_RM;
    cfg.max_sge = 1;
    cfg.min_rnr_timer = URMA_TYPICAL_MIN_RNR_TIMER;
    cfg.jfc = jfc;
    return urma_create_jfr(context, &cfg);
  }

  static urma_jetty_t* make_jetty(urma_context_t* context, urma_jfr_t* jfr, urma_jfc_t* jfc) {
    urma_jetty_cfg_t cfg = {};
    cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
    cfg.shared.jfr = jfr;
    cfg.jfs_cfg.depth = kDepth;
    cfg.jfs_cfg.trans_mode = URMA_TM_RM;
    cfg.jfs_cfg.max_sge = 1;
    cfg.jfs_cfg.max_rsge = 1;
    cfg.jfs_cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
    cfg.jfs_cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
    cfg.jfs_cfg.jfc = jfc;
    return urma_create_jetty(context, &cfg);
  }

  urma::Jfc sent, arrived;
  urma::Jfr jfr;
  urma::Jetty jetty;
};

urma::Segment register_memory(urma_context_t* context, std::vector<char>* memory) {
  urma_seg_cfg_t cfg = {};
  cfg.va = reinterpret_cast<uintptr_t>(memory->data());
  cfg.len = memory->size();
  cfg.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
  return urma::Segment(urma_register_seg(context, &cfg));
}

urma::RemoteJetty import_peer(urma_context_t* context, int sock, const urma_jetty_id_t& own) {
  urma_rjetty_t remote = {};
  remote.trans_mode = URMA_TM_RM;
  remote.type = URMA_JETTY;
  swap_over(sock, &own, &remote.jetty_id, sizeof remote.jetty_id);
  return urma::RemoteJetty(urma_import_jetty(context, &remote, nullptr));
}

// Returns how many bytes the next finished request moved.
uint32_t finished(urma_jfc_t* jfc) {
  for (uint64_t polls = 0;; idle(polls++)) {
    for (const urma_cr_t& record : urma::Completions<1>(jfc)) {
      urma::check(record.status, "a request");
      return record.completion_len;
    }
  }
}

void post_receive(const Queues& queues, urma_target_seg_t* seg, void* place) {
  urma_sge_t piece = {reinterpret_cast<uintptr_t>(place), kMaxMessage, seg, nullptr};
  urma_jfr_wr_t request = {}, *bad;
  request.src = {&piece, 1};
  urma::check(urma_post_jetty_recv_wr(queues.jetty, &request, &bad), "posting a receive");
}

void send(const Queues& queues, urma_target_jetty_t* peer, urma_target_seg_t* seg, const void* text,
          uint32_t size) {
  urma_sge_t piece = {reinterpret_cast<uintptr_t>(text), size, seg, nullptr};
  urma_jfs_wr_t request = {}, *bad;
  request.opcode = URMA_OPC_SEND;
  request.flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
  request.tjetty = peer;
  request.send.src = {&piece, 1};
  urma::check(urma_post_jetty_send_wr(queues.jetty, &request, &bad), "posting a send");
  finished(queues.sent);
}

void run(int sock, bool is_server) {
  std::vector<char> in(kMaxMessage), out(kMaxMessage);
  urma::Library library;
  urma::Context context(urma_create_context(choose_device(), 0));
  urma::Segment in_seg = register_memory(context, &in), out_seg = register_memory(context, &out);
  Queues queues(context);
  post_receive(queues, in_seg, in.data());
  urma::RemoteJetty peer = import_peer(context, sock, queues.jetty->jetty_id);

  // The client speaks first. Whoever answers has posted the next receive before.
  for (const uint32_t size : {64U, 1000U, 4096U, kMaxMessage}) {
    write_text(out.data(), size, is_server ? "server" : "client");
    if (!is_server) send(queues, peer, out_seg, out.data(), size);
    require(finished(queues.arrived) == size, "the length of a message");
    check_text(in.data(), size);
    post_receive(queues, in_seg, in.data());
    if (is_server) send(queues, peer, out_seg, out.data(), size);
  }
  in_step(sock);  // the peer may still wait for its last completion
}

}  // namespace

int main(int argc, char** argv) try {
  bool is_server;
  const int sock = meet(argc, argv, &is_server);
  run(sock, is_server);
} catch (const urma::Failure& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
