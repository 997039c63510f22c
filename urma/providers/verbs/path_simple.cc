// SPDX-License-Identifier: MIT
//
// The short way of requests that most programs post most of the time: one piece of memory that is
// registered, or a few bytes inline, over a connection that stands, with nothing to wait for.
#include <algorithm>
#include <cstring>

#include "urma/providers/verbs/path.h"
#include "urma/providers/verbs/remote_region.h"

namespace urma::verbs {
namespace {

struct SimpleRequest {
  const urma_sge_t* local;
  const urma_sge_t* remote;  // NULL for messages
  ibv_wr_opcode opcode;
  OpKind kind;
  uint32_t rights;
};

bool one_piece(const urma_sg_t& list) { return list.num_sge == 1 && list.sge != nullptr; }

bool view_simple(const urma_jfs_wr_t& wr, SimpleRequest* request) {
  if (wr.flag.bs.fence != 0 || wr.flag.bs.place_order == URMA_STRONG_ORDER) return false;
  switch (wr.opcode) {
    case URMA_OPC_SEND:
      *request = {wr.send.src.sge, nullptr, IBV_WR_SEND, OpKind::kSend, 0};
      return one_piece(wr.send.src);
    case URMA_OPC_WRITE:
      *request = {wr.rw.src.sge, wr.rw.dst.sge, IBV_WR_RDMA_WRITE, OpKind::kWrite,
                  URMA_ACCESS_WRITE};
      return one_piece(wr.rw.src) && one_piece(wr.rw.dst);
    case URMA_OPC_READ:
      *request = {wr.rw.dst.sge, wr.rw.src.sge, IBV_WR_RDMA_READ, OpKind::kRead, URMA_ACCESS_READ};
      return one_piece(wr.rw.src) && one_piece(wr.rw.dst) && wr.flag.bs.inline_flag == 0;
    default:
      return false;
  }
}

// The imported segment of a piece, where it grants what is wanted.
RemoteRegion* granted(const urma_sge_t& remote, uint32_t bytes, uint32_t rights, uint32_t* rkey) {
  auto* handle = static_cast<SegmentHandle*>(remote.tseg);
  if (handle == nullptr || handle->registered) return nullptr;
  auto* region = static_cast<RemoteRegion*>(static_cast<ImportedSegment*>(handle));
  const KeyGrant* grant = region->grant();
  if (grant == nullptr || !grant->allows(rights) || !grant->covers(remote.addr, bytes)) {
    return nullptr;
  }
  *rkey = grant->rkey;
  return region;
}

}  // namespace

bool VerbsPath::add_simple(const urma_jfs_wr_t& wr) {
  SimpleRequest simple;
  if (!view_simple(wr, &simple) || simple.local->len == 0) return false;
  RequestList& list = sender_->list();
  const bool follows = list.entries != 0 || nothing_waits();
  // A full queue would make room, and use the list.
  if (!stands() || !follows || emulating() || sender_->full() || !list.has_room(1, 1) ||
      posted_ + list.count - done_ >= sends_ || list.count + proof_ >= sender_->credits()) {
    return false;
  }
  const uint32_t bytes = simple.local->len;
  const bool is_inline = wr.flag.bs.inline_flag != 0;
  const SendLimits& limits = queue().limits();
  LocalPiece piece = {};
  uint32_t lkey = 0;
  if (is_inline) {
    if (bytes > limits.max_inline) return false;
  } else if (simple.local->tseg == nullptr || bytes > limits.max_message ||
             !local_piece(*simple.local, &piece) || !piece.valid ||
             !sender_->resources().keys->find(piece.ref, &lkey)) {
    return false;
  }
  RemoteRegion* region = nullptr;
  uint32_t rkey = 0;
  if (simple.remote != nullptr) {
    region = granted(*simple.remote, bytes, simple.rights, &rkey);
    if (region == nullptr) return false;
    region->add_ref();
  }

  SendEntry* entry = queue().reserve();
  entry->user_ctx = wr.user_ctx;
  entry->bytes = bytes;
  entry->remote_addr = simple.remote != nullptr ? simple.remote->addr : 0;
  entry->operand[0] = 0;
  entry->remote = region;
  entry->notified = nullptr;
  entry->path = this;
  entry->inline_bytes = is_inline ? bytes : 0;
  entry->pieces = is_inline ? 0 : 1;
  entry->kind = simple.kind;
  entry->opcode = static_cast<uint8_t>(wr.opcode);
  entry->signalled = wr.flag.bs.complete_enable != 0;
  entry->solicited = wr.flag.bs.solicited_enable != 0;
  entry->fence = entry->strong = false;
  uint64_t local_addr = simple.local->addr;
  if (is_inline) {
    std::memcpy(SendQueue::inline_data(entry), reinterpret_cast<const void*>(local_addr), bytes);
    local_addr = reinterpret_cast<uint64_t>(SendQueue::inline_data(entry));
  } else {
    SendQueue::pieces(entry)[0] = piece;
  }
  queue().commit(entry);
  enqueue(entry);

  ibv_sge* sge = &list.pieces[list.piece_count++];
  *sge = {local_addr, bytes, lkey};
  ibv_send_wr* request = &list.requests[list.count];
  if (list.count != 0) list.requests[list.count - 1].next = request;
  ++list.count;
  request->wr_id = VerbsSender::wr_id(tag_, static_cast<uint32_t>(posted_ + list.count));
  request->next = nullptr;
  request->sg_list = sge;
  request->num_sge = 1;
  request->opcode = simple.opcode;
  request->send_flags = is_inline ? unsigned{IBV_SEND_INLINE} : 0;
  if (entry->solicited && region == nullptr) request->send_flags |= IBV_SEND_SOLICITED;
  request->wr.rdma.remote_addr = entry->remote_addr;
  request->wr.rdma.rkey = rkey;
  sign(entry);
  return true;
}

// The last one of the list ends the requests of `entry`: says when its completion is wanted.
void VerbsPath::sign(SendEntry* entry) {
  RequestList& list = sender_->list();
  entry->moved = posted_ + list.count;
  ++list.entries;
  const bool reads = entry->kind == OpKind::kRead || entry->kind == OpKind::kAtomic;
  const bool due =
      entry->signalled || entry->moved - signalled_ >= signal_every_ || sender_->few_credits();
  if (reads || (due && proof_ == 0)) {
    list.requests[list.count - 1].send_flags |= IBV_SEND_SIGNALED;
    signalled_ = entry->moved;
  }
}

void VerbsPath::set_proof(ibv_send_wr* request) {
  const Mailbox& word = connection_->answer.reply.mailbox;
  request->opcode = IBV_WR_RDMA_READ;
  request->sg_list = sender_->proof_piece();
  request->num_sge = 1;
  request->wr.rdma.remote_addr = word.address;
  request->wr.rdma.rkey = word.rkey;
}

void VerbsPath::add_proof() {
  RequestList& list = sender_->list();
  if (list.requests[list.count - 1].opcode != IBV_WR_RDMA_READ) {
    ibv_send_wr* proof = add_request(IBV_WR_RDMA_READ);
    set_proof(proof);
    proof->send_flags = IBV_SEND_SIGNALED;
  }
  signalled_ = posted_ + list.count;
}

}  // namespace urma::verbs
