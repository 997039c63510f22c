/* SPDX-License-Identifier: MIT */

// One to many: one send queue (JFS) of the server sends to receive queues (JFR) of several
// processes.
//
//   one_to_many server [port [address]] | client host [port]
//
// `client` starts four receivers, each a process with its own JFR. In mode RM a queue needs no
// connection: each request names its target. Messages to one target arrive in the order of posting,
// and the completions of a JFS come in that order too, for all targets.

#include <stdio.h>
#include <string.h>

#include "device.h"
#include "exchange.h"
#include "several.h"
#include "urma_api.h"

enum { RECEIVERS = 4, MESSAGES = 5000, BYTES = 1024, SLOTS = 16, TOTAL = RECEIVERS * MESSAGES };

struct message {
  uint32_t receiver, number;
  unsigned char data[BYTES - 8];
};

struct offer {  // what the sender and a receiver tell each other
  urma_jetty_id_t queue;
  uint32_t receiver, unused;  // without it the bytes after the number would be sent uninitialized
};

static urma_context_t* ctx;
static urma_jfc_t* jfc;
static struct message slots[SLOTS];
static urma_target_seg_t* seg;

static void set_up(void) {
  ctx = open_device();
  jfc = urma_create_jfc(ctx, &(urma_jfc_cfg_t){.depth = SLOTS});
  require(jfc != NULL, "urma_create_jfc");
  urma_seg_cfg_t cfg = {.va = (uintptr_t)slots, .len = sizeof(slots)};
  cfg.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
  seg = urma_register_seg(ctx, &cfg);
  require(seg != NULL, "urma_register_seg");
}

static void tear_down(void) {
  ok(urma_delete_jfc(jfc), "urma_delete_jfc");
  ok(urma_unregister_seg(seg), "urma_unregister_seg");
  close_device(ctx);
}

// Each message differs from all others of all receivers.
static void fill(struct message* message, uint32_t receiver, uint32_t number) {
  message->receiver = receiver;
  message->number = number;
  for (size_t i = 0; i < sizeof(message->data); i++)
    message->data[i] = (unsigned char)((receiver + 1) * 89 + number * 7 + i);
}

static void post_message(urma_jfs_t* jfs, urma_target_jetty_t** targets, uint32_t i) {
  struct message* message = &slots[i % SLOTS];
  fill(message, i % RECEIVERS, i / RECEIVERS);
  urma_sge_t sge = {.addr = (uintptr_t)message, .len = sizeof(*message), .tseg = seg};
  urma_jfs_wr_t wr = {.opcode = URMA_OPC_SEND, .user_ctx = i}, *bad;
  wr.flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
  wr.tjetty = targets[i % RECEIVERS];
  wr.send.src = (urma_sg_t){.sge = &sge, .num_sge = 1};
  ok(urma_post_jfs_wr(jfs, &wr, &bad), "urma_post_jfs_wr");
}

// A slot is free again when the completion of its message has been polled.
static void send_all(urma_jfs_t* jfs, urma_target_jetty_t** targets) {
  urma_cr_t records[SLOTS];
  uint32_t posted = 0, completed = 0, per_receiver[RECEIVERS] = {0};
  while (completed < TOTAL) {
    for (; posted < TOTAL && posted - completed < SLOTS; posted++)
      post_message(jfs, targets, posted);
    for (int i = 0, n = poll_some(jfc, records, SLOTS); i < n; i++, completed++) {
      succeeded(&records[i], "a send");
      expect(records[i].user_ctx == completed, "the order of completions");
      per_receiver[records[i].user_ctx % RECEIVERS]++;
    }
  }
  for (int i = 0; i < RECEIVERS; i++)
    expect(per_receiver[i] == MESSAGES, "the number of completions");
  printf("%d completions, %d for each receiver: ok\n", TOTAL, MESSAGES);
}

static void serve(const int* socks) {
  set_up();
  urma_jfs_cfg_t cfg = {.depth = SLOTS, .trans_mode = URMA_TM_RM, .max_sge = 1, .jfc = jfc};
  cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  urma_jfs_t* jfs = urma_create_jfs(ctx, &cfg);
  require(jfs != NULL, "urma_create_jfs");
  urma_target_jetty_t* targets[RECEIVERS];
  for (uint32_t i = 0; i < RECEIVERS; i++) {
    struct offer mine = {.queue = jfs->jfs_id, .receiver = i}, theirs;
    swap_over(socks[i], &mine, &theirs, sizeof(mine));
    urma_rjfr_t rjfr = {.jfr_id = theirs.queue, .trans_mode = URMA_TM_RM};
    targets[i] = urma_import_jfr(ctx, &rjfr, NULL);
    require(targets[i] != NULL, "urma_import_jfr");
  }
  send_all(jfs, targets);
  for (int i = 0; i < RECEIVERS; i++) in_step(socks[i]);
  for (int i = 0; i < RECEIVERS; i++) ok(urma_unimport_jfr(targets[i]), "urma_unimport_jfr");
  ok(urma_delete_jfs(jfs), "urma_delete_jfs");
  tear_down();
}

static void post_receive(urma_jfr_t* jfr, uint32_t slot) {
  urma_sge_t sge = {.addr = (uintptr_t)&slots[slot], .len = sizeof(slots[slot]), .tseg = seg};
  urma_jfr_wr_t wr = {.src = {.sge = &sge, .num_sge = 1}, .user_ctx = slot}, *bad;
  ok(urma_post_jfr_wr(jfr, &wr, &bad), "urma_post_jfr_wr");
}

static void check(const urma_cr_t* record, const struct offer* sender, uint32_t number) {
  struct message expected;
  fill(&expected, sender->receiver, number);
  expect(succeeded(record, "a receive") == BYTES, "the size of a message");
  expect(record->remote_id.id == sender->queue.id, "the sender's id");
  expect(memcmp(&slots[record->user_ctx], &expected, BYTES) == 0, "a message");
}

static void receive(int sock) {
  set_up();
  urma_jfr_cfg_t cfg = {.depth = SLOTS, .trans_mode = URMA_TM_RM, .max_sge = 1, .jfc = jfc};
  cfg.min_rnr_timer = URMA_TYPICAL_MIN_RNR_TIMER;
  urma_jfr_t* jfr = urma_create_jfr(ctx, &cfg);
  require(jfr != NULL, "urma_create_jfr");
  for (uint32_t slot = 0; slot < SLOTS; slot++) post_receive(jfr, slot);
  struct offer mine = {.queue = jfr->jfr_id}, sender;
  swap_over(sock, &mine, &sender, sizeof(mine));
  for (uint32_t number = 0; number < MESSAGES; number++) {
    urma_cr_t record;
    poll_some(jfc, &record, 1);
    check(&record, &sender, number);
    post_receive(jfr, (uint32_t)record.user_ctx);
  }
  printf("receiver %u: %d messages, in order and each checked: ok\n", sender.receiver, MESSAGES);
  in_step(sock);
  ok(urma_delete_jfr(jfr), "urma_delete_jfr");
  tear_down();
}

int main(int argc, char** argv) {
  int socks[RECEIVERS];
  bool is_server = meet_several(argc, argv, socks, RECEIVERS);
  is_server ? serve(socks) : receive(socks[0]);
}
