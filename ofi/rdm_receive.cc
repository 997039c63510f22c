/* SPDX-License-Identifier: MIT */

// Endpoints for datagrams: receives, and what arrives for them.

#include <rdma/fi_errno.h>

#include <cstring>

#include "ofi/log.h"
#include "ofi/rdm_endpoint.h"

namespace urma_fi {
namespace {

// More than these are given back to the system.
constexpr size_t kKeptBytes = 1024;

}  // namespace

ssize_t RdmEndpoint::receive(const Wanted& wanted) {
  std::lock_guard lock(domain_->lock());
  if (!enabled_) return -FI_EOPBADSTATE;
  Receive* receive = matcher_.receives.take();
  receive->context = wanted.context;
  receive->kind = wanted.kind;
  receive->report = report_receives_ || (wanted.flags & FI_COMPLETION) != 0;
  receive->looks = (wanted.flags & FI_PEEK) != 0;
  receive->tag = wanted.tag;
  receive->ignore = wanted.ignore;
  const bool directed = directed_ && wanted.from != FI_ADDR_UNSPEC;
  receive->from = directed ? peer_at(wanted.from) : nullptr;
  if (!receive->memory.set(wanted.pieces) || (directed && receive->from == nullptr)) {
    matcher_.receives.put(receive);
    return -FI_EINVAL;
  }
  if ((wanted.flags & FI_PEEK) != 0) return look(wanted, receive);
  if ((wanted.flags & FI_CLAIM) != 0) return take_claimed(wanted, receive), 0;
  Unexpected* message = matcher_.find(*receive);
  if (message != nullptr) {
    matcher_.drop(message);
    give(receive, message);
    return 0;
  }
  if (receive->from != nullptr) receive->from->awaited++;
  matcher_.post(receive);
  return 0;
}

// Looks for a message that has arrived, and with FI_CLAIM or FI_DISCARD takes it.
ssize_t RdmEndpoint::look(const Wanted& wanted, Receive* receive) {
  // No data is copied, and the completion names no buffer.
  receive->memory.set({});
  progress();
  Unexpected* message = matcher_.find(*receive);
  if (message == nullptr) {
    end_receive(receive, FI_ENOMSG, 0);
    return 0;
  }
  receive->report = true;
  report_receive(*receive, message->message, message->message.length, 0, 0);
  matcher_.receives.put(receive);
  if ((wanted.flags & (FI_CLAIM | FI_DISCARD)) == 0) return 0;
  matcher_.drop(message);
  if ((wanted.flags & FI_CLAIM) != 0) {
    static_cast<fi_context*>(wanted.context)->internal[0] = message;
  } else {
    discard(message);
  }
  return 0;
}

void RdmEndpoint::take_claimed(const Wanted& wanted, Receive* receive) {
  auto* message = static_cast<Unexpected*>(static_cast<fi_context*>(wanted.context)->internal[0]);
  if ((wanted.flags & FI_DISCARD) == 0) return give(receive, message);
  report_receive(*receive, message->message, 0, 0, 0);
  matcher_.receives.put(receive);
  discard(message);
}

void RdmEndpoint::discard(Unexpected* message) {
  if (message->message.announced) answer_nothing(message->message, 0);
  put_message(message);
}

void RdmEndpoint::put_message(Unexpected* message) {
  if (message->bytes.capacity() > kKeptBytes) std::vector<char>().swap(message->bytes);
  matcher_.messages.put(message);
}

void RdmEndpoint::give(Receive* receive, Unexpected* message) {
  if (message->message.announced) {
    receive->message = message->message;
    take_announced(receive);
  } else {
    copy_to(receive, message->message, message->bytes.data());
  }
  put_message(message);
}

void RdmEndpoint::take_bounce(const urma_cr_t& record) {
  if (record.status == URMA_CR_WR_FLUSH_ERR) return;
  const uint64_t index = record.user_ctx >> kOwnerBits;
  Frame frame;
  if (record.status == URMA_CR_SUCCESS && record.opcode == URMA_CR_OPC_SEND_WITH_IMM &&
      read_frame(buffers_.bounce(index), record.completion_len, &frame)) {
    Peer* peer = sender_of(frame, record.remote_id.eid);
    if (peer != nullptr && recognise(peer, frame.origin.incarnation))
      take_frame(peer, frame, record.imm_data);
  } else {
    FI_WARN_SPARSE(&provider, FI_LOG_EP_DATA,
                   "%s sent %u bytes that are not a message of an endpoint; dropped\n",
                   to_text({record.remote_id.eid, record.remote_id.id}).c_str(),
                   record.completion_len);
  }
  buffers_.post(jfr_, index);
}

// NULL: the frame is to be dropped, or strangers could make us keep any number of peers and queues.
Peer* RdmEndpoint::sender_of(const Frame& frame, const urma_eid_t& eid) {
  Peer* peer = peers_.from(eid, frame.origin.id);
  if (peer != nullptr && (frame.kind == FrameKind::kEager || peers_.may_answer(peer))) return peer;
  FI_WARN_SPARSE(&provider, FI_LOG_EP_DATA,
                 "%s is not in the address vector, and too many such senders are known; dropped\n",
                 to_text({eid, frame.origin.id}).c_str());
  return nullptr;
}

// False: a late frame of an endpoint that has been replaced. A new incarnation fails everything
// that waits for the one before.
bool RdmEndpoint::recognise(Peer* peer, uint16_t incarnation) {
  if (peer->incarnation == incarnation) return true;
  if (peer->former == incarnation) return false;
  if (peer->incarnation != 0) {
    lose(peer, URMA_CR_ACK_TIMEOUT_ERR);
    while (Unexpected* message = matcher_.withdraw_announced(peer)) put_message(message);
  }
  peer->former = peer->incarnation;
  peer->incarnation = incarnation;
  return true;
}

// The peer may wait for the endpoint that was here before.
void RdmEndpoint::answer_probe(Peer* peer, const ProbeBody& asked) {
  if (asked.known != 0 && asked.known != origin_.incarnation && !peer->probed) probe(peer);
}

void RdmEndpoint::take_frame(Peer* peer, const Frame& frame, uint64_t tag) {
  switch (frame.kind) {
    case FrameKind::kEager:
    case FrameKind::kRequest: {
      const bool announced = frame.kind == FrameKind::kRequest;
      const Envelope message = {
          peer,
          tag,
          frame.data,
          ((frame.flags & kTagged) != 0 ? FI_TAGGED : FI_MSG) |
              ((frame.flags & kHasData) != 0 ? FI_REMOTE_CQ_DATA : 0),
          announced ? frame.request.length : frame.length,
          announced,
          announced ? frame.request.id : 0,
      };
      return take_message(message, frame.payload);
    }
    case FrameKind::kGrant:
      return take_grant(peer, frame);
    case FrameKind::kProbe:
      return answer_probe(peer, frame.probe);
  }
}

void RdmEndpoint::take_message(const Envelope& message, const char* bytes) {
  Receive* receive = matcher_.match(message);
  if (receive == nullptr) {
    Unexpected* kept = matcher_.messages.take();
    kept->message = message;
    if (!message.announced) kept->bytes.assign(bytes, bytes + message.length);
    matcher_.keep(kept);
    return;
  }
  if (receive->from != nullptr) receive->from->awaited--;
  if (!message.announced) return copy_to(receive, message, bytes);
  receive->message = message;
  take_announced(receive);
}

void RdmEndpoint::copy_to(Receive* receive, const Envelope& message, const char* bytes) {
  const size_t copied = receive->memory.scatter(bytes, message.length);
  report_receive(*receive, message, copied, copied < message.length ? FI_ETRUNC : 0, 0);
  matcher_.receives.put(receive);
}

void RdmEndpoint::report_receive(const Receive& receive, const Envelope& message, size_t bytes,
                                 int error, int status) {
  if (counters_.receive != nullptr && !receive.looks) counters_.receive->count(error);
  void* buffer = receive.memory.count == 0 ? nullptr : receive.memory.pieces[0].iov_base;
  const uint64_t flags = FI_RECV | message.flags;
  if (error == 0) {
    // The peer's data goes to the queue, whatever the receive asked for.
    if (!receive.report && (message.flags & FI_REMOTE_CQ_DATA) == 0) return;
    receive_cq_->complete({receive.context, flags, bytes, buffer, message.data, message.tag},
                          message.sender->number);
    return;
  }
  fi_cq_err_entry entry{};
  entry.op_context = receive.context;
  entry.flags = flags;
  entry.len = bytes;
  entry.buf = buffer;
  entry.data = message.data;
  entry.tag = message.tag;
  entry.olen = error == FI_ETRUNC ? message.length - bytes : 0;
  entry.err = error;
  entry.prov_errno = status;
  receive_cq_->fail(entry);
}

// Of a receive without a message, or whose message has failed.
void RdmEndpoint::end_receive(Receive* receive, int error, int status) {
  Envelope nothing{};
  nothing.tag = receive->tag;
  nothing.flags = receive->kind;
  report_receive(*receive, nothing, 0, error, status);
  unregister(&receive->registered);
  matcher_.receives.put(receive);
}

ssize_t RdmEndpoint::cancel(fid_t head, void* context) {
  RdmEndpoint* self = object_of<RdmEndpoint, fid_ep>(head);
  std::lock_guard lock(self->domain_->lock());
  Receive* receive =
      self->matcher_.withdraw([&](const Receive& posted) { return posted.context == context; });
  if (receive == nullptr) receive = self->withdraw_waiting(context);
  if (receive == nullptr) return -FI_ENOENT;
  if (receive->from != nullptr) receive->from->awaited--;
  self->end_receive(receive, FI_ECANCELED, 0);
  return 0;
}

bool RdmEndpoint::register_memory(const Pieces& memory, uint64_t bytes, Registered* registered) {
  for (size_t i = 0; i < memory.count && bytes > 0; i++) {
    const uint64_t size = std::min<uint64_t>(memory.pieces[i].iov_len, bytes);
    bytes -= size;
    if (size == 0) continue;
    urma_seg_cfg_t cfg{};
    cfg.va = reinterpret_cast<uintptr_t>(memory.pieces[i].iov_base);
    cfg.len = size;
    cfg.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
    urma_target_seg_t* segment = urma_register_seg(device_->context(), &cfg);
    if (segment == nullptr) {
      unregister(registered);
      return false;
    }
    urma_sge_t& piece = registered->sges[registered->count];
    piece = {};
    piece.addr = cfg.va;
    piece.len = static_cast<uint32_t>(size);
    piece.tseg = segment;
    registered->count++;
  }
  return true;
}

void RdmEndpoint::unregister(Registered* registered) {
  for (uint32_t i = 0; i < registered->count; i++) urma_unregister_seg(registered->sges[i].tseg);
  registered->count = 0;
}

}  // namespace urma_fi
