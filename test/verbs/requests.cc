// SPDX-License-Identifier: MIT
#include "test/verbs/requests.h"

#include <gtest/gtest.h>

#include <iterator>

namespace urma::verbs {

urma_jfs_wr_t& Chain::send(const urma_sge_t& from, uint64_t user_ctx, bool signalled) {
  urma_jfs_wr_t& wr = add(URMA_OPC_SEND, user_ctx, signalled);
  wr.send.src = list({from});
  return wr;
}

urma_jfs_wr_t& Chain::write(const urma_sge_t& from, const urma_sge_t& to, uint64_t user_ctx,
                            bool signalled) {
  urma_jfs_wr_t& wr = add(URMA_OPC_WRITE, user_ctx, signalled);
  wr.rw.src = list({from});
  wr.rw.dst = list({to});
  return wr;
}

urma_jfs_wr_t& Chain::read(const std::vector<urma_sge_t>& into, const urma_sge_t& from,
                           uint64_t user_ctx) {
  urma_jfs_wr_t& wr = add(URMA_OPC_READ, user_ctx, true);
  wr.rw.dst = list(into);
  wr.rw.src = list({from});
  return wr;
}

urma_jfs_wr_t& Chain::write_notify(const urma_sge_t& from, const urma_sge_t& to,
                                   const urma_sge_t& notified, uint64_t value, uint64_t user_ctx) {
  urma_jfs_wr_t& wr = add(URMA_OPC_WRITE_NOTIFY, user_ctx, true);
  wr.rw.src = list({from});
  wr.rw.dst = list({to, notified});
  wr.rw.notify_data = value;
  return wr;
}

urma_jfs_wr_t& Chain::atomic(urma_opcode_t opcode, const urma_sge_t& result, const urma_sge_t& word,
                             uint64_t operand, uint64_t swap, uint64_t user_ctx) {
  urma_jfs_wr_t& wr = add(opcode, user_ctx, true);
  wr.cas.src = &list({result}).sge[0];
  wr.cas.dst = &list({word}).sge[0];
  wr.cas.cmp_data = operand;
  if (opcode == URMA_OPC_CAS || opcode == URMA_OPC_SWAP) wr.cas.swap_data = swap;
  return wr;
}

urma_jfs_wr_t& Chain::add(urma_opcode_t opcode, uint64_t user_ctx, bool signalled) {
  urma_jfs_wr_t wr = {};
  wr.opcode = opcode;
  wr.flag.bs.complete_enable = signalled ? 1 : 0;
  wr.tjetty = target_;
  wr.user_ctx = user_ctx;
  requests_.push_back(wr);
  if (requests_.size() > 1) std::prev(requests_.end(), 2)->next = &requests_.back();
  return requests_.back();
}

urma_sg_t Chain::list(const std::vector<urma_sge_t>& sges) {
  lists_.push_back(sges);
  return {lists_.back().data(), static_cast<uint32_t>(lists_.back().size())};
}

Pair::Pair(const FakeDeviceOptions& options, uint32_t depth,
           const std::function<void(urma_jfs_cfg_t*, urma_jfr_cfg_t*)>& change)
    : fabric(options) {
  send_jfc = fabric.make_jfc(4 * depth);
  receive_jfc = fabric.make_jfc(4 * depth);
  urma_jfs_cfg_t jfs = fabric.jfs_cfg(send_jfc.get(), depth);
  urma_jfr_cfg_t jfr = fabric.jfr_cfg(receive_jfc.get(), depth);
  if (change) change(&jfs, &jfr);
  receive = std::make_unique<ReceiveEnd>(&fabric, jfr, 1000);
  send = std::make_unique<SendEnd>(&fabric, jfs);
  target = fabric.import(1000, jfs.trans_mode);
  here = std::make_unique<Buffer>(&fabric, 65536);
  there = std::make_unique<Buffer>(&fabric, 65536);
}

Pair::~Pair() {
  fabric.settle();
  send.reset();
  fabric.settle();
  receive.reset();
}

urma_status_t Pair::post(Chain* chain, urma_jfs_wr_t** bad) {
  urma_jfs_wr_t* refused = nullptr;
  const urma_status_t status = send->sender->post(chain->first(), &refused);
  if (bad != nullptr) *bad = refused;
  return status;
}

void Pair::post_send(uint64_t user_ctx) {
  Chain chain(target.get());
  chain.send(here->sge(0, 8), user_ctx);
  EXPECT_EQ(post(&chain), URMA_SUCCESS);
}

void Pair::post_write(uint64_t user_ctx) {
  Chain chain(target.get());
  chain.write(here->sge(0, 8), there->remote_sge(0, 8), user_ctx);
  EXPECT_EQ(post(&chain), URMA_SUCCESS);
}

urma_status_t Pair::post_receive(uint64_t user_ctx, size_t offset, uint32_t bytes) {
  urma_sge_t sge = there->sge(offset, bytes);
  urma_jfr_wr_t wr = {};
  wr.src = {&sge, 1};
  wr.user_ctx = user_ctx;
  urma_jfr_wr_t* bad = nullptr;
  return receive->receiver->post(&wr, &bad);
}

void Pair::connect() {
  Chain chain(target.get());
  chain.write(here->sge(0, 8), there->remote_sge(65528, 8), 0);
  ASSERT_EQ(post(&chain), URMA_SUCCESS);
  ASSERT_EQ(sent(1)[0].status, URMA_CR_SUCCESS);
}

}  // namespace urma::verbs
