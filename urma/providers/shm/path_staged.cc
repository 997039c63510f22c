// SPDX-License-Identifier: MIT
//
// Memory that is not mapped: copied by the kernel, or staged if that refuses; and the bytes of
// messages that receivers have the sender copy for them.
#include <algorithm>
#include <optional>

#include "urma/providers/shm/path.h"
#include "urma/providers/shm/sender.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {
QueuePath::Step QueuePath::copy_far(Direction direction, const Grant& grant, uint64_t addr,
                                    std::span<const iovec> local, uint64_t* moved,
                                    urma_cr_status_t* status) {
  const PeerProcess& peer = grant.link->peer();
  if (copying_ == nullptr && peer.reachable()) {
    const iovec remote = {reinterpret_cast<void*>(addr), total(local)};
    std::optional<CopyMarks::Mark> mark;
    if (direction == Direction::kWrite) {
      mark.emplace(&sender_->transport().segments().copies());
      // Its owner no longer waits for this write.
      if (!grant.stands()) return Step::kWait;
    }
    *status = sender_->transport().copy(direction, peer, local, {&remote, 1}, moved);
    if (*status == URMA_CR_REM_ACCESS_ABORT_ERR) {
      because("the peer's memory from {:#x} on is not mapped, or not with that right",
              addr + *moved);
    }
    if (*status == URMA_CR_SUCCESS || peer.reachable()) return Step::kDone;
  }
  if (copying_ == nullptr) begin_staged(direction, grant, addr, local);
  if (copying_ == nullptr || !copying_->has_ended()) return Step::kWait;
  const std::shared_ptr<StagedCopy> copy = std::move(copying_);
  *status = outcome_of(copy->answer);
  if (*status != URMA_CR_SUCCESS) return Step::kDone;
  if (direction == Direction::kRead) copy->place->copy(direction, local, copy->bytes);
  *moved = copy->bytes;
  return Step::kDone;
}

// Begins nothing if there is no room; this request goes on when there is some.
void QueuePath::begin_staged(Direction direction, const Grant& grant, uint64_t addr,
                             std::span<const iovec> local) {
  auto copy = std::make_shared<StagedCopy>();
  copy->place = grant.link->staging().take();
  if (copy->place == nullptr) return;
  copy->bytes = static_cast<uint32_t>(std::min<uint64_t>(total(local), kPlaceBytes));
  if (direction == Direction::kWrite) copy->place->copy(direction, local, copy->bytes);
  Request request = {};
  request.type = RequestType::kCopySegment;
  request.copy_segment = {addr,
                          grant.segment.ref.index,
                          grant.segment.ref.generation,
                          copy->place->index(),
                          copy->bytes,
                          static_cast<uint32_t>(direction),
                          0};
  Transport* transport = &sender_->transport();
  transport->service().post([copy, transport, request, link = grant.link] {
    try {
      link->request_copy(request, copy, [transport] { transport->serve_senders(); });
    } catch (const std::exception&) {
      copy->end(Answer::kNoResourcesHere);
      transport->serve_senders();
    }
  });
  copying_ = std::move(copy);
}

// Looked at first: an owner that did not answer is not asked again for a grant.
QueuePath::Step QueuePath::await_staged(urma_cr_status_t* status) {
  if (copying_ == nullptr) return Step::kInFlight;
  if (!copying_->has_ended()) return Step::kWait;
  *status = outcome_of(copying_->answer);
  return *status == URMA_CR_SUCCESS ? Step::kInFlight : Step::kDone;
}

// Memory that a path has gathered itself has no registration.
bool QueuePath::lends_registered(SendEntry* entry) const {
  const SegmentTable& segments = sender_->transport().segments();
  const std::span<LocalPiece> pieces = SendQueue::pieces(entry);
  return std::all_of(pieces.begin(), pieces.end(), [&](const LocalPiece& piece) {
    return piece.len == 0 || piece.ref.generation == 0 || segments.alive(piece.ref);
  });
}

// Adds these bytes of a message of this path; none if their memory does not stand.
void QueuePath::add_lent(SendEntry* entry, uint64_t offset, uint64_t bytes, IovecList* list) {
  if (!lends_registered(entry)) return;
  for (const LocalPiece& piece : SendQueue::pieces(entry)) {
    list->add(piece.addr, piece.len, offset, bytes);
  }
}

void QueuePath::take_back_unregistered() {
  if (opening_ == nullptr) return;
  opening_->ring.take_back_if(
      [&](uint32_t index) { return !lends_registered(&sender_->queue().at(index)); });
}

bool QueuePath::lent(const CopyMessageRequest& asked, IovecList* list) {
  uint32_t index;
  if (opening_ == nullptr || opening_->key != asked.key ||
      !opening_->ring.lent(asked.position, &index)) {
    return false;
  }
  SendEntry* entry = &sender_->queue().at(index);
  if (asked.offset > entry->bytes || asked.bytes > entry->bytes - asked.offset) return false;
  add_lent(entry, asked.offset, asked.bytes, list);
  return true;
}

// Writes parts of a message that the receiver is copying into its memory.
void QueuePath::help_receiver() {
  const PeerProcess& receiver = opening_->link->peer();
  JointHelp help(ring_->joint());
  uint32_t index;
  if (!receiver.may_help.load(std::memory_order_relaxed) || !receiver.reachable() ||
      !ring_->lent(help.position(), &index)) {
    return;
  }
  SendEntry* entry = &sender_->queue().at(index);
  while (const std::optional<JointHelp::Parts> taken = help.take()) {
    const uint64_t skipped = uint64_t{taken->first} * kPartBytes;
    IovecList own;
    if (help.offset() < entry->bytes && skipped < entry->bytes - help.offset()) {
      add_lent(entry, help.offset() + skipped, uint64_t{taken->count} * kPartBytes, &own);
    }
    uint64_t moved;
    const urma_cr_status_t status = sender_->transport().copy(
        Direction::kWrite, receiver, own.list(), help.places(*taken), &moved);
    help.tell(status == URMA_CR_SUCCESS && moved != 0 && moved == own.bytes());
  }
}

}  // namespace urma::shm
