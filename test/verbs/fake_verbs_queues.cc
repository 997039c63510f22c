// SPDX-License-Identifier: MIT
//
// The fake queues: creation, changes, posts and end.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "test/verbs/fake_verbs_state.h"

namespace urma::verbs {
namespace {

const FakeDeviceOptions& options_of(const ibv_context* context) {
  return static_cast<const FakeContext*>(context)->owner->options;
}

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  FakeCall call("create_srq");
  if (call.error() != 0) return fake_null(call.error());
  const auto& options = options_of(pd->context);
  if (!options.has_srq) return fake_null(EOPNOTSUPP);
  if (attr->attr.max_wr == 0 || attr->attr.max_wr > options.max_srq_wr ||
      attr->attr.max_sge > options.max_sge) {
    return fake_null(EINVAL);
  }
  auto* srq = new FakeSrq{};
  srq->context = pd->context;
  srq->srq_context = attr->srq_context;
  srq->pd = pd;
  srq->owner = static_cast<FakeContext*>(pd->context);
  srq->max_wr = attr->attr.max_wr;
  srq->max_sge = attr->attr.max_sge;
  ++static_cast<FakePd*>(pd)->children;
  ++call->objects;
  return srq;
}

int modify_srq(ibv_srq* base, ibv_srq_attr* attr, int mask) {
  FakeCall call("modify_srq");
  if (call.error() != 0) return call.error();
  auto* srq = static_cast<FakeSrq*>(base);
  const auto& options = options_of(srq->context);
  if ((mask & IBV_SRQ_MAX_WR) != 0) {
    if (!options.has_srq_resize) return EOPNOTSUPP;
    if (attr->max_wr > options.max_srq_wr || attr->max_wr < srq->receives.size()) return EINVAL;
    srq->max_wr = attr->max_wr;
  }
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  if (attr->srq_limit > srq->max_wr) return EINVAL;
  srq->limit = attr->srq_limit;
  return 0;
}

int query_srq(ibv_srq* base, ibv_srq_attr* attr) {
  FakeCall call("query_srq");
  if (call.error() != 0) return call.error();
  const auto* srq = static_cast<FakeSrq*>(base);
  *attr = {srq->max_wr, srq->max_sge, srq->limit};
  return 0;
}

int destroy_srq(ibv_srq* base) {
  FakeCall call("destroy_srq");
  if (call.error() != 0) return call.error();
  auto* srq = static_cast<FakeSrq*>(base);
  if (srq->users != 0) return EBUSY;
  srq->owner->events.remove_if([srq](const auto& event) { return fake_element(event) == srq; });
  call->acked.wait(call.lock(), [srq] { return srq->async_unacked == 0; });
  --static_cast<FakePd*>(srq->pd)->children;
  --call->objects;
  delete srq;
  return 0;
}

template <typename Room>
int post_receives(const FakeContext& owner, ibv_recv_wr* first, ibv_recv_wr** bad, uint32_t max_sge,
                  Room room, std::deque<FakeReceive>* receives) {
  // Like Soft-iWARP.
  const int least = owner.owner->options.iwarp ? 1 : 0;
  for (auto* wr = first; wr != nullptr; wr = wr->next) {
    const bool valid = wr->num_sge >= least && static_cast<uint32_t>(wr->num_sge) <= max_sge;
    if (!valid || !room()) {
      *bad = wr;
      return valid ? ENOMEM : EINVAL;
    }
    receives->push_back({wr->wr_id, {wr->sg_list, wr->sg_list + wr->num_sge}});
  }
  return 0;
}

int post_srq_recv(ibv_srq* base, ibv_recv_wr* first, ibv_recv_wr** bad) {
  FakeCall call("post_srq_recv");
  if (call.error() != 0) {
    *bad = first;
    return call.error();
  }
  auto* srq = static_cast<FakeSrq*>(base);
  const int error = post_receives(
      *srq->owner, first, bad, srq->max_sge, [srq] { return srq->receives.size() < srq->max_wr; },
      &srq->receives);
  call->kick();
  return error;
}

bool is_valid(const ibv_qp_init_attr& attr, const FakeDeviceOptions& options) {
  if (attr.qp_type != IBV_QPT_RC && (attr.qp_type != IBV_QPT_UD || options.iwarp)) return false;
  const auto& cap = attr.cap;
  return attr.send_cq != nullptr && attr.recv_cq != nullptr &&
         cap.max_send_wr <= options.max_qp_wr && cap.max_recv_wr <= options.max_qp_wr &&
         cap.max_send_sge <= options.max_sge && cap.max_recv_sge <= options.max_sge &&
         cap.max_inline_data <= options.max_inline;
}

uint32_t next_number(FakeFabric* fabric) {
  if (!fabric->reuse_numbers) return fabric->next_qp++;
  uint32_t number = FakeFabric::kFirstQp;
  while (fabric->queue_pairs.contains(number)) ++number;
  return number;
}

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  FakeCall call("create_qp");
  if (call.error() != 0) return fake_null(call.error());
  if (!is_valid(*attr, options_of(pd->context))) return fake_null(EINVAL);
  auto* qp = new FakeQp{};
  qp->context = pd->context;
  qp->qp_context = attr->qp_context;
  qp->pd = pd;
  qp->send_cq = attr->send_cq;
  qp->recv_cq = attr->recv_cq;
  qp->srq = attr->srq;
  qp->qp_num = next_number(&call.fabric());
  qp->state = IBV_QPS_RESET;
  qp->current = IBV_QPS_RESET;
  qp->qp_type = attr->qp_type;
  qp->owner = static_cast<FakeContext*>(pd->context);
  qp->caps = attr->cap;
  qp->signal_all = attr->sq_sig_all != 0;
  qp->stalled = call->stall_all;
  if (attr->srq != nullptr) ++static_cast<FakeSrq*>(attr->srq)->users;
  ++static_cast<FakeCq*>(attr->send_cq)->users;
  ++static_cast<FakeCq*>(attr->recv_cq)->users;
  ++static_cast<FakePd*>(pd)->children;
  ++call->objects;
  call->queue_pairs[qp->qp_num] = qp;
  return qp;
}

constexpr int kRcInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kUdInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int kRcReceive = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRcSend =
    IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

// What a change of state must include; empty if there is no such change.
std::optional<int> required(const FakeQp& qp, ibv_qp_state to) {
  const bool rc = qp.qp_type == IBV_QPT_RC;
  const bool iwarp = options_of(qp.context).iwarp;
  switch (to) {
    case IBV_QPS_RESET:
    case IBV_QPS_ERR:
      return 0;
    case IBV_QPS_INIT:
      if (qp.current == IBV_QPS_INIT) return 0;
      if (qp.current != IBV_QPS_RESET) return std::nullopt;
      return rc ? kRcInit : kUdInit;
    case IBV_QPS_RTR:
      if (qp.current != IBV_QPS_INIT || iwarp) return std::nullopt;
      return rc ? kRcReceive : 0;
    case IBV_QPS_RTS:
      if (qp.current == IBV_QPS_RTS || qp.current == IBV_QPS_SQD) return 0;
      if (qp.current != IBV_QPS_RTR || iwarp) return std::nullopt;
      return rc ? kRcSend : IBV_QP_SQ_PSN;
    case IBV_QPS_SQD:
      if (qp.current == IBV_QPS_RTS || qp.current == IBV_QPS_SQD) return 0;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

bool is_valid_change(const FakeQp& qp, const ibv_qp_attr& attr, int mask) {
  const auto& options = options_of(qp.context);
  if ((mask & IBV_QP_PORT) != 0 && (attr.port_num == 0 || attr.port_num > options.ports)) {
    return false;
  }
  if ((mask & IBV_QP_AV) != 0) {
    const bool global = attr.ah_attr.is_global != 0;
    if (!global && !options.infiniband) return false;
    if (global && attr.ah_attr.grh.sgid_index >= options.gids.size()) return false;
  }
  if ((mask & IBV_QP_PATH_MTU) != 0 && attr.path_mtu > options.mtu) return false;
  // Fields of 3 and 5 bits.
  if (((mask & IBV_QP_RNR_RETRY) != 0 && attr.rnr_retry > 7) ||
      ((mask & IBV_QP_TIMEOUT) != 0 && attr.timeout > 31) ||
      ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && attr.min_rnr_timer > 31)) {
    return false;
  }
  return ((mask & IBV_QP_MAX_QP_RD_ATOMIC) == 0 || attr.max_rd_atomic <= options.max_rd_atomic) &&
         ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) == 0 ||
          attr.max_dest_rd_atomic <= options.max_rd_atomic);
}

void store(const ibv_qp_attr& from, int mask, ibv_qp_attr* to) {
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) to->qp_access_flags = from.qp_access_flags;
  if ((mask & IBV_QP_PORT) != 0) to->port_num = from.port_num;
  if ((mask & IBV_QP_QKEY) != 0) to->qkey = from.qkey;
  if ((mask & IBV_QP_AV) != 0) to->ah_attr = from.ah_attr;
  if ((mask & IBV_QP_PATH_MTU) != 0) to->path_mtu = from.path_mtu;
  if ((mask & IBV_QP_TIMEOUT) != 0) to->timeout = from.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) to->retry_cnt = from.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) to->rnr_retry = from.rnr_retry;
  if ((mask & IBV_QP_RQ_PSN) != 0) to->rq_psn = from.rq_psn;
  if ((mask & IBV_QP_SQ_PSN) != 0) to->sq_psn = from.sq_psn;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) to->max_rd_atomic = from.max_rd_atomic;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) to->max_dest_rd_atomic = from.max_dest_rd_atomic;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) to->min_rnr_timer = from.min_rnr_timer;
  if ((mask & IBV_QP_DEST_QPN) != 0) to->dest_qp_num = from.dest_qp_num;
}

// As if just created. Its requests are dropped, without completions.
void reset(FakeQp* qp) {
  qp->requests.clear();
  qp->receives.clear();
  qp->held_completions.clear();
  qp->retired = qp->posted;
  qp->rnr_left.reset();
  qp->dead_wire = false;
  qp->attr = {};
}

int modify_qp(ibv_qp* base, ibv_qp_attr* attr, int mask) {
  FakeCall call("modify_qp");
  if (call.error() != 0) return call.error();
  auto* qp = static_cast<FakeQp*>(base);
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : qp->current;
  const auto needed = required(*qp, to);
  if (!needed || (mask & *needed) != *needed || !is_valid_change(*qp, *attr, mask)) return EINVAL;
  qp->state = to;
  if (to == IBV_QPS_ERR) {
    call->enter_error(qp);
    call->kick();
    return 0;
  }
  if (to == IBV_QPS_RESET) reset(qp);
  store(*attr, mask, &qp->attr);
  qp->current = to;
  call->kick();
  return 0;
}

int query_qp(ibv_qp* base, ibv_qp_attr* attr, int /*mask*/, ibv_qp_init_attr* init_attr) {
  FakeCall call("query_qp");
  if (call.error() != 0) return call.error();
  auto* qp = static_cast<FakeQp*>(base);
  *attr = qp->attr;
  attr->qp_state = qp->current;
  attr->cur_qp_state = qp->current;
  attr->cap = qp->caps;
  qp->state = qp->current;
  *init_attr = {};
  init_attr->qp_context = qp->qp_context;
  init_attr->send_cq = qp->send_cq;
  init_attr->recv_cq = qp->recv_cq;
  init_attr->srq = qp->srq;
  init_attr->cap = qp->caps;
  init_attr->qp_type = qp->qp_type;
  init_attr->sq_sig_all = qp->signal_all ? 1 : 0;
  return 0;
}

void clean(FakeCq* cq, uint32_t qp_num) {
  std::erase_if(cq->entries, [&](const auto& entry) { return entry.wc.qp_num == qp_num; });
}

int destroy_qp(ibv_qp* base) {
  FakeCall call("destroy_qp");
  if (call.error() != 0) return call.error();
  auto* qp = static_cast<FakeQp*>(base);
  call->disconnect(qp->qp_num);
  // From here on no one finds it.
  call->queue_pairs.erase(qp->qp_num);
  qp->owner->events.remove_if([qp](const auto& event) { return fake_element(event) == qp; });
  call->acked.wait(call.lock(), [qp] { return qp->async_unacked == 0; });
  if (call->clean_on_destroy) {
    clean(static_cast<FakeCq*>(qp->send_cq), qp->qp_num);
    clean(static_cast<FakeCq*>(qp->recv_cq), qp->qp_num);
  }
  if (qp->srq != nullptr) --static_cast<FakeSrq*>(qp->srq)->users;
  --static_cast<FakeCq*>(qp->send_cq)->users;
  --static_cast<FakeCq*>(qp->recv_cq)->users;
  --static_cast<FakePd*>(qp->pd)->children;
  --call->objects;
  delete qp;
  return 0;
}

bool is_known(const FakeQp& qp, ibv_wr_opcode opcode) {
  const auto& options = options_of(qp.context);
  switch (opcode) {
    case IBV_WR_SEND:
      return true;
    case IBV_WR_SEND_WITH_IMM:
      return !options.iwarp;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
      return qp.qp_type == IBV_QPT_RC;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return qp.qp_type == IBV_QPT_RC && !options.iwarp;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return qp.qp_type == IBV_QPT_RC && options.has_atomics && !options.iwarp;
    default:
      return false;
  }
}

bool may_be_inline(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE ||
         opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

// What a driver refuses when posting.
int check_request(const FakeFabric& fabric, const FakeQp& qp, const ibv_send_wr& wr) {
  const bool takes = qp.current == IBV_QPS_RTS || qp.current == IBV_QPS_SQD ||
                     qp.current == IBV_QPS_SQE || qp.current == IBV_QPS_ERR;
  if (!takes || !is_known(qp, wr.opcode)) return EINVAL;
  EXPECT_FALSE(qp.waits_for_first) << "the called end of an iWARP connection sends first";
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > qp.caps.max_send_sge) return EINVAL;
  const auto& options = options_of(qp.context);
  if (wr.opcode == IBV_WR_RDMA_READ && options.iwarp && wr.num_sge != 1) return EINVAL;
  uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0 &&
      (bytes > qp.caps.max_inline_data || !may_be_inline(wr.opcode))) {
    return EINVAL;
  }
  if (qp.qp_type == IBV_QPT_UD) {
    if (!fabric.addresses.contains(wr.wr.ud.ah)) return EINVAL;
    if (bytes > 128U << options.mtu) return EMSGSIZE;
  }
  return qp.posted - qp.retired < qp.caps.max_send_wr ? 0 : ENOMEM;
}

FakeRequest copy_request(FakeQp* qp, const ibv_send_wr& wr) {
  FakeRequest request = {};
  request.wr = wr;
  request.wr.next = nullptr;
  request.sges.assign(wr.sg_list, wr.sg_list + wr.num_sge);
  request.sequence = ++qp->posted;
  request.signaled = qp->signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    auto& bytes = request.inlined.emplace();
    for (const auto& sge : request.sges) {
      const auto* data = reinterpret_cast<const char*>(sge.addr);
      bytes.insert(bytes.end(), data, data + sge.length);
    }
  }
  if (qp->qp_type == IBV_QPT_UD) request.address = static_cast<FakeAh*>(wr.wr.ud.ah)->attr;
  return request;
}

int post_send(ibv_qp* base, ibv_send_wr* first, ibv_send_wr** bad) {
  FakeCall call("post_send");
  *bad = first;
  if (call.error() != 0) return call.error();
  auto* qp = static_cast<FakeQp*>(base);
  int error = 0;
  for (auto* wr = first; wr != nullptr && error == 0; wr = wr->next) {
    error = check_request(call.fabric(), *qp, *wr);
    if (error == 0) {
      qp->requests.push_back(copy_request(qp, *wr));
    } else {
      *bad = wr;
    }
  }
  call->kick();
  return error;
}

int post_recv(ibv_qp* base, ibv_recv_wr* first, ibv_recv_wr** bad) {
  FakeCall call("post_recv");
  *bad = first;
  if (call.error() != 0) return call.error();
  auto* qp = static_cast<FakeQp*>(base);
  if (qp->srq != nullptr || qp->current == IBV_QPS_RESET) return EINVAL;
  const int error = post_receives(
      *qp->owner, first, bad, qp->caps.max_recv_sge,
      [qp] { return qp->receives.size() < qp->caps.max_recv_wr; }, &qp->receives);
  call->kick();
  return error;
}

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  FakeCall call("create_ah");
  if (call.error() != 0) return fake_null(call.error());
  const auto& options = options_of(pd->context);
  const bool global = attr->is_global != 0;
  if (options.iwarp || (!global && !options.infiniband) ||
      (global && attr->grh.sgid_index >= options.gids.size()) || attr->port_num == 0 ||
      attr->port_num > options.ports) {
    return fake_null(EINVAL);
  }
  auto* ah = new FakeAh{};
  ah->context = pd->context;
  ah->pd = pd;
  ah->attr = *attr;
  ++static_cast<FakePd*>(pd)->children;
  ++call->objects;
  call->addresses.insert(ah);
  return ah;
}

int destroy_ah(ibv_ah* base) {
  FakeCall call("destroy_ah");
  if (call.error() != 0) return call.error();
  auto* ah = static_cast<FakeAh*>(base);
  call->addresses.erase(ah);
  --static_cast<FakePd*>(ah->pd)->children;
  --call->objects;
  delete ah;
  return 0;
}

}  // namespace

void fill_fake_queues(Api* api) {
  api->create_srq = create_srq;
  api->modify_srq = modify_srq;
  api->query_srq = query_srq;
  api->destroy_srq = destroy_srq;
  api->post_srq_recv = post_srq_recv;
  api->create_qp = create_qp;
  api->modify_qp = modify_qp;
  api->query_qp = query_qp;
  api->destroy_qp = destroy_qp;
  api->post_send = post_send;
  api->post_send_quietly = post_send;
  api->post_recv = post_recv;
  api->create_ah = create_ah;
  api->destroy_ah = destroy_ah;
}

}  // namespace urma::verbs
