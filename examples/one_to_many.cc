// SPDX-License-Identifier: MIT
//
// one_to_many.c in C++: one send queue of the server reaches receive queues of several processes.
//
//   one_to_many_cc server [port] | client host [port]
//
// `client` starts four. Each request names its target; completions come in the order of requests.
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

#include "device.h"
#include "exchange.h"
#include "several.h"
#include "urma.hpp"

namespace {

constexpr uint32_t kReceivers = 4, kMessages = 5000, kBytes = 1024, kSlots = 16;
constexpr uint32_t kTotal = kReceivers * kMessages;

// Each differs from all others of all receivers.
struct Message {
  void fill(uint32_t to, uint32_t turn) {
    receiver = to;
    number = turn;
    for (size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<uint8_t>((to + 1) * 89 + turn * 7 + i);
  }

  uint32_t receiver, number;
  std::array<uint8_t, kBytes - 8> data;
};

struct Offer {  // what the sender and a receiver tell each other
  urma_jetty_id_t queue;
  uint32_t receiver, unused;  // without it the bytes behind the number would be sent unset
};

struct Side {
  Side() : context(urma_create_context(choose_device(), 0)) {
    urma_jfc_cfg_t completions = {};
    completions.depth = kSlots;
    jfc = urma::Jfc(urma_create_jfc(context, &completions));
    urma_seg_cfg_t memory = {};
    memory.va = reinterpret_cast<uintptr_t>(slots.data());
    memory.len = sizeof slots;
    memory.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
    seg = urma::Segment(urma_register_seg(context, &memory));
  }

  urma_sge_t piece(uint32_t slot) {
    return {reinterpret_cast<uintptr_t>(&slots[slot]), sizeof slots[slot], seg, nullptr};
  }

  std::array<Message, kSlots> slots{};
  urma::Library library;
  urma::Context context;
  urma::Jfc jfc;
  urma::Segment seg;
};

void post_message(Side& side, urma_jfs_t* jfs, urma_target_jetty_t* target, uint32_t i) {
  side.slots[i % kSlots].fill(i % kReceivers, i / kReceivers);
  urma_sge_t piece = side.piece(i % kSlots);
  urma_jfs_wr_t request = {}, *bad;
  request.opcode = URMA_OPC_SEND;
  request.flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
  request.user_ctx = i;
  request.tjetty = target;
  request.send.src = {&piece, 1};
  urma::check(urma_post_jfs_wr(jfs, &request, &bad), "posting a message");
}

void serve(const int* socks) {
  Side side;
  urma_jfs_cfg_t cfg = {};
  cfg.depth = kSlots;
  cfg.trans_mode = URMA_TM_RM;
  cfg.max_sge = 1;
  cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  cfg.jfc = side.jfc;
  urma::Jfs jfs(urma_create_jfs(side.context, &cfg));
  std::vector<urma::RemoteJfr> targets;
  for (uint32_t i = 0; i < kReceivers; ++i) {
    Offer mine = {jfs->jfs_id, i, 0}, theirs;
    swap_over(socks[i], &mine, &theirs, sizeof mine);
    urma_rjfr_t rjfr = {};
    rjfr.jfr_id = theirs.queue;
    rjfr.trans_mode = URMA_TM_RM;
    targets.emplace_back(urma_import_jfr(side.context, &rjfr, nullptr));
  }
  // A slot is free again when the completion of its message has been polled.
  uint32_t posted = 0, completed = 0;
  for (uint64_t polls = 0; completed < kTotal; idle(polls++)) {
    for (; posted < kTotal && posted - completed < kSlots; ++posted)
      post_message(side, jfs, targets[posted % kReceivers], posted);
    for (const urma_cr_t& record : urma::Completions<kSlots>(side.jfc)) {
      urma::check(record.status, "a send");
      require(record.user_ctx == completed++, "the order of completions");
      polls = 0;
    }
  }
  std::printf("%u completions, in order: ok\n", kTotal);
  for (uint32_t i = 0; i < kReceivers; ++i) in_step(socks[i]);
}

void receive(int sock) {
  Side side;
  urma_jfr_cfg_t cfg = {};
  cfg.depth = kSlots;
  cfg.trans_mode = URMA_TM_RM;
  cfg.max_sge = 1;
  cfg.jfc = side.jfc;
  urma::Jfr jfr(urma_create_jfr(side.context, &cfg));
  auto post = [&](uint32_t slot) {
    urma_sge_t piece = side.piece(slot);
    urma_jfr_wr_t request = {{&piece, 1}, slot, nullptr}, *bad;
    urma::check(urma_post_jfr_wr(jfr, &request, &bad), "posting a receive");
  };
  for (uint32_t slot = 0; slot < kSlots; ++slot) post(slot);
  Offer mine = {jfr->jfr_id, 0, 0}, sender;
  swap_over(sock, &mine, &sender, sizeof mine);
  uint32_t number = 0;
  for (uint64_t polls = 0; number < kMessages; idle(polls++)) {
    for (const urma_cr_t& record : urma::Completions<kSlots>(side.jfc)) {
      Message expected;
      expected.fill(sender.receiver, number++);
      urma::check(record.status, "a receive");
      require(std::memcmp(&side.slots[record.user_ctx], &expected, kBytes) == 0, "a message");
      post(static_cast<uint32_t>(record.user_ctx));
      polls = 0;
    }
  }
  std::printf("receiver %u: %u messages, in order and each checked: ok\n", sender.receiver, number);
  in_step(sock);
}

}  // namespace

int main(int argc, char** argv) try {
  int socks[kReceivers];
  const bool is_server = meet_several(argc, argv, socks, kReceivers);
  is_server ? serve(socks) : receive(socks[0]);
} catch (const urma::Failure& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
