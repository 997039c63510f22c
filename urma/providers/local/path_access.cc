// SPDX-License-Identifier: MIT
//
// One-sided requests on their way to one target, and atomics.
#include <algorithm>
#include <cstring>

#include "urma/providers/local/direct.h"
#include "urma/providers/local/iovecs.h"
#include "urma/providers/local/path.h"
#include "urma/providers/local/sender.h"
#include "urma/providers/local/transport.h"

namespace urma::local {

bool QueuePath::local_memory_stands(SendEntry* entry) const {
  for (const LocalPiece& piece : SendQueue::pieces(entry)) {
    if (piece.len == 0) continue;
    if (!piece.valid || !sender_->transport().segments().alive(piece.ref)) return false;
  }
  return true;
}

QueuePath::Step QueuePath::authorize(SendEntry* entry, uint32_t access, const Grant** grant,
                                     urma_cr_status_t* status) {
  auto* segment = static_cast<RemoteSegment*>(entry->remote);
  *grant = segment->grant();
  if (*grant == nullptr || !(*grant)->stands()) {
    if (asked_ == 0) asked_ = segment->ask();
    if (!segment->ended(asked_, status)) return Step::kWait;
    *grant = segment->grant();
    if (*status != URMA_CR_SUCCESS) return Step::kDone;
    if (!(*grant)->stands()) {
      *status = (*grant)->link->gone() ? URMA_CR_ACK_TIMEOUT_ERR : URMA_CR_REM_ACCESS_ABORT_ERR;
      return Step::kDone;
    }
  }
  if ((*grant)->allows(access) && (*grant)->covers(entry->remote_addr, entry->bytes)) {
    return (*grant)->view == nullptr && segment->about_to_be_mapped() ? Step::kWait
                                                                      : Step::kInFlight;
  }
  *status = URMA_CR_REM_ACCESS_ABORT_ERR;
  return Step::kDone;
}

QueuePath::Step QueuePath::transfer(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  if (!local_memory_stands(entry)) {
    *status = URMA_CR_LOC_ACCESS_ERR;
    return Step::kDone;
  }
  const bool write = entry->kind != OpKind::kRead;
  const Grant* grant;
  const Step allowed =
      authorize(entry, write ? URMA_ACCESS_WRITE : URMA_ACCESS_READ, &grant, status);
  if (allowed != Step::kInFlight) return allowed;
  while (entry->moved < entry->bytes) {
    if (*budget == 0) return Step::kWait;
    uint64_t moved = 0;
    *status = transfer_some(entry, *grant, *budget, &moved);
    if (*status != URMA_CR_SUCCESS) return Step::kDone;
    entry->moved += moved;
    *budget -= moved;
  }
  return Step::kDone;
}

// One stretch that is mapped, or is not.
urma_cr_status_t QueuePath::transfer_some(SendEntry* entry, const Grant& grant, uint64_t budget,
                                          uint64_t* moved) {
  const Direction direction = entry->kind == OpKind::kRead ? Direction::kRead : Direction::kWrite;
  const uint64_t addr = entry->remote_addr + entry->moved;
  uint64_t turn = std::min(budget, entry->bytes - entry->moved);
  char* mapped = nullptr;
  if (grant.view != nullptr && (direction == Direction::kRead || grant.view->writable())) {
    mapped = grant.view->at(addr, turn, &turn);
  }
  IovecList local;
  if (entry->inline_bytes != 0) {
    local.add(reinterpret_cast<uint64_t>(SendQueue::inline_data(entry)), entry->inline_bytes,
              entry->moved, turn);
  }
  for (const LocalPiece& piece : SendQueue::pieces(entry)) {
    local.add(piece.addr, piece.len, entry->moved, turn);
  }
  if (mapped != nullptr) {
    copy_mapped(direction, mapped, local.list());
    *moved = turn;
    return URMA_CR_SUCCESS;
  }
  const iovec remote = {reinterpret_cast<void*>(addr), turn};
  return sender_->transport().copy().copy(direction, grant.link->peer(), local.list(), {&remote, 1},
                                          moved);
}

QueuePath::Step QueuePath::atomic(SendEntry* entry, urma_cr_status_t* status) {
  if (atomic_call_ == nullptr) {
    const Grant* grant;
    *status = URMA_CR_LOC_ACCESS_ERR;
    if (!local_memory_stands(entry)) return Step::kDone;
    const Step allowed = authorize(entry, URMA_ACCESS_ATOMIC, &grant, status);
    if (allowed != Step::kInFlight) return allowed;
    if (entry->remote_addr % entry->bytes != 0) {
      *status = URMA_CR_REM_UNSUPPORTED_REQ_ERR;
      return Step::kDone;
    }
    if (atomic_mapped(entry, *grant)) {
      *status = URMA_CR_SUCCESS;
      return Step::kDone;
    }
    call_atomic(entry, *grant);
  }
  // SYNC(atomic-call): acquire pairs with the release of the service thread.
  if (!atomic_call_->ended.load(std::memory_order_acquire)) return Step::kWait;
  const std::shared_ptr<AtomicCall> call = std::move(atomic_call_);
  *status = status_of(call->answer);
  if (*status != URMA_CR_SUCCESS) return Step::kDone;
  if (!local_memory_stands(entry)) {
    *status = URMA_CR_LOC_ACCESS_ERR;
    return Step::kDone;
  }
  const LocalPiece& result = SendQueue::pieces(entry)[0];
  std::memcpy(reinterpret_cast<void*>(result.addr), &call->old_value, result.len);
  return Step::kDone;
}

// False where the word is not mapped.
bool QueuePath::atomic_mapped(SendEntry* entry, const Grant& grant) {
  if (grant.view == nullptr || !grant.view->writable()) return false;
  uint64_t run;
  char* mapped = grant.view->at(entry->remote_addr, entry->bytes, &run);
  if (mapped == nullptr) return false;
  const LocalPiece& result = SendQueue::pieces(entry)[0];
  const uint64_t before =
      execute_atomic(static_cast<urma_opcode_t>(entry->opcode), mapped, result.len, entry->operand);
  std::memcpy(reinterpret_cast<void*>(result.addr), &before, result.len);
  return true;
}

void QueuePath::call_atomic(SendEntry* entry, const Grant& grant) {
  Request request = {};
  request.type = RequestType::kAtomic;
  request.atomic = {entry->remote_addr,      {entry->operand[0], entry->operand[1]},
                    grant.segment.ref.index, grant.segment.ref.generation,
                    entry->opcode,           static_cast<uint32_t>(entry->bytes)};
  auto call = std::make_shared<AtomicCall>();
  Transport* transport = &sender_->transport();
  transport->service().post([call, transport, link = grant.link, request] {
    link->request(request, {}, [call, transport](const Reply& reply, Attached&) {
      call->answer = reply.answer;
      call->old_value = reply.atomic.old_value;
      // SYNC(atomic-call): release pairs with the acquire in QueuePath::atomic.
      call->ended.store(true, std::memory_order_release);
      transport->serve_senders();
    });
  });
  atomic_call_ = std::move(call);
}

}  // namespace urma::local
