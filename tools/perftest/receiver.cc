// SPDX-License-Identifier: MIT
#include "tools/perftest/receiver.h"

#include <algorithm>
#include <string>

namespace perftest {

void check_record(const urma_cr_t& record, const Config& config, uint32_t size) {
  const auto fail = [](const char* what, uint64_t is, uint64_t expected) {
    throw RunError(std::string("--verify: a completion has ") + what + " " + std::to_string(is) +
                   " instead of " + std::to_string(expected));
  };
  const bool send = config.api == Api::kSend;
  urma_cr_opcode_t opcode = URMA_CR_OPC_WRITE_WITH_IMM;
  if (send) opcode = config.immediate ? URMA_CR_OPC_SEND_WITH_IMM : URMA_CR_OPC_SEND;
  if (record.opcode != opcode) fail("opcode", record.opcode, opcode);
  if (config.immediate && record.imm_data != kImmediate) {
    fail("immediate data", record.imm_data, kImmediate);
  }
  if (send && record.completion_len != size) fail("length", record.completion_len, size);
}

Receiver::Receiver(Session& session) : session_(session) {
  const Config& config = session.config;
  const uint32_t count = config.jfr_post_list;
  for (uint32_t i = 0; i < session.queues.receive_queues(); i++) {
    Queue& queue = queues_.emplace_back();
    queue.jetty = session.queues.receiving_jetty(i);
    queue.jfr = session.queues.receive_queue(i);
    queue.missing = config.jfr_depth / count * count;
    queue.places.resize(count);
    queue.list.resize(count);
    // The lanes of a receive queue share the memory of the first of them in turns.
    uint32_t lane = 0;
    while (session.queues.receive_index(lane) != i) lane++;
    for (uint32_t k = 0; k < count; k++) {
      queue.places[k] = {reinterpret_cast<uintptr_t>(session.memory.in(lane)),
                         static_cast<uint32_t>(session.memory.slot_bytes()),
                         session.memory.segment(lane), nullptr};
      queue.list[k].src = {&queue.places[k], 1};
      queue.list[k].user_ctx = i;
      queue.list[k].next = k + 1 < count ? &queue.list[k + 1] : nullptr;
    }
  }
  if (config.credit && session.receives()) credit_ = std::make_unique<CreditGiven>(session);
}

void Receiver::fill() { repost(); }

int Receiver::poll(int most) {
  const int n = Session::poll(session_.queues.arrived(), most, records_.data());
  uint32_t failed = 0;
  for (int i = 0; i < n; i++) failed |= static_cast<uint32_t>(records_[i].status);
  if (failed != 0 || queues_.size() > 1 || credit_) [[unlikely]] {
    count_each(n);
  } else {
    queues_[0].missing += static_cast<uint32_t>(n);
  }
  received_ += static_cast<uint64_t>(n);
  return n;
}

void Receiver::count_each(int n) {
  for (int i = 0; i < n; i++) {
    if (records_[i].status != URMA_CR_SUCCESS) session_.failed(records_[i]);
    queues_.at(records_[i].user_ctx).missing++;
  }
  if (!credit_) return;
  // The receives come first: the sender may continue once it has read the credit.
  repost();
  for (int i = 0; i < n; i++) credit_->count(records_[i]);
  // On active sides, notices complete among the messages.
  if (!session_.active()) credit_->take_completions();
}

void Receiver::check_last(uint32_t size) const { check_record(records_[0], session_.config, size); }

void Receiver::post_lists(Queue& queue) const {
  const auto list = static_cast<uint32_t>(queue.list.size());
  while (queue.missing >= list) {
    post(queue);
    queue.missing -= list;
  }
}

void Receiver::post(Queue& queue) const {
  urma_jfr_wr_t* const wr = queue.list.data();
  urma_jfr_wr_t* bad;
  if (queue.jetty != nullptr) {
    ok(urma_post_jetty_recv_wr(queue.jetty, wr, &bad), "urma_post_jetty_recv_wr");
  } else if (!session_.config.flat_api) {
    ok(urma_post_jfr_wr(queue.jfr, wr, &bad), "urma_post_jfr_wr");
  } else {
    for (const urma_sge_t& place : queue.places) {
      ok(urma_recv(queue.jfr, place.tseg, place.addr, place.len, wr->user_ctx), "urma_recv");
    }
  }
}

}  // namespace perftest
