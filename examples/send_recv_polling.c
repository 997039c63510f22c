/* SPDX-License-Identifier: MIT */

// Send and receive, polling: two programs send each other messages and poll for their completions.
//
//   send_recv_polling server [port [address]] | client host [port]
//
// Each has a jetty, which is a send queue (JFS) and a receive queue (JFR) under one id, and two
// completion queues (JFC): one for finished sends, the other for received messages.

#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "exchange.h"
#include "urma_api.h"

enum { MAX_MESSAGE = 64 * 1024, DEPTH = 16, ROUNDS = 2000 };

static const uint32_t sizes[] = {64, 1000, 4096, MAX_MESSAGE};

static urma_context_t* ctx;
static urma_jfc_t *sent, *arrived;
static urma_jfr_t* jfr;
static urma_jetty_t* jetty;
static urma_target_jetty_t* peer;
static urma_target_seg_t* seg;
static struct { char in[MAX_MESSAGE], out[MAX_MESSAGE]; } * buffer;

static void create_queues(void) {
  urma_jfc_cfg_t jfc_cfg = {.depth = DEPTH};
  sent = urma_create_jfc(ctx, &jfc_cfg);
  arrived = urma_create_jfc(ctx, &jfc_cfg);
  require(sent != NULL && arrived != NULL, "urma_create_jfc");

  urma_jfr_cfg_t jfr_cfg = {.depth = DEPTH,
                            .trans_mode = URMA_TM_RM,
                            .max_sge = 1,
                            .jfc = arrived,
                            .min_rnr_timer = URMA_TYPICAL_MIN_RNR_TIMER};
  jfr = urma_create_jfr(ctx, &jfr_cfg);
  require(jfr != NULL, "urma_create_jfr");

  urma_jetty_cfg_t cfg = {.flag.bs.share_jfr = URMA_SHARE_JFR,
                          .shared.jfr = jfr,
                          .jfs_cfg = {.depth = DEPTH,
                                      .trans_mode = URMA_TM_RM,
                                      .max_sge = 1,
                                      .max_rsge = 1,
                                      .rnr_retry = URMA_TYPICAL_RNR_RETRY,
                                      .err_timeout = URMA_TYPICAL_ERR_TIMEOUT,
                                      .jfc = sent}};
  jetty = urma_create_jetty(ctx, &cfg);
  require(jetty != NULL, "urma_create_jetty");
}

// Ordinary memory will do, but messages must be in registered memory.
static void register_buffer(void) {
  buffer = malloc(sizeof(*buffer));
  require(buffer != NULL, "malloc");
  urma_seg_cfg_t cfg = {
      .va = (uintptr_t)buffer, .len = sizeof(*buffer), .flag.bs.access = URMA_ACCESS_LOCAL_ONLY};
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

// Sends the contents of the buffer; it belongs to the device until the completion has been polled.
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

// The client speaks first. The other side has posted its next receive before it answers, so a
// message always finds a receive.
static void talk(bool is_server) {
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    write_text(buffer->out, sizes[i], is_server ? "server" : "client");
    if (!is_server) send_message(sizes[i]);
    expect(wait_for(arrived) == sizes[i], "the length of a message");
    check_text(buffer->in, sizes[i]);
    post_receive();
    if (is_server) send_message(sizes[i]);
  }
}

static void measure(bool is_server) {
  static uint64_t times[ROUNDS];
  for (size_t i = 0; i < ROUNDS; i++) {
    uint64_t start = now_ns();
    if (!is_server) send_message(8);
    expect(wait_for(arrived) == 8, "the length of a short message");
    post_receive();
    if (is_server) send_message(8);
    times[i] = (now_ns() - start) / 2;
  }
  if (!is_server) print_latency("half a round trip of 8 bytes", times, ROUNDS);
}

// Each object is destroyed before those that it uses; none may be destroyed while it is in use.
static void close_all(void) {
  ok(urma_unimport_jetty(peer), "urma_unimport_jetty");
  ok(urma_delete_jetty(jetty), "urma_delete_jetty");
  ok(urma_delete_jfr(jfr), "urma_delete_jfr");
  ok(urma_delete_jfc(sent), "urma_delete_jfc");
  ok(urma_delete_jfc(arrived), "urma_delete_jfc");
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
