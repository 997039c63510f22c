// SPDX-License-Identifier: MIT
#include "test/verbs/bare_device.h"

#include <array>
#include <utility>

#include "test/verbs/fake_verbs.h"

namespace urma::verbs {
namespace {

// Requests that are done but not polled, and receives that are posted but not used.
template <typename Entry>
struct Ring {
  static constexpr uint32_t kEntries = 256;
  std::array<Entry, kEntries> entries;
  uint32_t begin = 0;
  uint32_t end = 0;

  bool empty() const { return begin == end; }
  Entry& push() { return entries[end++ % kEntries]; }
  Entry& pop() { return entries[begin++ % kEntries]; }
};

Ring<ibv_wc> sent;
Ring<ibv_wc> received;
Ring<uint64_t> receives;
uint32_t receiving_pair = 0;
bool begun = false;
Api software;  // the device that connects
urma_test::BareDevice bare;
ibv_cq* sends = nullptr;  // where requests complete

ibv_wc_opcode opcode_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
      return IBV_WC_SEND;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    default:
      return IBV_WC_RDMA_WRITE;
  }
}

void receive(const ibv_send_wr& wr) {
  ibv_wc& completion = received.push();
  completion = {};
  completion.wr_id = receives.pop();
  completion.opcode = IBV_WC_RECV;
  completion.byte_len = wr.sg_list->length;
  completion.qp_num = receiving_pair;
}

int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) {
  if (!begun) {
    sends = pair->send_cq;
    return software.post_send(pair, first, bad);
  }
  ++bare.posts;
  for (const ibv_send_wr* wr = first; wr != nullptr; wr = wr->next) {
    if (wr->opcode == IBV_WR_SEND) receive(*wr);
    if ((wr->send_flags & IBV_SEND_SIGNALED) == 0) continue;
    ibv_wc& completion = sent.push();
    completion = {};
    completion.wr_id = wr->wr_id;
    completion.opcode = opcode_of(wr->opcode);
    completion.qp_num = pair->qp_num;
  }
  return 0;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* first, ibv_recv_wr** bad) {
  if (!begun) return software.post_srq_recv(srq, first, bad);
  ++bare.receive_posts;
  for (const ibv_recv_wr* wr = first; wr != nullptr; wr = wr->next) receives.push() = wr->wr_id;
  return 0;
}

int poll_cq(ibv_cq* cq, int count, ibv_wc* completions) {
  if (!begun) {
    const int got = software.poll_cq(cq, count, completions);
    for (int i = 0; i < got; ++i) {
      if ((completions[i].opcode & IBV_WC_RECV) != 0) receiving_pair = completions[i].qp_num;
    }
    return got;
  }
  ++bare.polls;
  Ring<ibv_wc>& ring = cq == sends ? sent : received;
  int got = 0;
  while (got < count && !ring.empty()) completions[got++] = ring.pop();
  return got;
}

Api make_table() {
  // Devices are never removed.
  static auto& fake = *new FakeVerbs;
  FakeDeviceOptions options;
  options.gids = {{"127.0.0.1"}};
  fake.add_device(options);
  software = *fake.api();
  Api api = software;
  api.post_send = post_send;
  api.post_srq_recv = post_srq_recv;
  api.poll_cq = poll_cq;
  return api;
}

urma_test::BareDevice make_device() {
  static const Api api = make_table();
  return {&api, [] { begun = true; }, 0, 0, 0};
}

}  // namespace
}  // namespace urma::verbs

urma_test::BareDevice* urma_test_bare_device() {
  static bool made = false;
  if (!std::exchange(made, true)) urma::verbs::bare = urma::verbs::make_device();
  return &urma::verbs::bare;
}
