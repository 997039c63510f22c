// SPDX-License-Identifier: MIT
#include "jetty/request_path.h"

#include <cstring>

#include "jetty/transport.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {

bool suffices(const SegmentGrant& grant, const RemoteAccess& access) {
  return grant.allows(access.rights) && grant.covers(access.addr, access.bytes);
}

bool RequestPath::execute_pending() {
  SendQueue& queue = sender_->queue();
  if (queue.state() != URMA_JETTY_STATE_READY) return false;
  uint64_t budget = kCopyPerTurn;
  while (!idle()) {
    SendEntry* entry = first();
    if (in_vain(*entry)) [[unlikely]] {
      give_up_first();
      because("an earlier request of this queue has found the target, or its memory, lost");
      queue.complete(entry, outcome(URMA_CR_ACK_TIMEOUT_ERR));
      why.clear();
      continue;
    }
    urma_cr_status_t status = URMA_CR_SUCCESS;
    const Step step = execute_guarded(entry, &budget, &status);
    more = step == Step::kWait && budget == 0;
    if (step == Step::kWait) return true;
    take_next();
    if (step == Step::kDone) {
      queue.complete(entry, outcome(status));
      if (status != URMA_CR_SUCCESS) why.clear();
    } else {
      entry->state = SendState::kInFlight;
    }
  }
  return false;
}

SendEntry* RequestPath::take_next() {
  begin_next();
  return take_first();
}

urma_cr_status_t RequestPath::outcome(urma_cr_status_t status) const {
  const bool remote =
      (status >= URMA_CR_REM_RESP_LEN_ERR && status <= URMA_CR_RNR_RETRY_CNT_EXC_ERR) ||
      status == URMA_CR_REM_DATA_POISON;
  return remote && sender_->config().trans_mode == URMA_TM_UM ? URMA_CR_SUCCESS : status;
}

urma_cr_status_t RequestPath::outcome_of(Answer answer) {
  if (answer != Answer::kAccepted) because("{}", answer_text(answer));
  return status_of(answer);
}

// Out of memory or descriptors: fails this request only.
RequestPath::Step RequestPath::execute_guarded(SendEntry* entry, uint64_t* budget,
                                               urma_cr_status_t* status) {
  try {
    const Step step = execute(entry, budget, status);
    if (step != Step::kWait && *status == URMA_CR_SUCCESS) executed(*entry);
    return step;
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a request of queue {:#x} fails: {}", sender_->id().id, error.what());
    *status = URMA_CR_LOC_OPERATION_ERR;
    return Step::kDone;
  }
}

RequestPath::Step RequestPath::execute(SendEntry* entry, uint64_t* budget,
                                       urma_cr_status_t* status) {
  if (entry->fence && !fence_lets(*entry)) return Step::kWait;
  if (entry->strong && !placed_before(*entry)) return Step::kWait;
  if (entry->kind != OpKind::kSend && entry->kind != OpKind::kNop) look_up(entry);
  switch (entry->kind) {
    case OpKind::kWrite:
    case OpKind::kRead:
      return transfer(entry, budget, status);
    case OpKind::kAtomic:
    case OpKind::kWriteAtomic:
      return atomic(entry, status);
    case OpKind::kSend:
      return send(entry, status);
    case OpKind::kWriteImm:
      return write_imm(entry, budget, status);
    case OpKind::kWriteNotify:
      return write_notify(entry, budget, status);
    case OpKind::kNop:
      return Step::kDone;
    case OpKind::kNone:
      break;
  }
  return unsupported(status);
}

RequestPath::Step RequestPath::unsupported(urma_cr_status_t* status) {
  *status = URMA_CR_UNSUPPORTED_OPCODE_ERR;
  return Step::kDone;
}

bool RequestPath::local_memory_stands(SendEntry* entry, urma_cr_status_t* status) {
  const SegmentTable& segments = sender_->transport().segments();
  for (const LocalPiece& piece : SendQueue::pieces(entry)) {
    if (piece.len == 0 || (piece.valid && segments.alive(piece.ref))) continue;
    guarded(URMA_LOG_SITE, [&] { because("{}", why_piece_fails(segments, piece)); });
    *status = URMA_CR_LOC_ACCESS_ERR;
    return false;
  }
  return true;
}

void RequestPath::collect(SendEntry* entry, void* into) {
  auto* to = static_cast<char*>(into);
  std::memcpy(to, SendQueue::inline_data(entry), entry->inline_bytes);
  to += entry->inline_bytes;
  for (const LocalPiece& piece : SendQueue::pieces(entry)) {
    std::memcpy(to, reinterpret_cast<const void*>(piece.addr), piece.len);
    to += piece.len;
  }
}

IovecList RequestPath::local_pieces(SendEntry* entry, uint64_t skip, uint64_t bytes) {
  IovecList local;
  if (entry->inline_bytes != 0) {
    local.add(reinterpret_cast<uint64_t>(SendQueue::inline_data(entry)), entry->inline_bytes, skip,
              bytes);
  }
  for (const LocalPiece& piece : SendQueue::pieces(entry)) {
    local.add(piece.addr, piece.len, skip, bytes);
  }
  return local;
}

bool RequestPath::aligned(const SendEntry& entry, urma_cr_status_t* status) {
  if (entry.remote_addr % entry.bytes == 0) return true;
  because("address {:#x} is not aligned: give a multiple of {}", entry.remote_addr, entry.bytes);
  *status = URMA_CR_REM_UNSUPPORTED_REQ_ERR;
  return false;
}

// Asked for, but not sufficient.
urma_cr_status_t RequestPath::why_refused(const ImportedSegment& segment,
                                          const RemoteAccess& access, urma_cr_status_t status) {
  const std::string what =
      why_access_fails(segment.seg.token_id, access.addr, access.bytes, access.rights);
  if (status == URMA_CR_SUCCESS) {
    because("{}", what);
    return URMA_CR_REM_ACCESS_ABORT_ERR;
  }
  because("{}: {}", what, answer_text(segment.last_answer()));
  return status;
}

urma_cr_status_t RequestPath::why_ended(const ImportedSegment& segment, bool owner_gone) {
  because("its owner has unregistered the segment of token id {:#x}", segment.seg.token_id);
  return owner_gone ? URMA_CR_ACK_TIMEOUT_ERR : URMA_CR_REM_ACCESS_ABORT_ERR;
}

}  // namespace urma
