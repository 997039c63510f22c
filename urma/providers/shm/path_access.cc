// SPDX-License-Identifier: MIT
//
// One-sided requests to one target, and atomics.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "jetty/iovecs.h"
#include "urma/providers/shm/direct.h"
#include "urma/providers/shm/path.h"
#include "urma/providers/shm/sender.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {
namespace {

// Where the bytes are mapped for writing; NULL if some of them are not.
char* mapped_for_writing(const Grant& grant, uint64_t addr, uint64_t bytes) {
  if (grant.view == nullptr || !grant.view->writable()) return nullptr;
  uint64_t run;
  char* mapped = grant.view->at(addr, bytes, &run);
  return run == bytes ? mapped : nullptr;
}

IovecList list_of(char* buffer, uint64_t bytes) {
  IovecList list;
  list.add(reinterpret_cast<uint64_t>(buffer), bytes, /*skip=*/0, bytes);
  return list;
}

}  // namespace

QueuePath::Step QueuePath::transfer(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  if (!local_memory_stands(entry, status)) return Step::kDone;
  const Step awaited = await_staged(status);
  if (awaited != Step::kInFlight) return awaited;
  const Grant* grant;
  const Step allowed = authorize(&sender_->implicit_imports(), entry, &grant, status);
  if (allowed != Step::kInFlight) return allowed;
  while (entry->moved < entry->bytes) {
    if (*budget == 0) return Step::kWait;
    uint64_t moved = std::min(*budget, entry->bytes - entry->moved);
    const Step step = transfer_some(entry, *grant, /*buffer=*/nullptr, &moved, status);
    if (step != Step::kDone || *status != URMA_CR_SUCCESS) return step;
    // Else the owner may have stored something else there before it was read.
    // SYNC(segment-gone): this acquire fence, after the copy, pairs with the release fence in
    // SegmentTable::end_for_peers.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry->kind == OpKind::kRead && !grant->stands()) return Step::kWait;
    entry->moved += moved;
    *budget -= std::min(*budget, moved);
  }
  return Step::kDone;
}

QueuePath::Step QueuePath::transfer_some(SendEntry* entry, const Grant& grant, char* buffer,
                                         uint64_t* moved, urma_cr_status_t* status) {
  const Direction direction = entry->kind == OpKind::kRead ? Direction::kRead : Direction::kWrite;
  const uint64_t addr = entry->remote_addr + entry->moved;
  char* mapped = nullptr;
  if (copying_ != nullptr) {
    *moved = copying_->bytes;
  } else if (grant.view != nullptr && (direction == Direction::kRead || grant.view->writable())) {
    mapped = grant.view->at(addr, *moved, moved);
  }
  const IovecList local =
      buffer == nullptr ? local_pieces(entry, entry->moved, *moved) : list_of(buffer, *moved);
  if (mapped != nullptr) {
    copy_mapped(direction, mapped, local.list());
    return Step::kDone;
  }
  return copy_far(direction, grant, addr, local.list(), moved, status);
}

QueuePath::Step QueuePath::write_notify(SendEntry* entry, uint64_t* budget,
                                        urma_cr_status_t* status) {
  if (atomic_call_ != nullptr) return await_atomic(status);
  // First, so that nothing is written if nobody could be notified.
  const Grant* grant;
  const Step allowed = authorize_notified(&sender_->implicit_imports(), entry, &grant, status);
  if (allowed != Step::kInFlight) return allowed;
  const Step written = transfer(entry, budget, status);
  if (written != Step::kDone || *status != URMA_CR_SUCCESS) return written;
  return write_value(*grant, entry->notified_addr, entry->operand[0], status);
}

// The kernel copies bytes, not words, so an unmapped word is written by its owner.
QueuePath::Step QueuePath::write_value(const Grant& grant, uint64_t addr, uint64_t value,
                                       urma_cr_status_t* status) {
  // Release: a reader that sees the value sees all data. Pairs with the acquire that the owner's
  // own program makes.
  std::atomic_thread_fence(std::memory_order_release);
  if (char* mapped = mapped_for_writing(grant, addr, sizeof(value)); mapped != nullptr) {
    std::memcpy(mapped, &value, sizeof(value));
    return Step::kDone;
  }
  if (addr % sizeof(value) == 0) {
    const SegmentRef ref = grant.segment.ref;
    call_atomic({addr, {value}, ref.index, ref.generation, URMA_OPC_WRITE_ATOMIC, sizeof(value)},
                grant.link);
    return Step::kWait;
  }
  const iovec local = {&value, sizeof(value)};
  uint64_t moved = 0;
  const Step step = copy_far(Direction::kWrite, grant, addr, {&local, 1}, &moved, status);
  if (step != Step::kDone) return step;
  if (*status == URMA_CR_SUCCESS && moved != sizeof(value)) *status = URMA_CR_REM_ACCESS_ABORT_ERR;
  if (*status == URMA_CR_REM_ACCESS_ABORT_ERR) {
    because("the peer's memory at {:#x} is not mapped, or not for writing", addr);
  }
  return Step::kDone;
}

QueuePath::Step QueuePath::atomic(SendEntry* entry, urma_cr_status_t* status) {
  const bool write = entry->kind == OpKind::kWriteAtomic;
  if (atomic_call_ == nullptr) {
    const Grant* grant;
    if (!local_memory_stands(entry, status)) return Step::kDone;
    const Step allowed = authorize(&sender_->implicit_imports(), entry, &grant, status);
    if (allowed != Step::kInFlight) return allowed;
    if (!aligned(*entry, status)) return Step::kDone;
    if (write) collect(entry, entry->operand);
    if (char* word = mapped_for_writing(*grant, entry->remote_addr, entry->bytes)) {
      execute_at(entry, word);
      *status = URMA_CR_SUCCESS;
      return Step::kDone;
    }
    AtomicRequest asked = {entry->remote_addr,
                           {},
                           grant->segment.ref.index,
                           grant->segment.ref.generation,
                           entry->opcode,
                           static_cast<uint32_t>(entry->bytes)};
    std::copy(std::begin(entry->operand), std::end(entry->operand), asked.operand);
    call_atomic(asked, grant->link);
  }
  const Step called = await_atomic(status);
  if (called != Step::kDone || *status != URMA_CR_SUCCESS || write) return called;
  if (!local_memory_stands(entry, status)) return Step::kDone;
  const LocalPiece& result = SendQueue::pieces(entry)[0];
  std::memcpy(reinterpret_cast<void*>(result.addr), atomic_call_->old_value, result.len);
  return Step::kDone;
}

void QueuePath::execute_at(SendEntry* entry, char* target) {
  uint64_t before[2];
  execute_wide(entry->opcode, target, static_cast<uint32_t>(entry->bytes), entry->operand, before);
  if (entry->kind == OpKind::kWriteAtomic) return;
  const LocalPiece& result = SendQueue::pieces(entry)[0];
  std::memcpy(reinterpret_cast<void*>(result.addr), before, result.len);
}

// The next request drops the call.
QueuePath::Step QueuePath::await_atomic(urma_cr_status_t* status) {
  if (!atomic_call_->has_ended()) return Step::kWait;
  *status = outcome_of(atomic_call_->answer);
  return Step::kDone;
}

void QueuePath::call_atomic(const AtomicRequest& asked, const std::shared_ptr<Link>& link) {
  Request request = {};
  request.type = RequestType::kAtomic;
  request.atomic = asked;
  auto call = std::make_shared<AtomicCall>();
  Transport* transport = &sender_->transport();
  transport->service().post([call, transport, link, request] {
    link->request(request, {}, [call, transport](const Reply& reply, Attached&) {
      std::copy(std::begin(reply.atomic.old_value), std::end(reply.atomic.old_value),
                call->old_value);
      call->end(reply.answer);
      transport->serve_senders();
    });
  });
  atomic_call_ = std::move(call);
}

}  // namespace urma::shm
