/* SPDX-License-Identifier: MIT */

// Endpoints for datagrams: sending.

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "ofi/log.h"
#include "ofi/rdm_endpoint.h"

namespace urma_fi {
namespace {

constexpr uint32_t kQueueDepth = 128;  // of the queue to one peer
constexpr uint32_t kMostCopies = 48;   // in flight to one peer

uint8_t frame_flags(uint64_t kind, uint64_t flags) {
  return static_cast<uint8_t>(((kind & FI_TAGGED) != 0 ? kTagged : 0) |
                              ((flags & FI_REMOTE_CQ_DATA) != 0 ? kHasData : 0));
}

}  // namespace

// Makes the target of requests to the peer. False: errno tells why not.
bool RdmEndpoint::reach(Peer* peer) {
  if (peer->target != nullptr) return true;
  if (!open_queue(peer)) return false;
  urma_rjetty_t remote{};
  remote.jetty_id.eid = peer->address.eid;
  remote.jetty_id.id = peer->address.id;
  remote.trans_mode = URMA_TM_RM;
  remote.type = URMA_JETTY;
  peer->target = urma_import_jetty(device_->context(), &remote, nullptr);
  return peer->target != nullptr;
}

bool RdmEndpoint::open_queue(Peer* peer) {
  if (peer->queue != nullptr) return true;
  const urma_device_cap_t& cap = device_->cap();
  urma_jfs_cfg_t cfg{};
  cfg.depth = std::min(kQueueDepth, cap.max_jfs_depth);
  cfg.flag.bs.lock_free = 1;
  cfg.trans_mode = URMA_TM_RM;
  cfg.max_sge = kRdmPieces;
  cfg.max_inline_data = static_cast<uint32_t>(inline_size_);
  cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  cfg.jfc = records_;
  peer->queue = urma_create_jfs(device_->context(), &cfg);
  return peer->queue != nullptr;
}

urma_status_t RdmEndpoint::post(Peer* peer, urma_target_jetty_t* target, uint64_t beside,
                                urma_sge_t* pieces, uint32_t count, uint64_t user_ctx,
                                uint32_t how) {
  urma_jfs_wr_t request;
  request.opcode = URMA_OPC_SEND_IMM;
  request.flag.value = how;
  request.tjetty = target;
  request.user_ctx = user_ctx;
  request.send.src = {pieces, count};
  request.send.target_hint = 0;
  request.send.imm_data = beside;
  request.send.tseg = nullptr;
  request.next = nullptr;
  urma_jfs_wr_t* bad = nullptr;
  const urma_status_t status = urma_post_jfs_wr(peer->queue, &request, &bad);
  peer->unconfirmed |= status == URMA_SUCCESS;
  expected_ += status == URMA_SUCCESS && (user_ctx & kOwnerMask) == kSend;
  return status;
}

urma_status_t RdmEndpoint::post_frame(Peer* peer, uint64_t tag, const char* frame, size_t bytes,
                                      uint64_t user_ctx, bool confirmed) {
  urma_jfs_wr_flag_t how{};
  how.bs.inline_flag = 1;
  how.bs.complete_enable = confirmed;
  urma_sge_t piece;
  piece.addr = reinterpret_cast<uintptr_t>(frame);
  piece.len = static_cast<uint32_t>(bytes);
  piece.tseg = nullptr;
  piece.user_tseg = nullptr;
  return post(peer, peer->target, tag, &piece, 1, user_ctx, how.value);
}

ssize_t RdmEndpoint::send(const Outgoing& message) {
  std::lock_guard lock(domain_->lock());
  if (!enabled_) return -FI_EOPBADSTATE;
  Peer* peer = peer_at(message.to);
  if (peer == nullptr || message.pieces.size() > kRdmPieces) return -FI_EINVAL;
  if (!reach(peer)) return error_of_errno();
  size_t bytes = 0;
  for (const iovec& piece : message.pieces) bytes += piece.iov_len;
  const ssize_t result = send_now(peer, message, bytes);
  if (result != -FI_EAGAIN) return result;
  progress_all();
  return send_now(peer, message, bytes);
}

ssize_t RdmEndpoint::send_now(Peer* peer, const Outgoing& message, size_t bytes) {
  // Only the receiver's answer to an announcement tells that the program has the message.
  if (bytes > kEagerSize || (message.flags & FI_DELIVERY_COMPLETE) != 0)
    return send_request(peer, message, bytes);
  return bytes + kMaxHead <= inline_size_ ? send_inline(peer, message, bytes)
                                          : send_copy(peer, message, bytes);
}

Send* RdmEndpoint::take_send(Peer* peer, const Outgoing& message) {
  Send* send = sends_.take();
  send->turn = ++turns_;
  send->report = (message.flags & FI_COMPLETION) != 0;
  send->silent = !send->report && (message.flags & FI_INJECT) != 0 && message.context == nullptr;
  send->counted = false;
  send->peer = peer;
  send->context = message.context;
  send->flags = FI_SEND | message.kind;
  send->copy = nullptr;
  return send;
}

void RdmEndpoint::put_send(Send* send) {
  send->state = Send::State::kOther;
  if (send->copy != nullptr) {
    buffers_.put_copy(send->copy);
    send->peer->copies--;
  }
  unregister(&send->registered);
  std::vector<char>().swap(send->kept);
  sends_.put(send);
}

// The message is in the ring to its receiver, or in our queue, when this returns. It is complete
// then, unless the caller asked for more or no confirmed send has reached the peer yet.
ssize_t RdmEndpoint::send_inline(Peer* peer, const Outgoing& message, size_t bytes) {
  char frame[kMostInline];
  const size_t head = write_head(frame, FrameKind::kEager, frame_flags(message.kind, message.flags),
                                 origin_, message.data);
  gather(message.pieces, frame + head);
  const bool confirmed = !peer->proven || (message.flags & FI_TRANSMIT_COMPLETE) != 0;
  Send* send = confirmed ? take_send(peer, message) : nullptr;
  const uint64_t context = confirmed ? context_of(send, kSend) : context_of(peer, kPeer);
  const urma_status_t status =
      post_frame(peer, message.tag, frame, head + bytes, context, confirmed);
  if (status != URMA_SUCCESS) {
    if (confirmed) put_send(send);
    return status == URMA_ENOMEM ? -FI_EAGAIN : error_of_status(status);
  }
  if (!confirmed) report_send(message);
  return 0;
}

// Too long for inline data: the receiver takes it from a copy.
ssize_t RdmEndpoint::send_copy(Peer* peer, const Outgoing& message, size_t bytes) {
  if (peer->copies == kMostCopies) return -FI_EAGAIN;
  char* copy = buffers_.take_copy();
  // Peers that do not read have all of them.
  if (copy == nullptr) return send_request(peer, message, bytes);
  peer->copies++;
  const size_t head = write_head(copy, FrameKind::kEager, frame_flags(message.kind, message.flags),
                                 origin_, message.data);
  gather(message.pieces, copy + head);
  const bool confirmed = !peer->proven || (message.flags & FI_TRANSMIT_COMPLETE) != 0;
  Send* send = take_send(peer, message);
  send->copy = copy;
  urma_sge_t piece{};
  piece.addr = reinterpret_cast<uintptr_t>(copy);
  piece.len = static_cast<uint32_t>(head + bytes);
  piece.tseg = buffers_.segment();
  urma_jfs_wr_flag_t how{};
  how.bs.complete_enable = 1;
  const urma_status_t status =
      post(peer, peer->target, message.tag, &piece, 1, context_of(send, kSend), how.value);
  if (status != URMA_SUCCESS) {
    put_send(send);
    return status == URMA_ENOMEM ? -FI_EAGAIN : error_of_status(status);
  }
  if (confirmed) return 0;
  report_send(message);
  send->report = false;
  send->silent = true;
  send->counted = true;
  return 0;
}

// The caller may change its memory at once.
void RdmEndpoint::keep_bytes(Send* send) {
  send->kept.resize(send->memory.bytes);
  gather({send->memory.pieces, send->memory.count}, send->kept.data());
  const iovec piece = {send->kept.data(), send->kept.size()};
  send->memory.set({&piece, 1});
}

// The program hears of it once the receiver has the data.
ssize_t RdmEndpoint::send_request(Peer* peer, const Outgoing& message, size_t bytes) {
  if ((message.flags & FI_INJECT) != 0 && bytes > kEagerSize) return -FI_EMSGSIZE;
  if (bytes > info_->ep_attr->max_msg_size) {
    URMA_FI_WARN(FI_LOG_EP_DATA, "%zu bytes exceed the limit of %zu\n", bytes,
                 info_->ep_attr->max_msg_size);
    return -FI_EMSGSIZE;
  }
  Send* send = take_send(peer, message);
  send->memory.set(message.pieces);
  if ((message.flags & FI_INJECT) != 0) keep_bytes(send);
  char frame[kMaxHead + sizeof(RequestBody)];
  const RequestBody body = {bytes, uint64_t{send->turn} << 32 | send->index};
  const size_t head = write_head(frame, FrameKind::kRequest,
                                 frame_flags(message.kind, message.flags), origin_, message.data);
  std::memcpy(frame + head, &body, sizeof(body));
  const urma_status_t status =
      post_frame(peer, message.tag, frame, head + sizeof(body), context_of(peer, kPeer), false);
  if (status != URMA_SUCCESS) {
    put_send(send);
    return status == URMA_ENOMEM ? -FI_EAGAIN : error_of_status(status);
  }
  send->state = Send::State::kRequested;
  peer->requested.push_back(send);
  peer->awaited++;
  return 0;
}

void RdmEndpoint::report_send(const Outgoing& message) {
  if (counters_.send != nullptr) counters_.send->count(0);
  if ((message.flags & FI_COMPLETION) == 0) return;
  send_cq_->complete({message.context, FI_SEND | message.kind, 0, nullptr, 0, 0}, FI_ADDR_NOTAVAIL);
}

void RdmEndpoint::end_send(Send* send, int error, int status) {
  if (counters_.send != nullptr && !send->counted) counters_.send->count(error);
  if (error != 0 && !send->silent) {
    fi_cq_err_entry entry{};
    entry.op_context = send->context;
    entry.flags = send->flags;
    entry.err = error;
    entry.prov_errno = status;
    send_cq_->fail(entry);
  } else if (error == 0 && send->report) {
    send_cq_->complete({send->context, send->flags, 0, nullptr, 0, 0}, FI_ADDR_NOTAVAIL);
  }
  put_send(send);
}

void RdmEndpoint::take_sent(Send* send, const urma_cr_t& record) {
  expected_--;
  Peer* peer = send->peer;
  const bool granted = send->state == Send::State::kGranted;
  const int error = error_of_completion(record.status, false, false);
  if (granted) {
    peer->awaited--;
    peer->out.in_flight--;
  }
  // Without memory, only an empty message was sent.
  const bool empty = granted && send->registered.count == 0;
  end_send(send, error == 0 && empty ? FI_ENOMEM : error, record.status);
  peer->proven = error == 0;
  // A lane may be closed though its owner is there.
  if (error != 0 && !granted) lose(peer, record.status);
}

void RdmEndpoint::take_probed(Peer* peer, const urma_cr_t& record) {
  peer->probed = false;
  if (record.status != URMA_CR_SUCCESS) return lose(peer, record.status);
  peer->proven = true;
}

void RdmEndpoint::probe(Peer* peer) {
  if (!reach(peer)) return;
  char frame[kMaxHead + sizeof(ProbeBody)];
  const ProbeBody body = {peer->incarnation};
  const size_t head = write_head(frame, FrameKind::kProbe, 0, origin_, 0);
  std::memcpy(frame + head, &body, sizeof(body));
  const urma_status_t status =
      post_frame(peer, 0, frame, head + sizeof(body), context_of(peer, kProbe), true);
  if (status != URMA_SUCCESS) return;
  peer->probed = true;
  peer->unconfirmed = false;
}

// True: all that was sent to it has left. The record of a probe tells that of all before it.
bool RdmEndpoint::settle(Peer* peer) {
  if (!peer->delayed_grants.empty()) return false;
  if (peer->unconfirmed && !peer->probed) probe(peer);
  return !peer->unconfirmed && !peer->probed;
}

// Ends what only the peer could end.
void RdmEndpoint::lose(Peer* peer, int status) {
  peer->proven = false;
  const int error = error_of_completion(static_cast<urma_cr_status_t>(status), false, false);
  for (Send* send; (send = peer->requested.pop_front()) != nullptr;) {
    peer->awaited--;
    end_send(send, error, status);
  }
  const auto from_peer = [&](const Receive& receive) { return receive.from == peer; };
  for (Receive* receive; (receive = matcher_.withdraw(from_peer)) != nullptr;) {
    peer->awaited--;
    end_receive(receive, error, status);
  }
  for (Receive* receive; (receive = peer->in.waiting.pop_front()) != nullptr;) {
    peer->awaited--;
    end_receive(receive, error, status);
  }
  close_lane(peer, FI_ECONNRESET);
}

}  // namespace urma_fi
