/* SPDX-License-Identifier: MIT */

// What cost.py compares Python with: the least processor time of a write of 8 bytes and the poll of
// its completion, in ns. Arguments: runs, and writes of a run.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "urma_api.h"

enum { BYTES = 1 << 16, DEPTH = 16, HALF = 4096 };

static urma_context_t* ctx;
static urma_jfc_t* jfc;
static urma_jetty_t* jetty;

static void* need(void* made) {
  if (made == NULL) abort();
  return made;
}

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void open_queues(void) {
  if (urma_init(NULL) != URMA_SUCCESS) abort();
  ctx = need(urma_create_context(need(urma_get_device_by_name("urma_shm0")), 0));
  urma_jfc_cfg_t jfc_cfg = {.depth = DEPTH};
  jfc = need(urma_create_jfc(ctx, &jfc_cfg));
  urma_jfr_cfg_t jfr_cfg = {.depth = DEPTH, .trans_mode = URMA_TM_RM, .max_sge = 1, .jfc = jfc};
  urma_jetty_cfg_t cfg = {.flag.bs.share_jfr = URMA_SHARE_JFR};
  cfg.shared.jfr = need(urma_create_jfr(ctx, &jfr_cfg));
  cfg.jfs_cfg = (urma_jfs_cfg_t){.depth = DEPTH, .trans_mode = URMA_TM_RM, .max_sge = 1};
  cfg.jfs_cfg.max_rsge = 1;
  cfg.jfs_cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  cfg.jfs_cfg.jfc = jfc;
  jetty = need(urma_create_jetty(ctx, &cfg));
}

int main(int argc, char** argv) {
  if (argc != 3) return 1;
  open_queues();
  char* memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  urma_seg_cfg_t cfg = {.va = (uintptr_t)memory, .len = BYTES};
  cfg.flag.bs.access = URMA_ACCESS_READ | URMA_ACCESS_WRITE;
  urma_target_seg_t* here = need(urma_register_seg(ctx, &cfg));
  urma_target_seg_t* there =
      need(urma_import_seg(ctx, &here->seg, NULL, 0, (urma_import_seg_flag_t){0}));
  urma_rjetty_t self = {.jetty_id = jetty->jetty_id, .trans_mode = URMA_TM_RM};
  self.type = URMA_JETTY;
  urma_target_jetty_t* target = need(urma_import_jetty(ctx, &self, NULL));
  double least = 1e18;
  for (int run = 0; run < atoi(argv[1]); run++) {
    double start = now_ns();
    for (int i = 0; i < atoi(argv[2]); i++) {
      urma_sge_t from = {.addr = (uintptr_t)memory, .len = 8, .tseg = here};
      urma_sge_t to = {.addr = (uintptr_t)memory + HALF, .len = 8, .tseg = there};
      urma_jfs_wr_t wr = {.opcode = URMA_OPC_WRITE, .tjetty = target}, *bad;
      wr.flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
      wr.rw = (urma_rw_wr_t){.src = {&from, 1}, .dst = {&to, 1}};
      if (urma_post_jetty_send_wr(jetty, &wr, &bad) != URMA_SUCCESS) abort();
      urma_cr_t record;
      while (urma_poll_jfc(jfc, 1, &record) == 0) continue;
      if (record.status != URMA_CR_SUCCESS) abort();
    }
    double each = (now_ns() - start) / atoi(argv[2]);
    if (each < least) least = each;
  }
  printf("%.0f\n", least);
}
