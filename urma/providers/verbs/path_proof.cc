// SPDX-License-Identifier: MIT
//
// How requests of iWARP are proven to be executed: see Path::proof_.
#include "urma/providers/verbs/path.h"

namespace urma::verbs {

// READs are their own proof; nobody believes the completions of others.
void Path::sign_proven(SendEntry* entry) {
  RequestList& list = sender_->list();
  entry->moved = posted_ + list.count;
  if (entry->kind != OpKind::kRead) return;
  list.requests[list.count - 1].send_flags |= IBV_SEND_SIGNALED;
  signalled_ = entry->moved;
}

void Path::set_proof(ibv_send_wr* request) {
  const Mailbox& word = connection_->answer.reply.mailbox;
  request->opcode = IBV_WR_RDMA_READ;
  request->sg_list = sender_->proof_piece();
  request->num_sge = 1;
  request->wr.rdma.remote_addr = word.address;
  request->wr.rdma.rkey = word.rkey;
}

void Path::add_proof() {
  RequestList& list = sender_->list();
  if (list.requests[list.count - 1].opcode != IBV_WR_RDMA_READ) {
    ibv_send_wr* proof = add_request(IBV_WR_RDMA_READ);
    set_proof(proof);
    proof->send_flags = IBV_SEND_SIGNALED;
  }
  signalled_ = posted_ + list.count;
}

}  // namespace urma::verbs
