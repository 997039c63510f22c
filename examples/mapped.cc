// SPDX-License-Identifier: MIT
//
// mapped.c in C++: the client works in the memory of the server with plain loads and stores.
//
//   mapped_cc server [port] | client host [port]
//
// Where a device cannot map, `mva` is 0, and the program says so and writes by a work request; all
// that segment.cc does can be done then.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>

#include "device.h"
#include "exchange.h"
#include "urma.hpp"

namespace {

constexpr uint32_t kText = (1 << 20) - 8, kDepth = 16;
constexpr uint64_t kAdds = 1000;

struct Shared {
  std::atomic<uint64_t> counter;  // first: atomics want an address that is a multiple of their size
  char data[kText];
};

// What the server tells the client, and all that the client needs to reach it.
struct Offer {
  urma_seg_t seg;
  urma_token_t token;
  urma_jfr_id_t queue;
};

// What both sides have. Everything ends in the opposite order.
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
  urma::Jfr jfr(urma_create_jfr(side.context, &cfg));  // target of the work request
  offer.seg = side.seg->seg;
  offer.queue = jfr->jfr_id;
  swap_over(sock, &offer, &unused, sizeof offer);
  in_step(sock);  // the text is there
  check_text(side.shared()->data, kText);
  // Both add at the same time, where the client has the memory too.
  for (uint64_t i = 0; i < kAdds; ++i) side.shared()->counter += 1;
  uint64_t mine = kAdds, theirs = 0;
  swap_over(sock, &mine, &theirs, sizeof mine);
  require(side.shared()->counter == mine + theirs, "the counter");
  std::printf("counter %ju, of which %ju are the client's: ok\n", uintmax_t{mine + theirs},
              uintmax_t{theirs});
}

// The same text by a work request, which takes it from our own memory.
void write_text_by_request(Side& side, const Offer& offer, urma_target_seg_t* remote) {
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
  urma_jfs_wr_flag_t signalled = {};
  signalled.bs.complete_enable = URMA_COMPLETE_ENABLE;
  write_text(side.shared()->data, kText, "client");
  const uint64_t here = reinterpret_cast<uintptr_t>(side.shared()->data);
  const uint64_t there = remote->seg.ubva.va + offsetof(Shared, data);
  urma::check(urma_write(jfs, queue, remote, side.seg, there, here, kText, signalled, 0), "write");
  wait_for(side.jfc);
}

void work(int sock) {
  Offer offer, unused = {};
  swap_over(sock, &unused, &offer, sizeof offer);
  Side side(URMA_ACCESS_LOCAL_ONLY, offer.token);
  urma_import_seg_flag_t mapped = {};
  mapped.bs.mapping = URMA_SEG_MAPPED;
  urma::RemoteSegment remote(urma_import_seg(side.context, &offer.seg, &offer.token, 0, mapped));
  auto* theirs = reinterpret_cast<Shared*>(remote->mva);
  uint64_t added = 0, unused_count;
  if (theirs != nullptr) {
    std::printf("mapped: loads and stores at %p\n", static_cast<void*>(theirs));
    write_text(theirs->data, kText, "client");
  } else {
    std::printf("not mapped (mva is 0; the log has the reason): a work request\n");
    write_text_by_request(side, offer, remote);
  }
  in_step(sock);
  for (; theirs != nullptr && added < kAdds; ++added) theirs->counter += 1;
  swap_over(sock, &added, &unused_count, sizeof added);
}

}  // namespace

int main(int argc, char** argv) try {
  bool is_server;
  const int sock = meet(argc, argv, &is_server);
  (is_server ? serve : work)(sock);
} catch (const urma::Failure& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
