// SPDX-License-Identifier: MIT
//
// The fake's completion queues, channels and events.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "test/verbs/fake_verbs_state.h"

namespace urma::verbs {

// The descriptor counts one per event; both change under the lock only.
template <typename Event>
FakeEvents<Event>::FakeEvents() : fd(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}

template <typename Event>
void FakeEvents<Event>::push(const Event& event) {
  events.push_back(event);
  const uint64_t one = 1;
  ASSERT_EQ(::write(fd.get(), &one, sizeof(one)), ssize_t{sizeof(one)});
}

template <typename Event>
int FakeEvents<Event>::take(FakeLock* lock, Event* event) {
  while (events.empty()) {
    if ((::fcntl(fd.get(), F_GETFL) & O_NONBLOCK) != 0) return EAGAIN;
    lock->unlock();
    pollfd readable = {fd.get(), POLLIN, 0};
    const int result = ::poll(&readable, 1, -1);
    const int error = errno;
    lock->lock();
    if (result < 0) return error;
  }
  uint64_t one = 0;
  EXPECT_EQ(::read(fd.get(), &one, sizeof(one)), ssize_t{sizeof(one)});
  *event = events.front();
  events.pop_front();
  return 0;
}

template <typename Event>
void FakeEvents<Event>::remove_if(const std::function<bool(const Event&)>& predicate) {
  for (auto removed = std::erase_if(events, predicate); removed > 0; --removed) {
    uint64_t one = 0;
    ASSERT_EQ(::read(fd.get(), &one, sizeof(one)), ssize_t{sizeof(one)});
  }
}

template struct FakeEvents<ibv_async_event>;
template struct FakeEvents<FakeCq*>;
template struct FakeEvents<FakeCmEvent*>;

ibv_wc fake_completion(uint64_t wr_id, ibv_wc_status status, uint32_t qp_num) {
  ibv_wc wc;
  std::memset(static_cast<void*>(&wc), 0xa5, sizeof(wc));
  wc.wr_id = wr_id;
  wc.status = status;
  wc.vendor_err = 0;
  wc.qp_num = qp_num;
  if (status == IBV_WC_SUCCESS) wc.wc_flags = 0;
  return wc;
}

void FakeFabric::complete(FakeCq* cq, const FakeCompletion& completion) {
  if (cq->overrun) return;
  if (cq->entries.size() >= cq->capacity) {
    cq->overrun = true;
    raise(cq, IBV_EVENT_CQ_ERR);
    for (const auto& [number, qp] : queue_pairs) {
      if (qp->send_cq == cq || qp->recv_cq == cq) enter_error(qp);
    }
    return;
  }
  cq->entries.push_back(completion);
  const bool tells = completion.solicited || completion.wc.status != IBV_WC_SUCCESS;
  if (!cq->armed || (cq->solicited_only && !tells)) return;
  cq->armed = false;
  if (cq->completion_channel != nullptr) cq->completion_channel->events.push(cq);
}

namespace {

ibv_wc_opcode opcode_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    default:
      return IBV_WC_SEND;
  }
}

}  // namespace

void FakeFabric::complete_send(FakeQp* qp, const FakeRequest& request, ibv_wc_status status) {
  if (status == IBV_WC_SUCCESS && !request.signaled) return;
  FakeCompletion completion = {fake_completion(request.wr.wr_id, status, qp->qp_num), false,
                               request.sequence};
  if (status == IBV_WC_SUCCESS) {
    completion.wc.opcode = opcode_of(request.wr.opcode);
    completion.wc.byte_len = 0;
    for (const auto& sge : request.sges) completion.wc.byte_len += sge.length;
  }
  if (qp->held) {
    qp->held_completions.push_back(completion);
  } else {
    complete(static_cast<FakeCq*>(qp->send_cq), completion);
  }
}

void FakeFabric::raise(FakeContext* context, const ibv_async_event& event) {
  context->events.push(event);
}

void FakeFabric::raise(FakeQp* qp, ibv_event_type type) {
  ibv_async_event event = {};
  event.event_type = type;
  event.element.qp = qp;
  raise(qp->owner, event);
}

void FakeFabric::raise(FakeCq* cq, ibv_event_type type) {
  ibv_async_event event = {};
  event.event_type = type;
  event.element.cq = cq;
  raise(cq->owner, event);
}

void FakeFabric::raise(FakeSrq* srq, ibv_event_type type) {
  ibv_async_event event = {};
  event.event_type = type;
  event.element.srq = srq;
  raise(srq->owner, event);
}

const void* fake_element(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return static_cast<const FakeCq*>(event.element.cq);
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return static_cast<const FakeSrq*>(event.element.srq);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return static_cast<const FakeQp*>(event.element.qp);
    default:
      return nullptr;
  }
}

namespace {

// The count of the queue that an event is about; NULL for a port or device.
uint32_t* unacked_of(const ibv_async_event& event) {
  if (fake_element(event) == nullptr) return nullptr;
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return &static_cast<FakeCq*>(event.element.cq)->async_unacked;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return &static_cast<FakeSrq*>(event.element.srq)->async_unacked;
    default:
      return &static_cast<FakeQp*>(event.element.qp)->async_unacked;
  }
}

int get_async_event(ibv_context* context, ibv_async_event* event) {
  FakeCall call("get_async_event");
  if (call.error() != 0) return call.error();
  const int error = static_cast<FakeContext*>(context)->events.take(&call.lock(), event);
  if (error != 0) return error;
  if (auto* unacked = unacked_of(*event)) ++*unacked;
  return 0;
}

void ack_async_event(ibv_async_event* event) {
  FakeCall call("ack_async_event");
  auto* unacked = unacked_of(*event);
  if (unacked == nullptr) return;
  ASSERT_GT(*unacked, 0U) << "an event was acknowledged but never fetched";
  --*unacked;
  call->acked.notify_all();
}

ibv_comp_channel* create_comp_channel(ibv_context* context) {
  FakeCall call("create_comp_channel");
  if (call.error() != 0) return fake_null(call.error());
  auto* channel = new FakeChannel{};
  channel->context = context;
  channel->fd = channel->events.fd.get();
  ++static_cast<FakeContext*>(context)->children;
  ++call->objects;
  return channel;
}

int destroy_comp_channel(ibv_comp_channel* base) {
  FakeCall call("destroy_comp_channel");
  if (call.error() != 0) return call.error();
  auto* channel = static_cast<FakeChannel*>(base);
  if (channel->users != 0) return EBUSY;
  --static_cast<FakeContext*>(channel->context)->children;
  --call->objects;
  delete channel;
  return 0;
}

ibv_cq* create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel,
                  int vector) {
  FakeCall call("create_cq");
  if (call.error() != 0) return fake_null(call.error());
  auto* owner = static_cast<FakeContext*>(context);
  const auto& options = owner->owner->options;
  if (entries <= 0 || static_cast<uint32_t>(entries) > options.max_cqe || vector != 0) {
    return fake_null(EINVAL);
  }
  auto* cq = new FakeCq{};
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = entries;
  cq->owner = owner;
  cq->completion_channel = static_cast<FakeChannel*>(channel);
  cq->capacity = static_cast<uint32_t>(entries);
  if (channel != nullptr) ++cq->completion_channel->users;
  ++owner->children;
  ++call->objects;
  return cq;
}

int resize_cq(ibv_cq* base, int entries) {
  FakeCall call("resize_cq");
  if (call.error() != 0) return call.error();
  auto* cq = static_cast<FakeCq*>(base);
  const auto& options = cq->owner->owner->options;
  if (!options.has_resize_cq || options.iwarp) return EOPNOTSUPP;
  if (entries <= 0 || static_cast<uint32_t>(entries) > options.max_cqe ||
      static_cast<size_t>(entries) < cq->entries.size()) {
    return EINVAL;
  }
  cq->cqe = entries;
  cq->capacity = static_cast<uint32_t>(entries);
  return 0;
}

int destroy_cq(ibv_cq* base) {
  FakeCall call("destroy_cq");
  if (call.error() != 0) return call.error();
  auto* cq = static_cast<FakeCq*>(base);
  if (cq->users != 0) return EBUSY;
  cq->owner->events.remove_if([cq](const auto& event) { return fake_element(event) == cq; });
  if (cq->completion_channel != nullptr) {
    cq->completion_channel->events.remove_if([cq](const FakeCq* event) { return event == cq; });
  }
  call->acked.wait(call.lock(), [cq] { return cq->unacked == 0 && cq->async_unacked == 0; });
  if (cq->completion_channel != nullptr) --cq->completion_channel->users;
  --cq->owner->children;
  --call->objects;
  delete cq;
  return 0;
}

int poll_cq(ibv_cq* base, int count, ibv_wc* completions) {
  FakeCall call("poll_cq");
  if (call.error() != 0) return -1;
  auto* cq = static_cast<FakeCq*>(base);
  int taken = 0;
  for (; taken < count && !cq->entries.empty(); ++taken) {
    const auto& completion = cq->entries.front();
    completions[taken] = completion.wc;
    auto* qp = call->queue_pair(completion.wc.qp_num);
    if (completion.retires && qp != nullptr) {
      qp->retired = std::max(qp->retired, *completion.retires);
    }
    cq->entries.pop_front();
  }
  return taken;
}

int req_notify_cq(ibv_cq* base, int solicited_only) {
  FakeCall call("req_notify_cq");
  if (call.error() != 0) return call.error();
  auto* cq = static_cast<FakeCq*>(base);
  // The wider of two requests wins.
  cq->solicited_only = solicited_only != 0 && (!cq->armed || cq->solicited_only);
  cq->armed = true;
  return 0;
}

int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  FakeCall call("get_cq_event");
  if (call.error() != 0) return call.error();
  FakeCq* event = nullptr;
  const int error = static_cast<FakeChannel*>(channel)->events.take(&call.lock(), &event);
  if (error != 0) return error;
  ++event->unacked;
  *cq = event;
  *cq_context = event->cq_context;
  return 0;
}

void ack_cq_events(ibv_cq* base, unsigned int count) {
  FakeCall call("ack_cq_events");
  auto* cq = static_cast<FakeCq*>(base);
  ASSERT_GE(cq->unacked, count) << "more events were acknowledged than fetched";
  cq->unacked -= count;
  call->acked.notify_all();
}

}  // namespace

void fill_fake_completions(Api* api) {
  api->get_async_event = get_async_event;
  api->ack_async_event = ack_async_event;
  api->create_comp_channel = create_comp_channel;
  api->destroy_comp_channel = destroy_comp_channel;
  api->create_cq = create_cq;
  api->resize_cq = resize_cq;
  api->destroy_cq = destroy_cq;
  api->poll_cq = poll_cq;
  api->req_notify_cq = req_notify_cq;
  api->get_cq_event = get_cq_event;
  api->ack_cq_events = ack_cq_events;
}

}  // namespace urma::verbs
