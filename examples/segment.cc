// SPDX-License-Identifier: MIT
//
// segment.c in C++: the client writes, reads and counts in the memory of the server.
//
//   segment_cc server [port [address]] | client host [port]
//
// The memory comes from urma_ext_alloc, so that clients can always map it.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>

#include "device.h"
#include "exchange.h"
#include "urma.hpp"

namespace {

constexpr uint32_t kBytes = (1 << 20) - 8, kDepth = 16, kAdds = 1000;

struct Shared {
  uint64_t counter;  // first: atomics need an address that is a multiple of their size
  char data[kBytes];
};

// What the server tells the client: all that the client needs to reach it.
struct Offer {
  urma_seg_t seg;
  urma_token_t token;
  urma_jfr_id_t queue;
};

// What both sides have. Destroyed in reverse order.
struct Side {
  Side(uint32_t access, urma_token_t token)
      : context(urma_create_context(choose_device(), 0)),
        memory(urma_ext_alloc(sizeof(Shared), 0)),
        seg(register_memory(access, token)),
        jfc(make_jfc()) {}

  urma_target_seg_t* register_memory(uint32_t access, urma_token_t token) const {
    urma_seg_cfg_t cfg = {};
    cfg.va = reinterpret_cast<uintptr_t>(memory.get());
    cfg.len = sizeof(Shared);
    cfg.token_value = token;
    cfg.flag.bs.access = access;
    cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
    return urma_register_seg(context, &cfg);
  }

  urma_jfc_t* make_jfc() const {
    urma_jfc_cfg_t cfg = {};
    cfg.depth = kDepth;
    return urma_create_jfc(context, &cfg);
  }

  Shared* shared() const { return static_cast<Shared*>(memory.get()); }

  void wait() {
    for (uint64_t polls = 0;; idle(polls++)) {
      const urma::Completions<1> done(jfc);
      if (done.empty()) continue;
      urma::check(done.begin()->status, "a request");
      return;
    }
  }

  urma::Library library;
  urma::Context context;
  urma::Memory memory;
  urma::Segment seg;
  urma::Jfc jfc;
};

void serve(int sock) {
  Offer offer = {}, unused;
  offer.token.token = std::random_device()();
  Side side(URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC, offer.token);
  urma_jfr_cfg_t cfg = {};
  cfg.depth = kDepth;
  cfg.trans_mode = URMA_TM_RM;
  cfg.max_sge = 1;
  cfg.jfc = side.jfc;
  urma::Jfr jfr(urma_create_jfr(side.context, &cfg));
  offer.seg = side.seg->seg;
  offer.queue = jfr->jfr_id;
  swap_over(sock, &offer, &unused, sizeof offer);
  in_step(sock);  // everything happens while we wait here
  check_text(side.shared()->data, kBytes);
  expect(side.shared()->counter == kAdds, "the counter");
}

void work(int sock) {
  Offer offer, unused = {};
  swap_over(sock, &unused, &offer, sizeof offer);
  Side side(URMA_ACCESS_LOCAL_ONLY, offer.token);
  urma_jfs_cfg_t cfg = {};
  cfg.depth = kDepth;
  cfg.trans_mode = URMA_TM_RM;
  cfg.max_sge = 1;
  cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  cfg.jfc = side.jfc;
  urma::Jfs jfs(urma_create_jfs(side.context, &cfg));
  urma_rjfr_t rjfr = {};
  rjfr.jfr_id = offer.queue;
  rjfr.trans_mode = URMA_TM_RM;
  urma::RemoteJfr queue(urma_import_jfr(side.context, &rjfr, nullptr));
  urma::RemoteSegment remote(urma_import_seg(side.context, &offer.seg, &offer.token, 0, {}));

  urma_jfs_wr_flag_t signalled = {};
  signalled.bs.complete_enable = URMA_COMPLETE_ENABLE;
  const uint64_t there = remote->seg.ubva.va + offsetof(Shared, data);
  const uint64_t here = reinterpret_cast<uintptr_t>(side.shared()->data);
  write_text(side.shared()->data, kBytes, "client");
  urma::check(urma_write(jfs, queue, remote, side.seg, there, here, kBytes, signalled, 0), "write");
  side.wait();
  std::memset(side.shared()->data, 0, kBytes);
  urma::check(urma_read(jfs, queue, side.seg, remote, here, there, kBytes, signalled, 0), "read");
  side.wait();
  check_text(side.shared()->data, kBytes);

  urma_sge_t target = {remote->seg.ubva.va, sizeof(uint64_t), remote, nullptr};
  urma_sge_t old = {reinterpret_cast<uintptr_t>(side.memory.get()), sizeof(uint64_t), side.seg,
                    nullptr};
  urma_jfs_wr_t add = {}, *bad;
  add.opcode = URMA_OPC_FADD;
  add.flag = signalled;
  add.tjetty = queue;
  add.faa.dst = &target;
  add.faa.src = &old;
  add.faa.operand = 1;
  for (uint64_t value = 0; value < kAdds; ++value) {
    urma::check(urma_post_jfs_wr(jfs, &add, &bad), "a fetch and add");
    side.wait();
    expect(side.shared()->counter == value, "the value from before");
  }
  std::printf("%u fetch and adds: ok\n", kAdds);
  in_step(sock);
}

}  // namespace

int main(int argc, char** argv) try {
  bool is_server;
  const int sock = meet(argc, argv, &is_server);
  (is_server ? serve : work)(sock);
} catch (const std::exception& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
