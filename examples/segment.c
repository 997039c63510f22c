/* SPDX-License-Identifier: MIT */

// Segments: the client reads, writes and counts in the memory of the server, which stays passive.
//
//   segment server [port [address]] | client host [port]
//
// The server registers memory and sends its address, with the token that opens it. The client
// imports it. Its requests go from a send queue (JFS) to a receive queue (JFR) of the server.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "device.h"
#include "exchange.h"
#include "urma_api.h"

enum { BYTES = (1 << 20) - 8, DEPTH = 16, ADDS = 1000, SWAPS = 1000, ROUNDS = 2000 };

struct shared {
  uint64_t counter;  // first: atomics need an address that is a multiple of their size
  char data[BYTES];
};

// What the server tells the client: all that the client needs to reach it.
struct offer {
  urma_seg_t seg;
  urma_token_t token;
  urma_jfr_id_t queue;
};

static const urma_jfs_wr_flag_t signalled = {.bs.complete_enable = URMA_COMPLETE_ENABLE};
static urma_context_t* ctx;
static urma_jfc_t* jfc;
static struct shared* memory;
static urma_target_seg_t *local, *remote;
static urma_jfs_t* jfs;             // of the client
static urma_target_jetty_t* queue;  // of the server, as the client sees it

// Whole pages, because these are reached without a system call.
static void set_up(uint32_t access, urma_token_t token) {
  ctx = open_device();
  urma_jfc_cfg_t jfc_cfg = {.depth = DEPTH};
  jfc = urma_create_jfc(ctx, &jfc_cfg);
  require(jfc != NULL, "urma_create_jfc");
  memory = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), sizeof(*memory));
  require(memory != NULL, "aligned_alloc");
  memset(memory, 0, sizeof(*memory));
  urma_seg_cfg_t cfg = {.va = (uintptr_t)memory, .len = sizeof(*memory), .token_value = token};
  cfg.flag.bs.access = access;
  cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  local = urma_register_seg(ctx, &cfg);
  require(local != NULL, "urma_register_seg");
}

static void tear_down(void) {
  ok(urma_delete_jfc(jfc), "urma_delete_jfc");
  ok(urma_unregister_seg(local), "urma_unregister_seg");
  close_device(ctx);
  free(memory);
}

static void serve(int sock) {
  struct offer offer = {0}, unused = {0};
  require(getrandom(&offer.token, sizeof(offer.token), 0) == sizeof(offer.token), "getrandom");
  set_up(URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC, offer.token);
  urma_jfr_cfg_t cfg = {.depth = DEPTH, .trans_mode = URMA_TM_RM, .max_sge = 1, .jfc = jfc};
  urma_jfr_t* jfr = urma_create_jfr(ctx, &cfg);
  require(jfr != NULL, "urma_create_jfr");
  offer.seg = local->seg;
  offer.queue = jfr->jfr_id;
  swap_over(sock, &offer, &unused, sizeof(offer));
  in_step(sock);  // everything happens while we wait here

  check_text(memory->data, BYTES);
  expect(memory->counter == ADDS + 2 * SWAPS, "the counter");
  printf("counter %u: ok\n", (unsigned)memory->counter);
  ok(urma_delete_jfr(jfr), "urma_delete_jfr");
  tear_down();
}

static void write_and_read(void) {
  uint64_t there = remote->seg.ubva.va + offsetof(struct shared, data);
  uint64_t here = (uintptr_t)memory->data;
  write_text(memory->data, BYTES, "client");
  ok(urma_write(jfs, queue, remote, local, there, here, BYTES, signalled, 0), "urma_write");
  wait_for(jfc);
  memset(memory->data, 0, BYTES);
  ok(urma_read(jfs, queue, local, remote, here, there, BYTES, signalled, 0), "urma_read");
  wait_for(jfc);
  check_text(memory->data, BYTES);
  static uint64_t times[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t start = now_ns();
    ok(urma_write(jfs, queue, remote, local, there, here, 8, signalled, 0), "urma_write");
    wait_for(jfc);
    times[i] = now_ns() - start;
  }
  print_latency("a write of 8 bytes", times, ROUNDS);
}

// Counts in steps of 1, then of 2. Both operations return the old value, here to our counter.
static void count(void) {
  urma_sge_t there = {.addr = remote->seg.ubva.va, .len = sizeof(uint64_t), .tseg = remote};
  urma_sge_t old = {.addr = (uintptr_t)&memory->counter, .len = sizeof(uint64_t), .tseg = local};
  urma_jfs_wr_t wr = {.flag = signalled, .tjetty = queue}, *bad;
  for (uint64_t i = 0, value = 0; i < ADDS + SWAPS; i++) {
    if (i < ADDS) {
      wr.opcode = URMA_OPC_FADD;
      wr.faa = (urma_faa_wr_t){&there, &old, .operand = 1};
    } else {
      wr.opcode = URMA_OPC_CAS;
      wr.cas = (urma_cas_wr_t){&there, &old, .cmp_data = value, .swap_data = value + 2};
    }
    ok(urma_post_jfs_wr(jfs, &wr, &bad), "urma_post_jfs_wr");
    wait_for(jfc);
    expect(memory->counter == value, "the value from before");
    value += i < ADDS ? 1 : 2;
  }
  printf("%d fetch and adds, %d compare and swaps: ok\n", ADDS, SWAPS);
}

static void work(int sock) {
  struct offer offer = {0}, unused = {0};
  swap_over(sock, &unused, &offer, sizeof(offer));
  set_up(URMA_ACCESS_LOCAL_ONLY, offer.token);
  urma_jfs_cfg_t cfg = {.depth = DEPTH, .trans_mode = URMA_TM_RM, .max_sge = 1, .jfc = jfc};
  cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  jfs = urma_create_jfs(ctx, &cfg);
  require(jfs != NULL, "urma_create_jfs");
  urma_rjfr_t rjfr = {.jfr_id = offer.queue, .trans_mode = URMA_TM_RM};
  queue = urma_import_jfr(ctx, &rjfr, NULL);
  require(queue != NULL, "urma_import_jfr");
  remote = urma_import_seg(ctx, &offer.seg, &offer.token, 0, (urma_import_seg_flag_t){0});
  require(remote != NULL, "urma_import_seg");
  write_and_read();
  count();
  in_step(sock);
  ok(urma_unimport_jfr(queue), "urma_unimport_jfr");
  ok(urma_unimport_seg(remote), "urma_unimport_seg");
  ok(urma_delete_jfs(jfs), "urma_delete_jfs");
  tear_down();
}

int main(int argc, char** argv) {
  bool is_server;
  int sock = meet(argc, argv, &is_server);
  (is_server ? serve : work)(sock);
}
