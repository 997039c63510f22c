// SPDX-License-Identifier: MIT
//
// send_recv_event.c in C++: messages between two programs that sleep until one arrives.
//
//   send_recv_event_cc server [port [address]] | client host [port]
//
// Arm, wait, poll; the destructor of urma::Events acknowledges the events.

#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>

#include "device.h"
#include "exchange.h"
#include "urma.hpp"

namespace {

constexpr uint32_t kMaxMessage = 32 * 1024, kDepth = 16;
constexpr int kPatienceMs = 10000;

struct Buffer {
  std::array<char, kMaxMessage> in, out;
};

// Everything in the order of creation; destroyed in reverse order.
struct Side {
  Side(urma_context_t* context, Buffer* memory)
      : buffer(memory),
        channel(urma_create_jfce(context)),
        sent(make_jfc(context, nullptr)),
        arrived(make_jfc(context, channel)),
        jfr(make_jfr(context)),
        jetty(make_jetty(context)),
        seg(register_buffer(context)) {}

  static urma_jfc_t* make_jfc(urma_context_t* context, urma_jfce_t* events) {
    urma_jfc_cfg_t cfg = {};
    cfg.depth = kDepth;
    cfg.jfce = events;
    return urma_create_jfc(context, &cfg);
  }

  urma_jfr_t* make_jfr(urma_context_t* context) const {
    urma_jfr_cfg_t cfg = {};
    cfg.depth = kDepth;
    cfg.trans_mode = URMA_TM_RM;
    cfg.max_sge = 1;
    cfg.jfc = arrived;
    return urma_create_jfr(context, &cfg);
  }

  urma_jetty_t* make_jetty(urma_context_t* context) const {
    urma_jetty_cfg_t cfg = {};
    cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
    cfg.shared.jfr = jfr;
    cfg.jfs_cfg.depth = kDepth;
    cfg.jfs_cfg.trans_mode = URMA_TM_RM;
    cfg.jfs_cfg.max_sge = 1;
    cfg.jfs_cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
    cfg.jfs_cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
    cfg.jfs_cfg.jfc = sent;
    return urma_create_jetty(context, &cfg);
  }

  urma_target_seg_t* register_buffer(urma_context_t* context) const {
    urma_seg_cfg_t cfg = {};
    cfg.va = reinterpret_cast<uintptr_t>(buffer);
    cfg.len = sizeof *buffer;
    cfg.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
    return urma_register_seg(context, &cfg);
  }

  void post_receive() {
    urma_sge_t piece = {reinterpret_cast<uintptr_t>(buffer->in.data()), kMaxMessage, seg, nullptr};
    urma_jfr_wr_t request = {}, *bad;
    request.src = {&piece, 1};
    urma::check(urma_post_jetty_recv_wr(jetty, &request, &bad), "posting a receive");
  }

  void send(urma_target_jetty_t* peer, uint32_t size) {
    urma_sge_t piece = {reinterpret_cast<uintptr_t>(buffer->out.data()), size, seg, nullptr};
    urma_jfs_wr_t request = {}, *bad;
    request.opcode = URMA_OPC_SEND;
    request.flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
    request.tjetty = peer;
    request.send.src = {&piece, 1};
    urma::check(urma_post_jetty_send_wr(jetty, &request, &bad), "posting a send");
    for (uint64_t polls = 0;; idle(polls++)) {
      const urma::Completions<1> done(sent);
      if (done.empty()) continue;
      urma::check(done.begin()->status, "a send");
      return;
    }
  }

  // If something has arrived before the JFC is armed, the event comes at once.
  uint32_t receive() {
    for (;;) {
      const urma::Completions<1> done(arrived);
      if (!done.empty()) {
        urma::check(done.begin()->status, "a receive");
        return done.begin()->completion_len;
      }
      urma::check(urma_rearm_jfc(arrived, false), "urma_rearm_jfc");
      const urma::Events<1> woken(channel, kPatienceMs);
      if (woken.empty()) errno = ETIMEDOUT;  // the peer is probably gone
      require(!woken.empty(), "waiting for the peer");
    }
  }

  Buffer* buffer;
  urma::Jfce channel;
  urma::Jfc sent, arrived;
  urma::Jfr jfr;
  urma::Jetty jetty;
  urma::Segment seg;
};

void run(int sock, bool is_server) {
  static Buffer buffer;
  urma::Library library;
  urma::Context context(urma_create_context(choose_device(), 0));
  Side side(context, &buffer);
  side.post_receive();
  urma_rjetty_t remote = {};
  remote.trans_mode = URMA_TM_RM;
  remote.type = URMA_JETTY;
  swap_over(sock, &side.jetty->jetty_id, &remote.jetty_id, sizeof remote.jetty_id);
  urma::RemoteJetty peer(urma_import_jetty(context, &remote, nullptr));

  for (uint32_t size = 64; size <= kMaxMessage; size *= 8) {
    write_text(buffer.out.data(), size, is_server ? "server" : "client");
    if (!is_server) side.send(peer, size);
    expect(side.receive() == size, "the length of a message");
    check_text(buffer.in.data(), size);
    side.post_receive();
    if (is_server) side.send(peer, size);
  }
  in_step(sock);  // the peer may still wait for its last completion
}

}  // namespace

int main(int argc, char** argv) try {
  bool is_server;
  const int sock = meet(argc, argv, &is_server);
  run(sock, is_server);
} catch (const std::exception& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
