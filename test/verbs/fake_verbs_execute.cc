// SPDX-License-Identifier: MIT
//
// How the fake executes requests: what is sent, and what the other end answers.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "test/verbs/fake_verbs_state.h"

namespace urma::verbs {
namespace {

constexpr uint32_t kGlobalHeader = 40;
constexpr uint8_t kForEver = 7;  // of rnr_retry

// The result of a request: done, failed with a status, or to be retried later.
using Outcome = std::optional<ibv_wc_status>;
constexpr Outcome kLater = std::nullopt;

bool covers(const FakeMr& mr, uint64_t address, uint64_t bytes) {
  return address >= mr.iova && bytes <= mr.length && address - mr.iova <= mr.length - bytes;
}

char* at(const FakeMr& mr, uint64_t address) { return mr.base + (address - mr.iova); }

// Polled by programs without a lock, where it is one word.
void copy_bytes(char* to, const char* from, size_t bytes) {
  if (bytes == 8 && reinterpret_cast<uint64_t>(to) % 8 == 0) {
    uint64_t word = 0;
    std::memcpy(&word, from, sizeof(word));
    // Pairs with the acquire loads of the tests that poll a word.
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(to))
        .store(word, std::memory_order_release);
  } else if (bytes != 0) {
    std::memcpy(to, from, bytes);
  }
}

// The memory of one end, as far as its keys allow.
class Memory {
 public:
  Memory(const FakeFabric& fabric, const FakeQp& qp) : fabric_(fabric), qp_(qp) {}

  const FakeMr* local(const ibv_sge& sge, int access) const {
    const auto found = fabric_.local_keys.find(sge.lkey);
    if (found == fabric_.local_keys.end()) return nullptr;
    const auto* mr = found->second;
    const bool allowed =
        mr->pd == qp_.pd && (mr->access & access) == access && covers(*mr, sge.addr, sge.length);
    return allowed ? mr : nullptr;
  }

  const FakeMr* remote(uint32_t key, uint64_t address, uint64_t bytes, int access) const {
    const auto found = fabric_.remote_keys.find(key);
    if (found == fabric_.remote_keys.end()) return nullptr;
    const auto* mr = found->second;
    const bool allowed =
        mr->pd == qp_.pd && (mr->access & access) == access && covers(*mr, address, bytes);
    return allowed ? mr : nullptr;
  }

  bool gather(const std::vector<ibv_sge>& sges, std::vector<char>* bytes) const {
    for (const auto& sge : sges) {
      if (sge.length == 0) continue;
      const auto* mr = local(sge, 0);
      if (mr == nullptr) return false;
      bytes->insert(bytes->end(), at(*mr, sge.addr), at(*mr, sge.addr) + sge.length);
    }
    return true;
  }

  bool scatter(const std::vector<ibv_sge>& sges, const std::vector<char>& bytes, int access) const {
    size_t done = 0;
    for (const auto& sge : sges) {
      const size_t part = std::min<size_t>(sge.length, bytes.size() - done);
      if (part == 0) continue;
      const auto* mr = local(sge, access);
      if (mr == nullptr) return false;
      copy_bytes(at(*mr, sge.addr), bytes.data() + done, part);
      done += part;
    }
    return true;
  }

 private:
  const FakeFabric& fabric_;
  const FakeQp& qp_;
};

uint64_t total(const std::vector<ibv_sge>& sges) {
  uint64_t bytes = 0;
  for (const auto& sge : sges) bytes += sge.length;
  return bytes;
}

bool is_listening(const FakeQp& qp) {
  return qp.current == IBV_QPS_RTR || qp.current == IBV_QPS_RTS || qp.current == IBV_QPS_SQD;
}

bool has_gid(const FakeQp& qp, const ibv_gid& gid) {
  const auto& device = *qp.owner->owner;
  for (uint32_t i = 0; i < device.options.gids.size(); ++i) {
    const auto own = fake_gid(device, i);
    if (std::memcmp(own.raw, gid.raw, sizeof(gid.raw)) == 0) return true;
  }
  return false;
}

// Whether packets with this address arrive at that queue pair.
bool reaches(const FakeQp& from, const ibv_ah_attr& address, const FakeQp& to) {
  if (!from.owner->owner->reachable || !to.owner->owner->reachable || !is_listening(to)) {
    return false;
  }
  if (from.owner->owner->options.iwarp) return to.owner->owner->options.iwarp;
  return address.is_global == 0 || has_gid(to, address.grh.dgid);
}

// One request of a reliable connection.
class Execution {
 public:
  Execution(FakeFabric* fabric, FakeQp* qp, const FakeRequest& request)
      : fabric_(*fabric), qp_(*qp), request_(request), own_(*fabric, *qp) {}

  Outcome run() {
    auto* peer = find_peer();
    if (peer == nullptr) return IBV_WC_RETRY_EXC_ERR;
    peer->waits_for_first = false;
    switch (request_.wr.opcode) {
      case IBV_WR_SEND:
      case IBV_WR_SEND_WITH_IMM:
        return send(peer);
      case IBV_WR_RDMA_WRITE:
      case IBV_WR_RDMA_WRITE_WITH_IMM:
        return write(peer);
      case IBV_WR_RDMA_READ:
        return read(peer);
      default:
        return atomic(peer);
    }
  }

 private:
  FakeQp* find_peer() const {
    auto* peer = fabric_.queue_pair(qp_.attr.dest_qp_num);
    if (peer == nullptr || peer->qp_type != IBV_QPT_RC) return nullptr;
    const bool linked =
        peer->attr.dest_qp_num == qp_.qp_num && peer->attr.rq_psn == qp_.attr.sq_psn &&
        reaches(qp_, qp_.attr.ah_attr, *peer) &&
        (peer->attr.ah_attr.is_global == 0 || has_gid(qp_, peer->attr.ah_attr.grh.dgid));
    return linked ? peer : nullptr;
  }

  bool gather(std::vector<char>* bytes) const {
    if (request_.inlined) {
      *bytes = *request_.inlined;
      return true;
    }
    return own_.gather(request_.sges, bytes);
  }

  // The peer's end breaks too. The sender of iWARP is not told: its request has succeeded, and then
  // the connection ends.
  Outcome refuse(FakeQp* peer, ibv_wc_status status, std::optional<ibv_event_type> event) {
    if (event) fabric_.raise(peer, *event);
    fabric_.enter_error(peer);
    if (!qp_.owner->owner->options.iwarp) return status;
    qp_.current = IBV_QPS_ERR;
    qp_.dead_wire = true;
    fabric_.raise(&qp_, IBV_EVENT_QP_FATAL);
    return request_.wr.opcode == IBV_WR_RDMA_READ ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
  }

  static std::deque<FakeReceive>* receives_of(FakeQp* peer) {
    return peer->srq != nullptr ? &static_cast<FakeSrq*>(peer->srq)->receives : &peer->receives;
  }

  // Takes the peer's oldest receive.
  FakeReceive take_receive(FakeQp* peer) {
    auto* receives = receives_of(peer);
    FakeReceive receive = receives->front();
    receives->pop_front();
    auto* srq = static_cast<FakeSrq*>(peer->srq);
    if (srq != nullptr && srq->limit != 0 && receives->size() < srq->limit) {
      srq->limit = 0;
      fabric_.raise(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
    }
    return receive;
  }

  Outcome not_ready(FakeQp* peer) {
    if (qp_.owner->owner->options.iwarp) return refuse(peer, IBV_WC_REM_OP_ERR, std::nullopt);
    if (qp_.attr.rnr_retry == kForEver) return kLater;
    if (!fabric_.manual_rnr) return IBV_WC_RNR_RETRY_EXC_ERR;
    if (!qp_.rnr_left) qp_.rnr_left = qp_.attr.rnr_retry;
    return *qp_.rnr_left == 0 ? Outcome(IBV_WC_RNR_RETRY_EXC_ERR) : kLater;
  }

  bool has_immediate() const {
    return request_.wr.opcode == IBV_WR_SEND_WITH_IMM ||
           request_.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }

  void complete_receive(FakeQp* peer, const FakeReceive& receive, ibv_wc_status status,
                        uint64_t bytes) {
    FakeCompletion completion = {fake_completion(receive.wr_id, status, peer->qp_num),
                                 (request_.wr.send_flags & IBV_SEND_SOLICITED) != 0, std::nullopt};
    if (status == IBV_WC_SUCCESS) {
      completion.wc.opcode = request_.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM
                                 ? IBV_WC_RECV_RDMA_WITH_IMM
                                 : IBV_WC_RECV;
      completion.wc.byte_len = static_cast<uint32_t>(bytes);
      if (has_immediate()) {
        completion.wc.wc_flags |= IBV_WC_WITH_IMM;
        completion.wc.imm_data = request_.wr.imm_data;
      }
    }
    fabric_.complete(static_cast<FakeCq*>(peer->recv_cq), completion);
  }

  Outcome send(FakeQp* peer) {
    std::vector<char> bytes;
    if (!gather(&bytes)) return IBV_WC_LOC_PROT_ERR;
    if (bytes.size() > qp_.owner->owner->options.max_message) return IBV_WC_LOC_LEN_ERR;
    if (receives_of(peer)->empty()) return not_ready(peer);
    const auto receive = take_receive(peer);
    const bool vague = peer->owner->owner->options.vague_receives;
    if (total(receive.sges) < bytes.size()) {
      complete_receive(peer, receive, vague ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_LEN_ERR, 0);
      return refuse(peer, vague ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR, std::nullopt);
    }
    if (!Memory(fabric_, *peer).scatter(receive.sges, bytes, IBV_ACCESS_LOCAL_WRITE)) {
      complete_receive(peer, receive, vague ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR, 0);
      return refuse(peer, IBV_WC_REM_OP_ERR, std::nullopt);
    }
    complete_receive(peer, receive, IBV_WC_SUCCESS, bytes.size());
    return IBV_WC_SUCCESS;
  }

  bool peer_allows(const FakeQp& peer, int access) const {
    return qp_.owner->owner->options.iwarp || (peer.attr.qp_access_flags & access) != 0;
  }

  Outcome write(FakeQp* peer) {
    std::vector<char> bytes;
    if (!gather(&bytes)) return IBV_WC_LOC_PROT_ERR;
    if (bytes.size() > qp_.owner->owner->options.max_message) return IBV_WC_LOC_LEN_ERR;
    if (!peer_allows(*peer, IBV_ACCESS_REMOTE_WRITE)) {
      return refuse(peer, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    }
    const auto& rdma = request_.wr.wr.rdma;
    const FakeMr* mr = nullptr;
    if (!bytes.empty()) {
      mr = Memory(fabric_, *peer)
               .remote(rdma.rkey, rdma.remote_addr, bytes.size(), IBV_ACCESS_REMOTE_WRITE);
      if (mr == nullptr) return refuse(peer, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    }
    if (has_immediate() && receives_of(peer)->empty()) return not_ready(peer);
    if (mr != nullptr) copy_bytes(at(*mr, rdma.remote_addr), bytes.data(), bytes.size());
    if (has_immediate()) {
      complete_receive(peer, take_receive(peer), IBV_WC_SUCCESS, bytes.size());
    }
    return IBV_WC_SUCCESS;
  }

  Outcome read(FakeQp* peer) {
    const bool iwarp = qp_.owner->owner->options.iwarp;
    if (qp_.attr.max_rd_atomic == 0 && !iwarp) return IBV_WC_LOC_QP_OP_ERR;
    const uint64_t bytes = total(request_.sges);
    const int sink = IBV_ACCESS_LOCAL_WRITE | (iwarp ? IBV_ACCESS_REMOTE_WRITE : 0);
    if (!is_sink(sink)) return IBV_WC_LOC_PROT_ERR;
    if (!peer_allows(*peer, IBV_ACCESS_REMOTE_READ) ||
        (peer->attr.max_dest_rd_atomic == 0 && !iwarp)) {
      return refuse(peer, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    }
    if (bytes == 0) return IBV_WC_SUCCESS;
    const auto& rdma = request_.wr.wr.rdma;
    const auto* mr =
        Memory(fabric_, *peer).remote(rdma.rkey, rdma.remote_addr, bytes, IBV_ACCESS_REMOTE_READ);
    if (mr == nullptr) return refuse(peer, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    const char* from = at(*mr, rdma.remote_addr);
    own_.scatter(request_.sges, {from, from + bytes}, sink);
    return IBV_WC_SUCCESS;
  }

  bool is_sink(int access) const {
    return std::all_of(request_.sges.begin(), request_.sges.end(), [&](const auto& sge) {
      return sge.length == 0 || own_.local(sge, access) != nullptr;
    });
  }

  Outcome atomic(FakeQp* peer) {
    if (qp_.attr.max_rd_atomic == 0) return IBV_WC_LOC_QP_OP_ERR;
    if (total(request_.sges) != 8 || !is_sink(IBV_ACCESS_LOCAL_WRITE)) return IBV_WC_LOC_PROT_ERR;
    const auto& wr = request_.wr.wr.atomic;
    if (!peer_allows(*peer, IBV_ACCESS_REMOTE_ATOMIC) || peer->attr.max_dest_rd_atomic == 0 ||
        wr.remote_addr % 8 != 0) {
      return refuse(peer, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    }
    const auto* mr =
        Memory(fabric_, *peer).remote(wr.rkey, wr.remote_addr, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (mr == nullptr) return refuse(peer, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(at(*mr, wr.remote_addr)));
    uint64_t before = wr.compare_add;
    // Pair with whatever atomic operations the test does on the word itself.
    if (request_.wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      before = word.fetch_add(wr.compare_add, std::memory_order_acq_rel);
    } else {
      word.compare_exchange_strong(before, wr.swap, std::memory_order_acq_rel);
    }
    std::vector<char> answer(sizeof(before));
    std::memcpy(answer.data(), &before, sizeof(before));
    own_.scatter(request_.sges, answer, IBV_ACCESS_LOCAL_WRITE);
    return IBV_WC_SUCCESS;
  }

  FakeFabric& fabric_;
  FakeQp& qp_;
  const FakeRequest& request_;
  const Memory own_;
};

// Before a datagram, as over IPv4: twenty unused bytes, then an IPv4 header.
void write_header(std::vector<char>* message) {
  message->assign(kGlobalHeader, '\x5a');
  (*message)[20] = 0x45;
}

// A datagram arrives, or is lost silently.
Outcome send_datagram(FakeFabric* fabric, FakeQp* qp, const FakeRequest& request) {
  std::vector<char> message;
  write_header(&message);
  std::vector<char> bytes;
  if (request.inlined) {
    bytes = *request.inlined;
  } else if (!Memory(*fabric, *qp).gather(request.sges, &bytes)) {
    return IBV_WC_LOC_PROT_ERR;
  }
  message.insert(message.end(), bytes.begin(), bytes.end());
  auto* peer = fabric->queue_pair(request.wr.wr.ud.remote_qpn);
  if (peer == nullptr || peer->qp_type != IBV_QPT_UD || !reaches(*qp, request.address, *peer)) {
    return IBV_WC_SUCCESS;
  }
  const uint32_t wished = request.wr.wr.ud.remote_qkey;
  const uint32_t qkey = (wished >> 31) != 0 ? qp->attr.qkey : wished;
  auto* receives =
      peer->srq != nullptr ? &static_cast<FakeSrq*>(peer->srq)->receives : &peer->receives;
  if (qkey != peer->attr.qkey || receives->empty()) return IBV_WC_SUCCESS;
  const auto receive = receives->front();
  receives->pop_front();
  ibv_wc_status status = IBV_WC_SUCCESS;
  if (total(receive.sges) < message.size()) {
    status = IBV_WC_LOC_LEN_ERR;
  } else if (!Memory(*fabric, *peer).scatter(receive.sges, message, IBV_ACCESS_LOCAL_WRITE)) {
    status = IBV_WC_LOC_PROT_ERR;
  }
  FakeCompletion completion = {fake_completion(receive.wr_id, status, peer->qp_num),
                               (request.wr.send_flags & IBV_SEND_SOLICITED) != 0, std::nullopt};
  if (status == IBV_WC_SUCCESS) {
    completion.wc.opcode = IBV_WC_RECV;
    completion.wc.byte_len = static_cast<uint32_t>(message.size());
    completion.wc.src_qp = qp->qp_num;
    completion.wc.wc_flags = IBV_WC_GRH;
    if (request.wr.opcode == IBV_WR_SEND_WITH_IMM) {
      completion.wc.wc_flags |= IBV_WC_WITH_IMM;
      completion.wc.imm_data = request.wr.imm_data;
    }
  }
  fabric->complete(static_cast<FakeCq*>(peer->recv_cq), completion);
  if (status != IBV_WC_SUCCESS) fabric->enter_error(peer);
  return IBV_WC_SUCCESS;
}

}  // namespace

// Executes the oldest request. False if it must wait.
bool FakeFabric::advance(FakeQp* qp) {
  if (qp->current != IBV_QPS_RTS || qp->stalled || qp->requests.empty()) return false;
  const FakeRequest request = qp->requests.front();
  Outcome outcome;
  if (qp->forced) {
    outcome = *std::exchange(qp->forced, std::nullopt);
  } else if (qp->qp_type == IBV_QPT_UD) {
    outcome = send_datagram(this, qp, request);
  } else {
    outcome = Execution(this, qp, request).run();
  }
  if (!outcome) return false;
  qp->rnr_left.reset();
  qp->requests.pop_front();
  complete_send(qp, request, *outcome);
  if (*outcome != IBV_WC_SUCCESS) enter_error(qp);
  return true;
}

void FakeFabric::kick() {
  // A request may enable that of another queue pair, or break one.
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& [number, qp] : queue_pairs) {
      while (advance(qp)) moved = true;
      moved = flush(qp) || moved;
    }
  }
}

bool FakeFabric::flush(FakeQp* qp) {
  if (qp->current != IBV_QPS_ERR || qp->dead_wire) return false;
  const bool any = !qp->requests.empty() || !qp->receives.empty();
  while (!qp->requests.empty()) {
    const FakeRequest request = qp->requests.front();
    qp->requests.pop_front();
    complete_send(qp, request, IBV_WC_WR_FLUSH_ERR);
  }
  while (!qp->receives.empty()) {
    const auto receive = qp->receives.front();
    qp->receives.pop_front();
    complete(
        static_cast<FakeCq*>(qp->recv_cq),
        {fake_completion(receive.wr_id, IBV_WC_WR_FLUSH_ERR, qp->qp_num), false, std::nullopt});
  }
  return any;
}

// The next kick() flushes its requests: after the completion of the one being executed.
void FakeFabric::enter_error(FakeQp* qp) {
  if (qp->current == IBV_QPS_ERR) return;
  qp->current = IBV_QPS_ERR;
  disconnect(qp->qp_num);
  if (qp->srq != nullptr) raise(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}

}  // namespace urma::verbs
