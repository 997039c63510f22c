// SPDX-License-Identifier: MIT
//
// event_loop.c in C++: one thread serves 64 jetties of four clients, and sleeps in poll() until a
// message has arrived at any of them.
//
//   event_loop_cc server [port] | client host [port]
#include <poll.h>

#include <cstdio>
#include <deque>

#include "device.h"
#include "exchange.h"
#include "several.h"
#include "urma.hpp"

namespace {

constexpr uint32_t kClients = 4, kEach = 16, kLines = kClients * kEach, kRounds = 200;

// A jetty over which numbers go to and fro. Must not move.
struct Line {
  Line(urma_context_t* context, urma_jfce_t* events, int sock) {
    urma_jfc_cfg_t completions = {};
    completions.depth = 16;
    completions.jfce = events;
    completions.user_ctx = reinterpret_cast<uintptr_t>(this);
    jfc = urma::Jfc(urma_create_jfc(context, &completions));
    make_jetty(context);
    urma_seg_cfg_t number = {};
    number.va = reinterpret_cast<uintptr_t>(&in);
    number.len = sizeof in;
    number.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
    seg = urma::Segment(urma_register_seg(context, &number));
    post_receive();
    if (events != nullptr) urma::check(urma_rearm_jfc(jfc, false), "urma_rearm_jfc");
    urma_rjetty_t remote = {};
    remote.trans_mode = URMA_TM_RM;
    remote.type = URMA_JETTY;
    swap_over(sock, &jetty->jetty_id, &remote.jetty_id, sizeof remote.jetty_id);
    peer = urma::RemoteJetty(urma_import_jetty(context, &remote, nullptr));
  }

  void make_jetty(urma_context_t* context) {
    urma_jfr_cfg_t receives = {};
    receives.depth = 4;
    receives.trans_mode = URMA_TM_RM;
    receives.max_sge = 1;
    receives.jfc = jfc;
    jfr = urma::Jfr(urma_create_jfr(context, &receives));
    urma_jetty_cfg_t cfg = {};
    cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
    cfg.shared.jfr = jfr;
    cfg.jfs_cfg.depth = 8;
    cfg.jfs_cfg.trans_mode = URMA_TM_RM;
    cfg.jfs_cfg.max_sge = 1;
    cfg.jfs_cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
    cfg.jfs_cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
    cfg.jfs_cfg.jfc = jfc;
    jetty = urma::Jetty(urma_create_jetty(context, &cfg));
  }

  void post_receive() {
    urma_sge_t piece = {reinterpret_cast<uintptr_t>(&in), sizeof in, seg, nullptr};
    urma_jfr_wr_t request = {{&piece, 1}, 0, nullptr}, *bad;
    urma::check(urma_post_jetty_recv_wr(jetty, &request, &bad), "posting a receive");
  }

  void send(uint32_t number) {
    urma_sge_t piece = {reinterpret_cast<uintptr_t>(&number), sizeof number, nullptr, nullptr};
    urma_jfs_wr_t request = {}, *bad;
    request.opcode = URMA_OPC_SEND;
    request.flag.bs.complete_enable = URMA_COMPLETE_ENABLE;  // else its place is never free again
    request.flag.bs.inline_flag = URMA_INLINE_ENABLE;
    request.tjetty = peer;
    request.send.src = {&piece, 1};
    urma::check(urma_post_jetty_send_wr(jetty, &request, &bad), "posting a number");
  }

  uint32_t take() {
    uint32_t taken = 0;
    for (const urma_cr_t& record : urma::Completions<8>(jfc)) {
      urma::check(record.status, "a request");
      taken += record.flag.bs.s_r;
    }
    return taken;
  }

  uint32_t in = 0;  // the number that came last
  urma::Jfc jfc;
  urma::Jfr jfr;
  urma::Jetty jetty;
  urma::Segment seg;
  urma::RemoteJetty peer;
};

// Answers every number with the next one. A queue is armed again before it is polled: what arrives
// after the poll raises the next event. Tells how many there were.
uint32_t take_events(urma_jfce_t* channel) {
  uint32_t answers = 0;
  for (urma_jfc_t* fired : urma::Events<kEach>(channel, 0)) {
    urma::check(urma_rearm_jfc(fired, false), "urma_rearm_jfc");
    Line& line = *reinterpret_cast<Line*>(fired->jfc_cfg.user_ctx);
    while (line.take() != 0) {
      const uint32_t answer = line.in + 1;
      line.post_receive();
      line.send(answer);
      ++answers;
    }
  }
  return answers;
}

void serve(const int* socks) {
  urma::Library library;
  urma::Context context(urma_create_context(choose_device(), 0));
  urma::Jfce channel(urma_create_jfce(context));
  std::deque<Line> lines;
  for (uint32_t i = 0; i < kLines; ++i) lines.emplace_back(context, channel, socks[i / kEach]);
  pollfd watched = {channel->fd, POLLIN, 0};  // beside whatever else a program waits for
  for (uint32_t answered = 0; answered < kLines * kRounds; answered += take_events(channel))
    require(::poll(&watched, 1, 10000) > 0, "poll");
  std::printf("%u jetties, %u numbers answered: ok\n", kLines, kLines * kRounds);
  for (uint32_t i = 0; i < kClients; ++i) in_step(socks[i]);
}

void work(int sock) {
  urma::Library library;
  urma::Context context(urma_create_context(choose_device(), 0));
  std::deque<Line> lines;
  for (uint32_t i = 0; i < kEach; ++i) lines.emplace_back(context, nullptr, sock);
  for (uint32_t number = 0; number < kRounds; ++number) {
    for (Line& line : lines) line.send(number);
    for (Line& line : lines) {
      for (uint64_t polls = 0; line.take() == 0;) idle(polls++);
      require(line.in == number + 1, "an answer");
      line.post_receive();
    }
  }
  in_step(sock);
}

}  // namespace

int main(int argc, char** argv) try {
  int socks[kClients];
  meet_several(argc, argv, socks, kClients) ? serve(socks) : work(socks[0]);
} catch (const urma::Failure& failure) {
  give_up(failure.what());
}
