/* SPDX-License-Identifier: MIT */

// Send and receive, by events: two programs send each other messages and sleep until one arrives.
//
//   send_recv_event server [port [address]] | client host [port]
//
// As in send_recv_polling, each has a jetty and two completion queues (JFC). The one for received
// messages raises events at an event channel (JFCE), one each time it is armed: arm, wait,
// acknowledge, poll. A program that also waits for other things gives the channel's fd to epoll.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "exchange.h"
#include "urma_api.h"

enum { MAX_MESSAGE = 32 * 1024, DEPTH = 16, ROUNDS = 2000, PATIENCE_MS = 10000 };

static urma_context_t* ctx;
static urma_jfce_t* events;
static urma_jfc_t *sent, *arrived;
static urma_jfr_t* jfr;
static urma_jetty_t* jetty;
static urma_target_jetty_t* peer;
static urma_target_seg_t* seg;
static struct { char in[MAX_MESSAGE], out[MAX_MESSAGE]; } * buffer;

static void create_queues(void) {
  events = urma_create_jfce(ctx);
  require(events != NULL, "urma_create_jfce");
  sent = urma_create_jfc(ctx, &(urma_jfc_cfg_t){.depth = DEPTH});
  arrived = urma_create_jfc(ctx, &(urma_jfc_cfg_t){.depth = DEPTH, .jfce = events});
  require(sent != NULL && arrived != NULL, "urma_create_jfc");
  urma_jfr_cfg_t jfr_cfg = {.depth = DEPTH, .trans_mode = URMA_TM_RM, .max_sge = 1, .jfc = arrived};
  jfr = urma_create_jfr(ctx, &jfr_cfg);
  require(jfr != NULL, "urma_create_jfr");
  urma_jfs_cfg_t jfs_cfg = {.depth = DEPTH, .trans_mode = URMA_TM_RM, .max_sge = 1, .jfc = sent};
  jfs_cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  jfs_cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  urma_jetty_cfg_t cfg = {
      .flag.bs.share_jfr = URMA_SHARE_JFR, .shared.jfr = jfr, .jfs_cfg = jfs_cfg};
  jetty = urma_create_jetty(ctx, &cfg);
  require(jetty != NULL, "urma_create_jetty");
}

static void register_buffer(void) {
  buffer = malloc(sizeof(*buffer));
  require(buffer != NULL, "malloc");
  urma_seg_cfg_t cfg = {.va = (uintptr_t)buffer, .len = sizeof(*buffer)};
  cfg.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
  seg = urma_register_seg(ctx, &cfg);
  require(seg != NULL, "urma_register_seg");
}

static void import_peer(int sock) {
  urma_rjetty_t remote = {.trans_mode = URMA_TM_RM, .type = URMA_JETTY};
  swap_over(sock, &jetty->jetty_id, &remote.jetty_id, sizeof(remote.jetty_id));
  peer = urma_import_jetty(ctx, &remote, NULL);
  require(peer != NULL, "urma_import_jetty");
}

static void post_receive(void) {
  urma_sge_t sge = {.addr = (uintptr_t)buffer->in, .len = MAX_MESSAGE, .tseg = seg};
  urma_jfr_wr_t wr = {.src = {.sge = &sge, .num_sge = 1}}, *bad;
  ok(urma_post_jetty_recv_wr(jetty, &wr, &bad), "urma_post_jetty_recv_wr");
}

static void send_message(uint32_t size) {
  urma_sge_t sge = {.addr = (uintptr_t)buffer->out, .len = size, .tseg = seg};
  urma_jfs_wr_t wr = {.opcode = URMA_OPC_SEND,
                      .flag.bs.complete_enable = URMA_COMPLETE_ENABLE,
                      .tjetty = peer,
                      .send.src = {.sge = &sge, .num_sge = 1}},
                *bad;
  ok(urma_post_jetty_send_wr(jetty, &wr, &bad), "urma_post_jetty_send_wr");
  wait_for(sent);
}

// Arms an event, and sleeps until it comes. If something has arrived before, the event comes at
// once, so a message between the empty poll and this call is not missed.
static void sleep_until_event(void) {
  urma_jfc_t* woken = NULL;
  ok(urma_rearm_jfc(arrived, false), "urma_rearm_jfc");
  int n = urma_wait_jfc(events, 1, PATIENCE_MS, &woken);
  if (n == 0) errno = ETIMEDOUT;  // the peer is probably gone
  require(n == 1, "urma_wait_jfc");
  urma_ack_jfc(&woken, &(uint32_t){1}, 1);
}

static void receive_message(uint32_t size) {
  urma_cr_t cr;
  int n;
  while ((n = urma_poll_jfc(arrived, 1, &cr)) == 0) sleep_until_event();
  require(n == 1, "urma_poll_jfc");
  expect(succeeded(&cr, "a receive") == size, "the size of a message");
}

// The client speaks first. The other side has posted its next receive before it answers.
static void talk(bool is_server) {
  for (uint32_t size = 64; size <= MAX_MESSAGE; size *= 8) {
    write_text(buffer->out, size, is_server ? "server" : "client");
    if (!is_server) send_message(size);
    receive_message(size);
    check_text(buffer->in, size);
    post_receive();
    if (is_server) send_message(size);
  }
}

static void measure(bool is_server) {
  static uint64_t times[ROUNDS];
  for (size_t i = 0; i < ROUNDS; i++) {
    uint64_t start = now_ns();
    if (!is_server) send_message(8);
    receive_message(8);
    post_receive();
    if (is_server) send_message(8);
    times[i] = (now_ns() - start) / 2;
  }
  if (!is_server)
    print_latency("half a round trip of 8 bytes, asleep unless one was there", times, ROUNDS);
}

static void close_all(void) {
  ok(urma_unimport_jetty(peer), "urma_unimport_jetty");
  ok(urma_delete_jetty(jetty), "urma_delete_jetty");
  ok(urma_delete_jfr(jfr), "urma_delete_jfr");
  ok(urma_delete_jfc(sent), "urma_delete_jfc");
  ok(urma_delete_jfc(arrived), "urma_delete_jfc");
  ok(urma_delete_jfce(events), "urma_delete_jfce");
  ok(urma_unregister_seg(seg), "urma_unregister_seg");
  close_device(ctx);
  free(buffer);
}

int main(int argc, char** argv) {
  bool is_server;
  int sock = meet(argc, argv, &is_server);
  ctx = open_device();
  create_queues();
  register_buffer();
  post_receive();
  import_peer(sock);
  talk(is_server);
  measure(is_server);
  in_step(sock);  // the peer may still wait for its last completion
  close_all();
}
