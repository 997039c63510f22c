/* SPDX-License-Identifier: MIT */

#include "line.h"

#include "device.h"
#include "exchange.h"

void post_receive(struct line* line) {
  urma_sge_t sge = {.addr = (uintptr_t)&line->in, .len = sizeof(line->in), .tseg = line->seg};
  urma_jfr_wr_t wr = {.src = {.sge = &sge, .num_sge = 1}}, *bad;
  ok(urma_post_jetty_recv_wr(line->jetty, &wr, &bad), "urma_post_jetty_recv_wr");
}

// Inline: the number is copied while posting, so it may be anywhere.
void send_number(struct line* line, uint32_t number) {
  urma_sge_t sge = {.addr = (uintptr_t)&number, .len = sizeof(number)};
  urma_jfs_wr_t wr = {.opcode = URMA_OPC_SEND, .tjetty = line->peer}, *bad;
  wr.flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
  wr.flag.bs.inline_flag = URMA_INLINE_ENABLE;
  wr.send.src = (urma_sg_t){.sge = &sge, .num_sge = 1};
  ok(urma_post_jetty_send_wr(line->jetty, &wr, &bad), "urma_post_jetty_send_wr");
}

static void create_jetty(struct line* line, urma_context_t* ctx) {
  urma_jfr_cfg_t jfr_cfg = {.depth = LINE_DEPTH, .trans_mode = URMA_TM_RM, .max_sge = 1};
  jfr_cfg.jfc = line->jfc;
  line->jfr = urma_create_jfr(ctx, &jfr_cfg);
  require(line->jfr != NULL, "urma_create_jfr");
  urma_jetty_cfg_t cfg = {.flag.bs.share_jfr = URMA_SHARE_JFR, .shared.jfr = line->jfr};
  cfg.jfs_cfg = (urma_jfs_cfg_t){.depth = LINE_DEPTH, .trans_mode = URMA_TM_RM, .max_sge = 1};
  cfg.jfs_cfg.jfc = line->jfc;
  cfg.jfs_cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  cfg.jfs_cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  line->jetty = urma_create_jetty(ctx, &cfg);
  require(line->jetty != NULL, "urma_create_jetty");
}

static void find_peer(struct line* line, int sock) {
  urma_rjetty_t remote = {.trans_mode = URMA_TM_RM, .type = URMA_JETTY};
  swap_over(sock, &line->jetty->jetty_id, &remote.jetty_id, sizeof(remote.jetty_id));
  line->peer = urma_import_jetty(line->jetty->urma_ctx, &remote, NULL);
  require(line->peer != NULL, "urma_import_jetty");
}

void open_line(struct line* line, urma_context_t* ctx, urma_jfce_t* events, int sock) {
  urma_jfc_cfg_t jfc_cfg = {.depth = 2 * LINE_DEPTH, .jfce = events, .user_ctx = (uintptr_t)line};
  line->jfc = urma_create_jfc(ctx, &jfc_cfg);
  require(line->jfc != NULL, "urma_create_jfc");
  urma_seg_cfg_t seg_cfg = {.va = (uintptr_t)&line->in, .len = sizeof(line->in)};
  seg_cfg.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
  line->seg = urma_register_seg(ctx, &seg_cfg);
  require(line->seg != NULL, "urma_register_seg");
  create_jetty(line, ctx);
  post_receive(line);
  find_peer(line, sock);
  if (events != NULL) ok(urma_rearm_jfc(line->jfc, false), "urma_rearm_jfc");
}

void take_answer(struct line* line, uint32_t expected) {
  wait_for(line->jfc);
  wait_for(line->jfc);  // one record per direction, in any order
  expect(line->in == expected, "an answer");
  post_receive(line);
}

void close_line(struct line* line) {
  ok(urma_unimport_jetty(line->peer), "urma_unimport_jetty");
  ok(urma_delete_jetty(line->jetty), "urma_delete_jetty");
  ok(urma_delete_jfr(line->jfr), "urma_delete_jfr");
  ok(urma_delete_jfc(line->jfc), "urma_delete_jfc");
  ok(urma_unregister_seg(line->seg), "urma_unregister_seg");
}
