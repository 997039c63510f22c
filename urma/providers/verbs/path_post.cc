// SPDX-License-Identifier: MIT
//
// How requests become those of the device, and get posted.
#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>

#include "jetty/network.h"
#include "urma/base/log.h"
#include "urma/providers/verbs/path.h"
#include "urma/providers/verbs/remote_region.h"

namespace urma::verbs {
namespace {

bool needs_letter(const SendEntry& entry) {
  if (entry.opcode == URMA_OPC_SEND_INVALIDATE) return true;
  const bool carries = entry.opcode == URMA_OPC_SEND_IMM || entry.opcode == URMA_OPC_WRITE_IMM;
  return carries && !fits_directly(entry.operand[0]);
}

void set_remote(ibv_send_wr* request, uint64_t addr, uint32_t rkey) {
  request->wr.rdma.remote_addr = addr;
  request->wr.rdma.rkey = rkey;
}

}  // namespace

// True if requests still wait to be executed.
bool Path::post_waiting() {
  while (SendEntry* entry = next_waiting()) {
    if (emulating()) return true;
    // Broken, perhaps on purpose: waiting requests go by the next connection.
    if (carries() && !intact()) return true;
    if (state_ == State::kOneSided && takes_receive(*entry) && !leave_one_sided()) return true;
    if (!carries() && (ends() || entry->kind != OpKind::kNop) && !connected()) return !idle();
    urma_cr_status_t status = URMA_CR_SUCCESS;
    RequestList& list = sender_->list();
    list.clear();
    const Step step = fill_list(entry, &status);
    if (list.count != 0 && !post_list(entry)) return !idle();
    if (step == Step::kWait) return true;
    if (step != Step::kDone) continue;
    if (under_way_ != 0) {
      // Reported again once it is the first.
      why.clear();
      nudge();
      return true;
    }
    end_first(status);
  }
  return ends() && !idle();
}

// Puts requests into the list while it has room. Returns the step of the last one.
Path::Step Path::fill_list(SendEntry* entry, urma_cr_status_t* status) {
  RequestList& list = sender_->list();
  // Nothing is copied here.
  uint64_t budget = kCopyPerTurn;
  for (; entry != nullptr; entry = next_of(*entry)) {
    const uint32_t before = list.count;
    const uint32_t pieces_before = list.piece_count;
    const uint32_t letters_before = list.letter_count;
    const uint32_t needed = requests_for(*entry);
    if (!list.has_room(needed, entry->pieces + 2U)) break;
    const uint64_t held = posted_ + before - done_;
    Step step = Step::kWait;
    if (held + needed <= sends_ && before + needed + proof_ <= sender_->credits()) [[likely]] {
      step = execute_guarded(entry, &budget, status);
    } else if (before != 0 && proof_ == 0) {
      // Nothing else reports when there is room again.
      list.requests[before - 1].send_flags |= IBV_SEND_SIGNALED;
    }
    if (step != Step::kInFlight) {
      list.count = before;
      list.piece_count = pieces_before;
      list.letter_count = letters_before;
      if (before != 0) list.requests[before - 1].next = nullptr;
      return step;
    }
    begin_next();
    if (proof_ == 0) [[likely]] {
      sign(entry);
    } else {
      sign_proven(entry);
    }
    ++list.entries;
    if (emulating()) return Step::kWait;
  }
  return Step::kInFlight;
}

uint32_t Path::requests_for(const SendEntry& entry) const {
  // Nothing goes to the device, so no connection is needed.
  if (entry.kind == OpKind::kNop) return 0;
  if (entry.kind == OpKind::kWriteNotify || needs_letter(entry)) return 2;
  if (entry.kind != OpKind::kRead) return 1;
  const uint32_t at_once = sender_->read_pieces();
  return std::max(1U, (entry.pieces + at_once - 1) / at_once);
}

// The device does not order requests after those of other paths.
bool Path::fence_lets(const SendEntry& entry) {
  return RequestPath::fence_lets(entry) || !sender_->others_busy(this);
}

Path::Step Path::execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  if (state_ == State::kOneSided && takes_receive(*entry)) return Step::kWait;
  RequestList& list = sender_->list();
  const uint32_t begin = list.count;
  const Step step = RequestPath::execute(entry, budget, status);
  if (step == Step::kInFlight && entry->fence) [[unlikely]]
    list.requests[begin].send_flags |= IBV_SEND_FENCE;
  return step;
}

ibv_send_wr* Path::add_request(ibv_wr_opcode opcode) {
  RequestList& list = sender_->list();
  ibv_send_wr* request = &list.requests[list.count];
  *request = {};
  if (list.count != 0) list.requests[list.count - 1].next = request;
  ++list.count;
  request->wr_id = wr_id(posted_ + list.count);
  request->opcode = opcode;
  request->sg_list = &list.pieces[list.piece_count];
  return request;
}

// A few bytes, copied at once.
void Path::add_inline(ibv_send_wr* request, const void* data, uint32_t bytes) {
  RequestList& list = sender_->list();
  list.pieces[list.piece_count++] = {reinterpret_cast<uint64_t>(data), bytes, 0};
  request->num_sge = 1;
  request->send_flags |= IBV_SEND_INLINE;
}

// Adds the local pieces; false if the registration of one of them is gone.
bool Path::add_pieces(ibv_send_wr* request, std::span<const LocalPiece> pieces) {
  RequestList& list = sender_->list();
  for (const LocalPiece& piece : pieces) {
    if (piece.len == 0) continue;
    uint32_t lkey;
    if (!piece.valid || !sender_->resources().keys->find(piece.ref, &lkey)) {
      because("{}", why_piece_fails(sender_->transport().segments(), piece));
      return false;
    }
    list.pieces[list.piece_count++] = {piece.addr, piece.len, lkey};
    ++request->num_sge;
  }
  return true;
}

// Comes last for each request.
Path::Step Path::add_local(ibv_send_wr* request, SendEntry* entry, urma_cr_status_t* status) {
  if (entry->inline_bytes != 0) {
    add_inline(request, SendQueue::inline_data(entry), entry->inline_bytes);
  } else if (!add_pieces(request, SendQueue::pieces(entry))) {
    *status = URMA_CR_LOC_ACCESS_ERR;
    return Step::kDone;
  }
  return Step::kInFlight;
}

// Data that do not fit into the immediate's 32 bits go to a place that the receiver looks at.
bool Path::add_letter(const SendEntry& entry, uint32_t* immediate) {
  const Mailbox& mailbox = connection_->answer.reply.mailbox;
  if (mailbox.slots == 0 || connection_->pair->inline_bytes() < sizeof(Letter)) return false;
  RequestList& list = sender_->list();
  const auto slot = static_cast<uint32_t>((letters_ + list.letter_count) % mailbox.slots);
  Letter& letter = list.letters[list.letter_count++];
  letter = {LetterKind::kImmediate, entry.operand[0], 0, 0};
  if (entry.opcode == URMA_OPC_SEND_INVALIDATE) {
    const urma_seg_t& seg = entry.remote->seg;
    letter = {LetterKind::kInvalidation, entry.operand[0], seg.ubva.va, seg.len};
  }
  ibv_send_wr* request = add_request(IBV_WR_RDMA_WRITE);
  set_remote(request, mailbox.address + slot * sizeof(Letter), mailbox.rkey);
  add_inline(request, &letter, sizeof(letter));
  *immediate = kInMailbox | slot;
  return true;
}

// NULL if the device, or the receiver, takes no such immediate.
ibv_send_wr* Path::add_message(const SendEntry& entry, ibv_wr_opcode opcode) {
  auto immediate = static_cast<uint32_t>(entry.operand[0]);
  if (needs_letter(entry) && !add_letter(entry, &immediate)) return nullptr;
  ibv_send_wr* request = add_request(opcode);
  request->imm_data = htonl(immediate);
  if (entry.solicited) request->send_flags |= IBV_SEND_SOLICITED;
  return request;
}

Path::Step Path::authorize(SendEntry* entry, const KeyGrant** grant, urma_cr_status_t* status) {
  return RequestPath::authorize(&sender_->implicit_imports(), entry, grant, status);
}

Path::Step Path::authorize_invalidation(SendEntry* entry, urma_cr_status_t* status) {
  const urma_seg_t& seg = entry->remote->seg;
  if (!same_eid(seg.ubva.eid, target()->id.eid)) {
    *status = URMA_CR_REM_ACCESS_ABORT_ERR;
    return Step::kDone;
  }
  const RemoteAccess all = {&entry->remote, seg.ubva.va, seg.len, /*rights=*/0};
  const KeyGrant* grant;
  const Step allowed =
      RequestPath::authorize(&sender_->implicit_imports(), all, &asked_, &grant, status);
  // The next access asks the owner again: the grant is about to end.
  if (allowed == Step::kInFlight) static_cast<RemoteRegion*>(entry->remote)->doubt(grant);
  return allowed;
}

Path::Step Path::send(SendEntry* entry, urma_cr_status_t* status) {
  if (entry->opcode == URMA_OPC_SEND_INVALIDATE) {
    const Step allowed = authorize_invalidation(entry, status);
    if (allowed != Step::kInFlight) return allowed;
  }
  const bool plain = entry->opcode == URMA_OPC_SEND;
  ibv_send_wr* request = add_message(*entry, plain ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM);
  return request != nullptr ? add_local(request, entry, status) : unsupported(status);
}

Path::Step Path::transfer(SendEntry* entry, uint64_t* /*budget*/, urma_cr_status_t* status) {
  const bool reads = entry->kind == OpKind::kRead;
  const KeyGrant* grant;
  const Step allowed = authorize(entry, &grant, status);
  if (allowed != Step::kInFlight) return allowed;
  return reads ? add_read(entry, grant->rkey, status) : add_write(entry, grant->rkey, status);
}

Path::Step Path::add_write(SendEntry* entry, uint32_t rkey, urma_cr_status_t* status) {
  ibv_send_wr* request = add_request(IBV_WR_RDMA_WRITE);
  set_remote(request, entry->remote_addr, rkey);
  return add_local(request, entry, status);
}

// As many device requests as the number of pieces takes.
Path::Step Path::add_read(SendEntry* entry, uint32_t rkey, urma_cr_status_t* status) {
  std::span<const LocalPiece> pieces = SendQueue::pieces(entry);
  uint64_t addr = entry->remote_addr;
  do {
    const auto some = pieces.first(std::min<size_t>(pieces.size(), sender_->read_pieces()));
    ibv_send_wr* request = add_request(IBV_WR_RDMA_READ);
    set_remote(request, addr, rkey);
    if (!add_pieces(request, some)) {
      *status = URMA_CR_LOC_ACCESS_ERR;
      return Step::kDone;
    }
    for (const LocalPiece& piece : some) addr += piece.len;
    pieces = pieces.subspan(some.size());
  } while (!pieces.empty());
  return Step::kInFlight;
}

Path::Step Path::write_imm(SendEntry* entry, uint64_t* /*budget*/, urma_cr_status_t* status) {
  const KeyGrant* grant;
  const Step allowed = authorize(entry, &grant, status);
  if (allowed != Step::kInFlight) return allowed;
  ibv_send_wr* request = add_message(*entry, IBV_WR_RDMA_WRITE_WITH_IMM);
  if (request == nullptr) return unsupported(status);
  set_remote(request, entry->remote_addr, grant->rkey);
  return add_local(request, entry, status);
}

// The value is written after all data, by the same queue pair.
Path::Step Path::write_notify(SendEntry* entry, uint64_t* /*budget*/, urma_cr_status_t* status) {
  const KeyGrant* grant;
  const Step allowed = authorize(entry, &grant, status);
  if (allowed != Step::kInFlight) return allowed;
  const KeyGrant* value_grant;
  const Step notifies =
      authorize_notified(&sender_->implicit_imports(), entry, &value_grant, status);
  if (notifies != Step::kInFlight) return notifies;
  const Step added = add_write(entry, grant->rkey, status);
  if (added != Step::kInFlight) return added;
  ibv_send_wr* request = add_request(IBV_WR_RDMA_WRITE);
  set_remote(request, entry->notified_addr, value_grant->rkey);
  add_inline(request, &entry->operand[0], sizeof(uint64_t));
  return Step::kInFlight;
}

Path::Step Path::atomic(SendEntry* entry, urma_cr_status_t* status) {
  const bool writes = entry->kind == OpKind::kWriteAtomic;
  const KeyGrant* grant;
  const Step allowed = authorize(entry, &grant, status);
  if (allowed != Step::kInFlight) return allowed;
  if (!aligned(*entry, status)) return Step::kDone;
  return writes ? add_write(entry, grant->rkey, status) : add_atomic(entry, *grant, status);
}

Path::Step Path::add_atomic(SendEntry* entry, const KeyGrant& grant, urma_cr_status_t* status) {
  const LocalPiece& result = SendQueue::pieces(entry)[0];
  uint32_t lkey;
  if (!result.valid || !sender_->resources().keys->find(result.ref, &lkey)) {
    *status = URMA_CR_LOC_ACCESS_ERR;
    return Step::kDone;
  }
  if (!native_atomic(entry->opcode, entry->bytes)) return add_emulated(entry, grant, status);
  const bool swaps = entry->opcode == URMA_OPC_CAS;
  ibv_send_wr* request =
      add_request(swaps ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD);
  add_pieces(request, {&result, 1});
  const uint64_t operand = entry->operand[0];
  request->wr.atomic.remote_addr = entry->remote_addr;
  request->wr.atomic.compare_add = entry->opcode == URMA_OPC_FSUB ? uint64_t{0} - operand : operand;
  request->wr.atomic.swap = entry->operand[2];
  request->wr.atomic.rkey = grant.rkey;
  return Step::kInFlight;
}

// The first round: the segment must contain the whole word around the value.
Path::Step Path::add_emulated(SendEntry* entry, const KeyGrant& grant, urma_cr_status_t* status) {
  if (emulation_ == nullptr) emulation_ = std::make_unique<Emulation>(*sender_->resources().device);
  emulation_->loop.emplace(entry->opcode, entry->remote_addr, static_cast<uint32_t>(entry->bytes),
                           entry->operand[0], entry->operand[2]);
  if (!grant.segment.covers(emulation_->loop->word_addr(), sizeof(uint64_t))) {
    emulation_->loop.reset();
    *status = URMA_CR_REM_UNSUPPORTED_REQ_ERR;
    return Step::kDone;
  }
  emulation_->rkey = grant.rkey;
  set_round(add_request(IBV_WR_ATOMIC_CMP_AND_SWP));
  return Step::kInFlight;
}

void Path::set_round(ibv_send_wr* request) {
  const AtomicLoop& loop = *emulation_->loop;
  request->sg_list[0] = emulation_->found.piece;
  request->num_sge = 1;
  request->wr.atomic.remote_addr = loop.word_addr();
  request->wr.atomic.compare_add = loop.compare();
  request->wr.atomic.swap = loop.swap();
  request->wr.atomic.rkey = emulation_->rkey;
}

// Called while completions are handed out, so it does not use the list. False if the device refuses
// it.
bool Path::post_round(SendEntry* entry) {
  ibv_sge piece;
  ibv_send_wr request = {};
  request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  request.sg_list = &piece;
  set_round(&request);
  if (!post_one(&request)) return false;
  entry->moved = posted_;
  return true;
}

// The device may take only the first ones of the list. False if it has no room, or refuses one:
// that one can only be failed as the oldest of all.
bool Path::post_list(SendEntry* entry) {
  RequestList& list = sender_->list();
  if (proof_ != 0) [[unlikely]]
    add_proof();
  ibv_send_wr* bad = nullptr;
  const int error = sender_->post_send(connection_->pair->handle(), list.requests.data(), &bad);
  uint32_t taken = list.count;
  if (error != 0) [[unlikely]] {
    taken = bad == nullptr ? 0 : static_cast<uint32_t>(bad - list.requests.data());
    taken = std::min(taken, list.count);
  }
  posted_ += taken;
  sender_->take_credits(taken);
  for (uint32_t i = 0; i < list.entries && entry->moved <= posted_; ++i) {
    set_out(entry);
    letters_ += needs_letter(*entry) ? 1 : 0;
    if (i + 1 < list.entries) entry = next_of(*entry);
  }
  if (error == 0) [[likely]]
    return true;
  refused(error);
  return false;
}

void Path::refused(int error) {
  // The refused requests may include signalled ones.
  signalled_ = std::min(signalled_, done_);
  if (emulation_ != nullptr) emulation_->loop.reset();
  if (error == ENOMEM || error == EAGAIN) return nudge();
  URMA_LOG_LIMITED(ERR, "queue {:#x}: the device refuses a request to id {:#x} with errno {}",
                   sender_->id().id, target()->id.id, error);
  if (under_way_ != 0) return nudge();
  end_first(URMA_CR_LOC_OPERATION_ERR);
}

bool Path::post_one(ibv_send_wr* request) {
  if (sender_->credits() == 0 || posted_ - done_ >= sends_ + kSpareSends) return false;
  request->wr_id = wr_id(posted_ + 1);
  request->send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (sender_->post_send(connection_->pair->handle(), request, &bad) != 0) return false;
  ++posted_;
  signalled_ = posted_;
  sender_->take_credits(1);
  return true;
}

// Something waits for all requests in flight, and the last of them was not signalled.
void Path::nudge() {
  if (signalled_ == posted_ || !carries()) return;
  ibv_send_wr nothing = {};
  nothing.opcode = IBV_WR_RDMA_WRITE;
  if (proof_ != 0) set_proof(&nothing);
  post_one(&nothing);
}

// READs are their own proof; completions of other requests do not count.
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
