/* SPDX-License-Identifier: MIT */

// Endpoints for datagrams: large messages, from their announcement to their data.

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "ofi/log.h"
#include "ofi/rdm_endpoint.h"

namespace urma_fi {
namespace {

constexpr uint32_t kLaneDepth = 64;  // grants that a peer may have

}  // namespace

// The receiver's side.

void RdmEndpoint::take_announced(Receive* receive) {
  const Envelope& message = receive->message;
  receive->accepted = std::min<uint64_t>(message.length, receive->memory.bytes);
  if (message.length > info_->ep_attr->max_msg_size) {
    answer_nothing(message, kRefused);
    return end_receive(receive, FI_EMSGSIZE, 0);
  }
  if (receive->accepted == 0) {
    answer_nothing(message, 0);
    report_receive(*receive, message, 0, message.length > 0 ? FI_ETRUNC : 0, 0);
    return matcher_.receives.put(receive);
  }
  message.sender->awaited++;
  LaneIn& lane = message.sender->in;
  if (!lane.waiting.empty() || lane.closing != 0 || lane.count == kLaneDepth) {
    lane.waiting.push_back(receive);
  } else {
    grant(receive);
  }
}

// Nothing of the message is wanted.
void RdmEndpoint::answer_nothing(const Envelope& message, uint8_t flags) {
  send_grant(message.sender, {flags, {message.id, 0, 0, 0, 0}});
}

bool RdmEndpoint::open_lane(Peer* peer) {
  if (peer->in.queue != nullptr) return true;
  urma_jfr_cfg_t cfg{};
  cfg.depth = kLaneDepth;
  cfg.flag.bs.lock_free = 1;
  cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  cfg.token_value.token = static_cast<uint32_t>(random_number());
  cfg.trans_mode = URMA_TM_RM;
  cfg.max_sge = kRdmPieces;
  cfg.jfc = records_;
  peer->in.queue = urma_create_jfr(device_->context(), &cfg);
  peer->in.token = cfg.token_value.token;
  return peer->in.queue != nullptr;
}

// Posts the memory of the receive to the lane of its sender, and tells the sender.
void RdmEndpoint::grant(Receive* receive) {
  const Envelope& message = receive->message;
  Peer* peer = message.sender;
  bool granted =
      open_lane(peer) && register_memory(receive->memory, receive->accepted, &receive->registered);
  if (granted) {
    receive->number = ++lane_number_;
    urma_jfr_wr_t request{};
    request.src = {receive->registered.sges, receive->registered.count};
    request.user_ctx = context_of(receive, kLane);
    urma_jfr_wr_t* bad = nullptr;
    granted = urma_post_jfr_wr(peer->in.queue, &request, &bad) == URMA_SUCCESS;
  }
  if (!granted) {
    URMA_FI_WARN(FI_LOG_EP_DATA, "%llu bytes cannot be received\n",
                 static_cast<unsigned long long>(receive->accepted));
    peer->awaited--;
    answer_nothing(message, kRefused);
    return end_receive(receive, FI_EIO, 0);
  }
  peer->in.granted.push_back(receive);
  peer->in.count++;
  expected_++;
  send_grant(peer, {0,
                    {message.id, receive->accepted, receive->number, peer->in.queue->jfr_id.id,
                     peer->in.token}});
}

void RdmEndpoint::send_grant(Peer* peer, const GrantFrame& frame) {
  if (peer->delayed_grants.empty() && post_grant(peer, frame)) return;
  delay(peer);
  peer->delayed_grants.push_back(frame);
}

// Call before adding to what waits for room in its queue. Wakes sleepers: room raises no event.
void RdmEndpoint::delay(Peer* peer) {
  if (!peer->delayed) delayed_.push_back(peer);
  peer->delayed = true;
  receive_cq_->wake();
}

// False: the send queue is full.
bool RdmEndpoint::post_grant(Peer* peer, const GrantFrame& grant) {
  // The lane closes with the peer.
  if (!reach(peer)) return lose(peer, URMA_CR_LOC_OPERATION_ERR), true;
  char frame[kMaxHead + sizeof(GrantBody)];
  const size_t head = write_head(frame, FrameKind::kGrant, grant.flags, origin_, 0);
  std::memcpy(frame + head, &grant.body, sizeof(GrantBody));
  const urma_status_t status =
      post_frame(peer, 0, frame, head + sizeof(GrantBody), context_of(peer, kPeer), false);
  if (status != URMA_SUCCESS && status != URMA_ENOMEM) lose(peer, URMA_CR_LOC_OPERATION_ERR);
  return status != URMA_ENOMEM;
}

void RdmEndpoint::take_lane(Receive* receive, const urma_cr_t& record) {
  const Envelope message = receive->message;
  Peer* peer = message.sender;
  expected_--;
  peer->in.granted.remove(receive);
  peer->in.count--;
  peer->awaited--;
  const bool whole =
      record.status == URMA_CR_SUCCESS && record.opcode == URMA_CR_OPC_SEND_WITH_IMM &&
      record.imm_data == receive->number && record.completion_len == receive->accepted &&
      same_eid(record.remote_id.eid, peer->address.eid);
  if (whole) {
    const int error = receive->accepted < message.length ? FI_ETRUNC : 0;
    report_receive(*receive, message, receive->accepted, error, 0);
    unregister(&receive->registered);
    matcher_.receives.put(receive);
  } else {
    // Data for another receive: all later ones would get data for others, too.
    const bool in_step = record.status == URMA_CR_SUCCESS && record.imm_data == receive->number;
    end_receive(receive, peer->in.closing != 0 ? peer->in.closing : FI_EIO, record.status);
    if (!in_step && peer->in.closing == 0) close_lane(peer, FI_EIO);
  }
  if (peer->in.closing != 0 && peer->in.count == 0) {
    urma_delete_jfr(peer->in.queue);
    peer->in.queue = nullptr;
    peer->in.closing = 0;
  }
  grant_waiting(peer);
}

void RdmEndpoint::grant_waiting(Peer* peer) {
  LaneIn& lane = peer->in;
  while (lane.closing == 0 && lane.count < kLaneDepth && !lane.waiting.empty())
    grant(lane.waiting.pop_front());
}

// Granted receives come back flushed; the next grant opens another lane.
void RdmEndpoint::close_lane(Peer* peer, int error) {
  if (peer->in.queue == nullptr || peer->in.closing != 0) return;
  if (peer->in.count == 0) {
    urma_delete_jfr(peer->in.queue);
    peer->in.queue = nullptr;
    return;
  }
  peer->in.closing = error;
  urma_jfr_attr_t attr{};
  attr.mask = JFR_STATE;
  attr.state = URMA_JFR_STATE_ERROR;
  urma_modify_jfr(peer->in.queue, &attr);
}

// The sender has nothing for a grant: what follows in the lane would reach the wrong receive.
void RdmEndpoint::take_returned(Peer* peer, const GrantBody& grant) {
  for (Receive* receive = peer->in.granted.front(); receive != nullptr; receive = receive->next)
    if (receive->number == grant.number) return close_lane(peer, FI_EIO);
}

// Takes out a receive whose message waits for room in a lane; NULL: none has this context.
Receive* RdmEndpoint::withdraw_waiting(const void* context) {
  for (Peer& peer : peers_.all()) {
    for (Receive* receive = peer.in.waiting.front(); receive != nullptr; receive = receive->next) {
      if (receive->context != context) continue;
      peer.in.waiting.remove(receive);
      peer.awaited--;
      answer_nothing(receive->message, kRefused);
      receive->from = nullptr;
      return receive;
    }
  }
  return nullptr;
}

// The sender's side.

void RdmEndpoint::take_grant(Peer* peer, const Frame& frame) {
  const GrantBody& grant = frame.grant;
  if ((frame.flags & kReturned) != 0) return take_returned(peer, grant);
  Send* send = sends_.at(static_cast<uint32_t>(grant.id));
  if (send == nullptr || send->state != Send::State::kRequested || send->peer != peer ||
      send->turn != grant.id >> 32 || grant.accepted > send->memory.bytes) {
    FI_WARN_SPARSE(&provider, FI_LOG_EP_DATA, "%s grants a message that does not exist; dropped\n",
                   to_text(peer->address).c_str());
    return return_grant(peer, grant);
  }
  peer->requested.remove(send);
  send->grant = grant;
  if (grant.accepted == 0) {
    peer->awaited--;
    return end_send(send, (frame.flags & kRefused) != 0 ? FI_EIO : 0, 0);
  }
  send->state = Send::State::kGranted;
  // Data goes in the order of the grants.
  if (peer->delayed_data.empty() && post_data(send)) return;
  delay(peer);
  peer->delayed_data.push_back(send);
}

// Tells the receiver that no data will come.
void RdmEndpoint::return_grant(Peer* peer, const GrantBody& grant) {
  // Bounded: a hostile peer may not read.
  if (grant.accepted > 0 && peer->delayed_grants.size() < kLaneDepth)
    send_grant(peer, {kReturned, grant});
}

bool RdmEndpoint::leads_to(const LaneOut& lane, const GrantBody& grant) {
  return lane.target != nullptr && lane.id == grant.lane && lane.token == grant.token;
}

bool RdmEndpoint::reach_lane(Peer* peer, const GrantBody& grant) {
  LaneOut& lane = peer->out;
  if (leads_to(lane, grant)) return true;
  if (lane.target != nullptr) urma_unimport_jetty(lane.target);
  urma_rjetty_t remote{};
  remote.jetty_id.eid = peer->address.eid;
  remote.jetty_id.id = grant.lane;
  remote.trans_mode = URMA_TM_RM;
  remote.type = URMA_JFR;
  remote.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  urma_token_t token = {grant.token};
  lane.target = urma_import_jetty(device_->context(), &remote, &token);
  lane.id = grant.lane;
  lane.token = grant.token;
  return lane.target != nullptr;
}

// False: the send queue is full, or data is on the way to an earlier lane.
bool RdmEndpoint::post_data(Send* send) {
  Peer* peer = send->peer;
  if (peer->out.in_flight > 0 && !leads_to(peer->out, send->grant)) return false;
  urma_status_t status = URMA_FAIL;
  if (reach_lane(peer, send->grant)) {
    urma_jfs_wr_flag_t how{};
    how.bs.complete_enable = 1;
    if (send->registered.count == 0)
      register_memory(send->memory, send->grant.accepted, &send->registered);
    // Without memory an empty message tells the receiver, which expects more.
    how.bs.inline_flag = send->registered.count == 0;
    status = post(peer, peer->out.target, send->grant.number, send->registered.sges,
                  send->registered.count, context_of(send, kSend), how.value);
  }
  if (status == URMA_SUCCESS) return peer->out.in_flight++, true;
  if (status == URMA_ENOMEM) return false;
  peer->awaited--;
  return_grant(peer, send->grant);
  end_send(send, -error_of_status(status), status);
  return true;
}

void RdmEndpoint::send_delayed() {
  std::vector<Peer*> peers;
  peers.swap(delayed_);
  for (Peer* peer : peers) {
    // A send that failed may have left another grant.
    peer->delayed = !send_delayed_to(peer) || !peer->delayed_grants.empty();
    if (peer->delayed) delayed_.push_back(peer);
  }
}

// False: its queue is full.
bool RdmEndpoint::send_delayed_to(Peer* peer) {
  while (!peer->delayed_grants.empty()) {
    const GrantFrame grant = peer->delayed_grants.front();
    if (!post_grant(peer, grant)) return false;
    peer->delayed_grants.erase(peer->delayed_grants.begin());
  }
  while (Send* send = peer->delayed_data.pop_front()) {
    if (post_data(send)) continue;
    peer->delayed_data.push_front(send);
    return false;
  }
  return true;
}

}  // namespace urma_fi
