// SPDX-License-Identifier: MIT
//
// How requests become those of the device, and reach it.
#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

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

uint32_t rights_for(OpKind kind) {
  switch (kind) {
    case OpKind::kRead:
      return URMA_ACCESS_READ;
    case OpKind::kAtomic:
      return URMA_ACCESS_ATOMIC;
    default:
      return URMA_ACCESS_WRITE;
  }
}

void set_remote(ibv_send_wr* request, uint64_t addr, uint32_t rkey) {
  request->wr.rdma.remote_addr = addr;
  request->wr.rdma.rkey = rkey;
}

}  // namespace

SendEntry* Path::next_waiting() const {
  if (idle()) return nullptr;
  if (under_way_ == 0) return first();
  return next_of(queue().at(last_under_way_));
}

SendEntry* Path::next_of(const SendEntry& entry) const {
  return entry.next == kNoEntry ? nullptr : &queue().at(entry.next);
}

// True where requests still wait to be executed.
bool Path::post_waiting() {
  while (SendEntry* entry = next_waiting()) {
    if (emulating()) return true;
    if (state_ == State::kOneSided && takes_receive(*entry) && !leave_one_sided()) return true;
    if (!carries() && (ends() || entry->kind != OpKind::kNop) && !connected()) return !idle();
    urma_cr_status_t status = URMA_CR_SUCCESS;
    RequestList& list = sender_->list();
    list.clear();
    const Step step = fill_list(entry, &status);
    if (list.count != 0 && !post_list(entry)) return !idle();
    if (step == Step::kWait) return true;
    if (step != Step::kEnd) continue;
    if (under_way_ != 0) {
      // Said again once it is the first.
      why.clear();
      nudge();
      return true;
    }
    end_first(status);
  }
  return ends() && !idle();
}

// Puts requests into the list, and says what has stopped it.
Path::Step Path::fill_list(SendEntry* entry, urma_cr_status_t* status) {
  RequestList& list = sender_->list();
  for (; entry != nullptr; entry = next_of(*entry)) {
    const uint32_t before = list.count;
    const uint32_t pieces_before = list.piece_count;
    const uint32_t needed = requests_for(*entry);
    if (!list.has_room(needed, entry->pieces + 2U)) return Step::kFull;
    const uint64_t held = posted_ + before - done_;
    Step step = Step::kWait;
    if (held + needed <= sends_ && before + needed + proof_ <= sender_->credits()) [[likely]] {
      step = add_guarded(entry, status);
    } else if (before != 0 && proof_ == 0) {
      // Nothing else tells when there is room again.
      list.requests[before - 1].send_flags |= IBV_SEND_SIGNALED;
    }
    if (step != Step::kAdded) {
      list.count = before;
      list.piece_count = pieces_before;
      if (before != 0) list.requests[before - 1].next = nullptr;
      return step;
    }
    asked_ = asked_notified_ = 0;
    if (proof_ == 0) [[likely]] {
      sign(entry);
    } else {
      sign_proven(entry);
    }
    ++list.entries;
    if (emulating()) return Step::kWait;
  }
  return Step::kAdded;
}

uint32_t Path::requests_for(const SendEntry& entry) const {
  // Nothing goes to the device, which there need not be a connection to.
  if (entry.kind == OpKind::kNop) return 0;
  if (entry.kind == OpKind::kWriteNotify || needs_letter(entry)) return 2;
  if (entry.kind != OpKind::kRead) return 1;
  const uint32_t at_once = sender_->read_pieces();
  return std::max(1U, (entry.pieces + at_once - 1) / at_once);
}

// What this process has not the means for fails the one request.
Path::Step Path::add_guarded(SendEntry* entry, urma_cr_status_t* status) {
  try {
    return add(entry, status);
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a request of queue {:#x} fails: {}", sender_->id().id, error.what());
    *status = URMA_CR_LOC_OPERATION_ERR;
    return Step::kEnd;
  }
}

Path::Step Path::add(SendEntry* entry, urma_cr_status_t* status) {
  uint32_t fence = 0;
  if (entry->fence && !queue().earlier_reads_done(entry)) [[unlikely]] {
    // Those of another path are not the device's to await.
    if (sender_->others_busy(this)) return Step::kWait;
    fence = IBV_SEND_FENCE;
  }
  if (state_ == State::kOneSided && takes_receive(*entry)) return Step::kWait;
  RequestList& list = sender_->list();
  const uint32_t begin = list.count;
  Step step;
  switch (entry->kind) {
    case OpKind::kSend:
      step = add_message(entry, status);
      break;
    case OpKind::kNop:
      return Step::kEnd;
    case OpKind::kNone:
      *status = URMA_CR_UNSUPPORTED_OPCODE_ERR;
      return Step::kEnd;
    default:
      step = add_access(entry, status);
      break;
  }
  if (step == Step::kAdded) list.requests[begin].send_flags |= fence;
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

// A few bytes that are copied at once.
void Path::add_inline(ibv_send_wr* request, const void* data, uint32_t bytes) {
  RequestList& list = sender_->list();
  list.pieces[list.piece_count++] = {reinterpret_cast<uint64_t>(data), bytes, 0};
  request->num_sge = 1;
  request->send_flags |= IBV_SEND_INLINE;
}

// So many of the local pieces; false where one of them is no registered memory any more.
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

bool Path::add_local(ibv_send_wr* request, SendEntry* entry) {
  if (entry->inline_bytes == 0) return add_pieces(request, SendQueue::pieces(entry));
  add_inline(request, SendQueue::inline_data(entry), entry->inline_bytes);
  return true;
}

// What does not fit into the 32 bits that go along, to where the receiver looks for it.
bool Path::add_letter(const SendEntry& entry, uint32_t* immediate) {
  const Mailbox& mailbox = connection_->answer.reply.mailbox;
  if (mailbox.slots == 0 || connection_->pair->inline_bytes() < sizeof(Letter)) return false;
  RequestList& list = sender_->list();
  Letter& letter = list.letters[list.count];
  letter = {LetterKind::kImmediate, entry.operand[0], 0, 0};
  if (entry.opcode == URMA_OPC_SEND_INVALIDATE) {
    const urma_seg_t& seg = entry.remote->seg;
    letter = {LetterKind::kInvalidation, entry.operand[0], seg.ubva.va, seg.len};
  }
  const auto slot = static_cast<uint32_t>(letters_++ % mailbox.slots);
  ibv_send_wr* request = add_request(IBV_WR_RDMA_WRITE);
  set_remote(request, mailbox.address + slot * sizeof(Letter), mailbox.rkey);
  add_inline(request, &letter, sizeof(letter));
  *immediate = kInMailbox | slot;
  return true;
}

Path::Step Path::authorize_invalidation(SendEntry* entry, urma_cr_status_t* status) {
  const urma_seg_t& seg = entry->remote->seg;
  if (!same_eid(seg.ubva.eid, target()->id.eid)) {
    *status = URMA_CR_REM_ACCESS_ABORT_ERR;
    return Step::kEnd;
  }
  uint32_t rkey = 0;
  const Step allowed =
      authorize({&entry->remote, seg.ubva.va, seg.len, /*rights=*/0}, &asked_, &rkey, status);
  // The owner is asked again before the next access: the grant is about to end.
  auto* region = static_cast<RemoteRegion*>(entry->remote);
  if (allowed == Step::kAdded) region->doubt(region->granted());
  return allowed;
}

Path::Step Path::add_message(SendEntry* entry, urma_cr_status_t* status) {
  if (entry->opcode == URMA_OPC_SEND_INVALIDATE) {
    const Step allowed = authorize_invalidation(entry, status);
    if (allowed != Step::kAdded) return allowed;
  }
  auto immediate = static_cast<uint32_t>(entry->operand[0]);
  if (needs_letter(*entry) && !add_letter(*entry, &immediate)) {
    *status = URMA_CR_UNSUPPORTED_OPCODE_ERR;
    return Step::kEnd;
  }
  const bool plain = entry->opcode == URMA_OPC_SEND;
  ibv_send_wr* request = add_request(plain ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM);
  if (!plain) request->imm_data = htonl(immediate);
  if (entry->solicited) request->send_flags |= IBV_SEND_SOLICITED;
  if (add_local(request, entry)) return Step::kAdded;
  *status = URMA_CR_LOC_ACCESS_ERR;
  return Step::kEnd;
}

Path::Step Path::add_access(SendEntry* entry, urma_cr_status_t* status) {
  sender_->implicit_imports().look_up(entry, target()->id.eid);
  const RemoteAccess access = {&entry->remote, entry->remote_addr, entry->bytes,
                               rights_for(entry->kind)};
  uint32_t rkey = 0;
  const Step allowed = authorize(access, &asked_, &rkey, status);
  if (allowed != Step::kAdded) return allowed;
  const bool whole = entry->kind == OpKind::kAtomic || entry->kind == OpKind::kWriteAtomic;
  if (whole && entry->remote_addr % entry->bytes != 0) {
    because("address {:#x} is not aligned: give a multiple of {}", entry->remote_addr,
            entry->bytes);
    *status = URMA_CR_REM_UNSUPPORTED_REQ_ERR;
    return Step::kEnd;
  }
  bool added = false;
  switch (entry->kind) {
    case OpKind::kRead:
      added = add_read(entry, rkey);
      break;
    case OpKind::kAtomic:
      return add_atomic(entry, rkey, status);
    case OpKind::kWriteImm:
      return add_write_imm(entry, rkey, status);
    case OpKind::kWriteNotify:
      return add_write_notify(entry, rkey, status);
    default: {
      ibv_send_wr* request = add_request(IBV_WR_RDMA_WRITE);
      set_remote(request, entry->remote_addr, rkey);
      added = add_local(request, entry);
      break;
    }
  }
  *status = URMA_CR_LOC_ACCESS_ERR;
  return added ? Step::kAdded : Step::kEnd;
}

// As many requests as the device needs for so many pieces.
bool Path::add_read(SendEntry* entry, uint32_t rkey) {
  std::span<const LocalPiece> pieces = SendQueue::pieces(entry);
  uint64_t addr = entry->remote_addr;
  do {
    const auto some = pieces.first(std::min<size_t>(pieces.size(), sender_->read_pieces()));
    ibv_send_wr* request = add_request(IBV_WR_RDMA_READ);
    set_remote(request, addr, rkey);
    if (!add_pieces(request, some)) return false;
    for (const LocalPiece& piece : some) addr += piece.len;
    pieces = pieces.subspan(some.size());
  } while (!pieces.empty());
  return true;
}

Path::Step Path::add_write_imm(SendEntry* entry, uint32_t rkey, urma_cr_status_t* status) {
  auto immediate = static_cast<uint32_t>(entry->operand[0]);
  if (needs_letter(*entry) && !add_letter(*entry, &immediate)) {
    *status = URMA_CR_UNSUPPORTED_OPCODE_ERR;
    return Step::kEnd;
  }
  ibv_send_wr* request = add_request(IBV_WR_RDMA_WRITE_WITH_IMM);
  set_remote(request, entry->remote_addr, rkey);
  request->imm_data = htonl(immediate);
  if (entry->solicited) request->send_flags |= IBV_SEND_SOLICITED;
  if (add_local(request, entry)) return Step::kAdded;
  *status = URMA_CR_LOC_ACCESS_ERR;
  return Step::kEnd;
}

// The value is written behind all data, by the same queue pair.
Path::Step Path::add_write_notify(SendEntry* entry, uint32_t rkey, urma_cr_status_t* status) {
  const RemoteAccess value = {&entry->notified, entry->notified_addr, sizeof(uint64_t),
                              URMA_ACCESS_WRITE};
  uint32_t value_rkey = 0;
  const Step allowed = authorize(value, &asked_notified_, &value_rkey, status);
  if (allowed != Step::kAdded) return allowed;
  ibv_send_wr* request = add_request(IBV_WR_RDMA_WRITE);
  set_remote(request, entry->remote_addr, rkey);
  if (!add_local(request, entry)) {
    *status = URMA_CR_LOC_ACCESS_ERR;
    return Step::kEnd;
  }
  request = add_request(IBV_WR_RDMA_WRITE);
  set_remote(request, entry->notified_addr, value_rkey);
  add_inline(request, &entry->operand[0], sizeof(uint64_t));
  return Step::kAdded;
}

Path::Step Path::add_atomic(SendEntry* entry, uint32_t rkey, urma_cr_status_t* status) {
  const LocalPiece& result = SendQueue::pieces(entry)[0];
  uint32_t lkey;
  if (!result.valid || !sender_->resources().keys->find(result.ref, &lkey)) {
    *status = URMA_CR_LOC_ACCESS_ERR;
    return Step::kEnd;
  }
  if (!native_atomic(entry->opcode, entry->bytes)) return add_emulated(entry, rkey, status);
  const bool swaps = entry->opcode == URMA_OPC_CAS;
  ibv_send_wr* request =
      add_request(swaps ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD);
  add_pieces(request, {&result, 1});
  const uint64_t operand = entry->operand[0];
  request->wr.atomic.remote_addr = entry->remote_addr;
  request->wr.atomic.compare_add = entry->opcode == URMA_OPC_FSUB ? uint64_t{0} - operand : operand;
  request->wr.atomic.swap = entry->operand[2];
  request->wr.atomic.rkey = rkey;
  return Step::kAdded;
}

// The first round: the word around the value has to lie in the segment, too.
Path::Step Path::add_emulated(SendEntry* entry, uint32_t rkey, urma_cr_status_t* status) {
  if (emulation_ == nullptr) emulation_ = std::make_unique<Emulation>(*sender_->resources().device);
  emulation_->loop.emplace(entry->opcode, entry->remote_addr, static_cast<uint32_t>(entry->bytes),
                           entry->operand[0], entry->operand[2]);
  const KeyGrant* grant = static_cast<RemoteRegion*>(entry->remote)->granted();
  if (grant == nullptr || !grant->covers(emulation_->loop->word_addr(), sizeof(uint64_t))) {
    emulation_->loop.reset();
    *status = URMA_CR_REM_UNSUPPORTED_REQ_ERR;
    return Step::kEnd;
  }
  emulation_->rkey = rkey;
  set_round(add_request(IBV_WR_ATOMIC_CMP_AND_SWP));
  return Step::kAdded;
}

void Path::set_round(ibv_send_wr* request) {
  const AtomicLoop& loop = *emulation_->loop;
  request->sg_list[0] = {reinterpret_cast<uint64_t>(&emulation_->found), sizeof(uint64_t),
                         emulation_->region.lkey()};
  request->num_sge = 1;
  request->wr.atomic.remote_addr = loop.word_addr();
  request->wr.atomic.compare_add = loop.compare();
  request->wr.atomic.swap = loop.swap();
  request->wr.atomic.rkey = emulation_->rkey;
}

// While completions are handed out, so without the list. False where the device refuses it.
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

// The first ones of the list may be all that the device takes. False where it has no room, or
// refuses one: that one has to be the oldest of all to be failed.
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
    entry->state = SendState::kInFlight;
    ++under_way_;
    last_under_way_ = queue().index_of(entry);
    if (i + 1 < list.entries) entry = next_of(*entry);
  }
  if (error == 0) [[likely]]
    return true;
  refused(error);
  return false;
}

void Path::refused(int error) {
  // What was to be signalled may be among what was refused.
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

// Something waits for all that is under way, the last of which nobody wanted a completion of.
void Path::nudge() {
  if (signalled_ == posted_ || !carries()) return;
  ibv_send_wr nothing = {};
  nothing.opcode = IBV_WR_RDMA_WRITE;
  if (proof_ != 0) set_proof(&nothing);
  post_one(&nothing);
}

}  // namespace urma::verbs
