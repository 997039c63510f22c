/* SPDX-License-Identifier: MIT */

// Mapped segments: the client accesses the memory of the server with plain loads and stores.
//
//   mapped server [port [address]] | client host [port]
//
// The server registers ordinary memory from the heap. The client imports it with URMA_SEG_MAPPED;
// `mva` is then its address in the client. If a device cannot map, mva is 0, and work requests move
// the same bytes, as in segment.c; a portable program handles both.

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "device.h"
#include "exchange.h"
#include "urma_api.h"

enum { TEXT = (1 << 20) - 8, DEPTH = 16, ADDS = 1000 };

struct shared {
  _Atomic uint64_t counter;  // first: atomics need an address that is a multiple of their size
  char data[TEXT];
};

// What the server tells the client: all that the client needs to reach it.
struct offer {
  urma_seg_t seg;
  urma_token_t token;
  urma_jfr_id_t queue;
};

static urma_context_t* ctx;
static urma_jfc_t* jfc;
static struct shared* memory;
static urma_target_seg_t* local;
static uint64_t times[ADDS];

// Only whole pages can be mapped, so the memory begins and ends with one.
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
  urma_jfr_t* jfr = urma_create_jfr(ctx, &cfg);  // target of work requests, if needed
  require(jfr != NULL, "urma_create_jfr");
  offer.seg = local->seg;
  offer.queue = jfr->jfr_id;
  swap_over(sock, &offer, &unused, sizeof(offer));
  in_step(sock);
  // Both add at the same time. Remote and local atomics are atomic with each other.
  for (int i = 0; i < ADDS; i++) atomic_fetch_add(&memory->counter, 1);
  in_step(sock);
  check_text(memory->data, TEXT);
  expect(atomic_load(&memory->counter) == 2 * ADDS, "the counter");
  printf("counter %d, of which half are the client's: ok\n", 2 * ADDS);
  ok(urma_delete_jfr(jfr), "urma_delete_jfr");
  tear_down();
}

// The memory of the server, used like local memory.
static void use_mapped(int sock, struct shared* theirs) {
  printf("mapped: loads and stores at %p\n", (void*)theirs);
  write_text(theirs->data, TEXT, "client");
  in_step(sock);
  for (int i = 0; i < ADDS; i++) {
    uint64_t start = now_ns();
    atomic_fetch_add(&theirs->counter, 1);
    times[i] = now_ns() - start;
  }
}

// The same with work requests, whose data is in local memory.
static void use_requests(int sock, urma_jfs_t* jfs, urma_target_jetty_t* queue,
                         urma_target_seg_t* remote) {
  printf("not mapped (mva is 0; the log has the reason): work requests\n");
  urma_jfs_wr_flag_t signalled = {.bs.complete_enable = URMA_COMPLETE_ENABLE};
  uint64_t here = (uintptr_t)memory, there = remote->seg.ubva.va;
  write_text(memory->data, TEXT, "client");
  uint32_t all = sizeof(*memory);  // the counters are 0 on both sides
  ok(urma_write(jfs, queue, remote, local, there, here, all, signalled, 0), "urma_write");
  wait_for(jfc);
  in_step(sock);
  urma_sge_t counter = {.addr = there, .len = sizeof(uint64_t), .tseg = remote};
  urma_sge_t old = {.addr = here, .len = sizeof(uint64_t), .tseg = local};
  urma_jfs_wr_t wr = {.opcode = URMA_OPC_FADD, .flag = signalled, .tjetty = queue}, *bad;
  wr.faa = (urma_faa_wr_t){&counter, &old, .operand = 1};
  for (int i = 0; i < ADDS; i++) {
    uint64_t start = now_ns();
    ok(urma_post_jfs_wr(jfs, &wr, &bad), "urma_post_jfs_wr");
    wait_for(jfc);
    times[i] = now_ns() - start;
  }
}

static void work(int sock) {
  struct offer offer = {0}, unused = {0};
  swap_over(sock, &unused, &offer, sizeof(offer));
  set_up(URMA_ACCESS_LOCAL_ONLY, offer.token);
  urma_jfs_cfg_t cfg = {.depth = DEPTH, .trans_mode = URMA_TM_RM, .jfc = jfc};
  cfg.max_sge = cfg.max_rsge = 1;
  cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  urma_jfs_t* jfs = urma_create_jfs(ctx, &cfg);
  require(jfs != NULL, "urma_create_jfs");
  urma_rjfr_t rjfr = {.jfr_id = offer.queue, .trans_mode = URMA_TM_RM};
  urma_target_jetty_t* queue = urma_import_jfr(ctx, &rjfr, NULL);
  require(queue != NULL, "urma_import_jfr");
  urma_import_seg_flag_t mapped = {.bs.mapping = URMA_SEG_MAPPED};
  urma_target_seg_t* remote = urma_import_seg(ctx, &offer.seg, &offer.token, 0, mapped);
  require(remote != NULL, "urma_import_seg");

  if (remote->mva != 0) use_mapped(sock, (struct shared*)remote->mva);
  if (remote->mva == 0) use_requests(sock, jfs, queue, remote);
  in_step(sock);
  print_latency("a fetch and add in the server's memory", times, ADDS);
  ok(urma_unimport_seg(remote), "urma_unimport_seg");
  ok(urma_unimport_jfr(queue), "urma_unimport_jfr");
  ok(urma_delete_jfs(jfs), "urma_delete_jfs");
  tear_down();
}

int main(int argc, char** argv) {
  bool is_server;
  int sock = meet(argc, argv, &is_server);
  (is_server ? serve : work)(sock);
}
