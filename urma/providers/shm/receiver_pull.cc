// SPDX-License-Identifier: MIT
//
// Messages by reference: copied from the sender's buffers into those of a receive.
#include <algorithm>
#include <atomic>
#include <utility>

#include "jetty/failures.h"
#include "jetty/iovecs.h"
#include "urma/providers/shm/direct.h"
#include "urma/providers/shm/receiver.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {

namespace {

// Less is copied by the receiver alone.
constexpr uint64_t kLeastJointBytes = 2 * kPartBytes;

// On the service thread. On any failure, the copy ends.
void ask_for_part(Transport* transport, uint32_t slot, Request request,
                  const std::shared_ptr<StagedCopy>& copy) {
  Answer answer = Answer::kUnreachable;
  try {
    const std::shared_ptr<Link> link = transport->link_to(slot);
    if (link != nullptr) answer = link->ended_with();
    if (link != nullptr && !link->gone()) {
      copy->place = link->staging().take();
      copy->crowded = copy->place == nullptr;
      // The thread that gives a place back calls on_room.
      if (copy->crowded) return copy->end(answer);
      request.copy_message.place = copy->place->index();
      return link->request_copy(request, copy, [transport] { transport->serve_receives(); });
    }
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a message from slot {} cannot be copied: {}", slot, error.what());
    answer = Answer::kNoResources;
  }
  copy->end(answer);
  transport->serve_receives();
}

// Reads where the sender says that the message lies. False if that is not all of it.
bool read_pieces(const IncomingRing& ring, const Message& message, Pull* pull) {
  const uint32_t prefix = prefix_of(message.kind);
  pull->count = (message.payload - prefix) / sizeof(PayloadPiece);
  if (pull->count > pull->pieces.size()) return false;
  ring.copy(message, prefix, pull->pieces.data(), message.payload - prefix);
  uint64_t announced = 0;
  for (uint32_t i = 0; i < pull->count; ++i) {
    if (pull->pieces[i].len > message.length) return false;
    announced += pull->pieces[i].len;
  }
  return announced == message.length;
}

}  // namespace

bool Receiver::begin_pull(IncomingRing* ring, const Message& message) {
  // Kept for the next message.
  if (ring->pull_memory == nullptr) ring->pull_memory = std::make_unique<Pull>();
  Pull* pull = ring->pull_memory.get();
  pull->message = message;
  pull->moved = 0;
  pull->mapped = true;
  pull->invalidation = invalidation_of(*ring, message);
  pull->count = 0;
  pull->ended = false;
  if ((message.flags & kByReference) != 0 && !read_pieces(*ring, message, pull)) return false;
  ring->pull = pull;
  holding_ = ring;
  return true;
}

// Copies the next part of a message by reference. Nothing if it has ended, as `ended` then says.
std::optional<Receiver::Step> Receiver::pull_part(IncomingRing* ring, ReceiveEntry* entry) {
  Pull& pull = *ring->pull;
  urma_cr_status_t& local = pull.local = check(entry, pull.message);
  if (local == URMA_CR_LOC_ACCESS_ERR && pull.landing != nullptr && pull.landing->stands()) {
    local = URMA_CR_SUCCESS;
  }
  urma_cr_status_t& remote = pull.remote = URMA_CR_REM_OPERATION_ERR;
  if (local == URMA_CR_SUCCESS) {
    const uint64_t moved = pull.moved;
    remote = pull_some(ring, &pull, entry);
    if (remote == URMA_CR_REM_DATA_POISON) {
      local = URMA_CR_LOC_DATA_POISON;
    } else if (const auto lent = ring->lent(); lent != RingConsumer::Lent::kStands) {
      // The copied bytes may be others, which the program stored there after the end of its queue,
      // or of its registration.
      if (lent == RingConsumer::Lent::kGone) return end_abandoned(ring);
      ring->pull = nullptr;
      end_parts();
      return Step::kMoved;
    }
    if (remote == URMA_CR_SUCCESS && pull.moved < pull.message.length) {
      return pull.moved == moved ? Step::kBlocked : Step::kMoved;
    }
    if (remote == URMA_CR_SUCCESS && pull.landing != nullptr) {
      if (!pull.landing->landed(&local)) return Step::kBlocked;
      if (local != URMA_CR_SUCCESS) remote = URMA_CR_REM_OPERATION_ERR;
    }
    if (remote == URMA_CR_SUCCESS && pull.message.kind == MessageKind::kSendInvalidate &&
        !invalidate(ring->who(), pull.message, pull.invalidation)) {
      remote = URMA_CR_REM_ACCESS_ABORT_ERR;
    }
  }
  pull.ended = true;
  return std::nullopt;
}

// Finishes it with the last part, once there is room for its record.
Receiver::Step Receiver::go_on(IncomingRing* ring, Poll* poll) {
  if (ring->took_back()) return end_abandoned(ring);
  Pull& pull = *ring->pull;
  ReceiveEntry* entry = posted_.front();
  if (!pull.ended) {
    if (const std::optional<Step> step = pull_part(ring, entry)) return *step;
  }
  const urma_cr_status_t local = pull.local, remote = pull.remote;
  const bool received = local != URMA_CR_SUCCESS || remote == URMA_CR_SUCCESS;
  if (received && !make_record(ring, pull.message, *entry, local, poll)) return Step::kBlocked;
  ring->pull = nullptr;
  end_parts();
  if (pull.count != 0 && pull.moved == pull.message.length) {
    ring->tell(pull.mapped                  ? CopyMethod::kMapped
               : ring->process->reachable() ? CopyMethod::kByKernel
                                            : CopyMethod::kStaged);
  }
  if (!received) {
    // The sender's memory, or its right, failed; nothing was received and the receive stays posted.
    if (remote == URMA_CR_ACK_TIMEOUT_ERR) {
      // Other messages wait for the same receives, and this sender has had its time. A sender that
      // lives finds all of its messages ended, and opens another ring.
      ring->close(URMA_CR_ACK_TIMEOUT_ERR);
      return Step::kFinished;
    }
    URMA_LOG_FAILED(
        "queue {:#x}: a message of {} bytes of id {:#x} is refused: its memory cannot be copied",
        ring->target.id, pull.message.length, ring->sender.id);
    ring->consume(pull.message, remote);
  } else {
    const bool poisoned = local == URMA_CR_LOC_DATA_POISON;
    if (local != URMA_CR_SUCCESS && !poisoned) log_failure(*ring, pull.message, entry, local);
    finish(ring, pull.message, local, static_cast<uint8_t>(remote));
    if (poisoned) {
      URMA_LOG_FAILED(
          "queue {:#x}: process {} does not go on with its part of a message of id {:#x}",
          ring->target.id, ring->process->pid, ring->sender.id);
    }
  }
  return Step::kMoved;
}

// Moves as much as one turn may. If nothing was moved, it can be a moment later.
urma_cr_status_t Receiver::pull_some(IncomingRing* ring, Pull* pull, ReceiveEntry* entry) {
  uint64_t budget = std::min<uint64_t>(pull->message.length - pull->moved, kCopyPerTurn);
  while (budget > 0) {
    uint64_t moved = 0;
    const urma_cr_status_t status = pull_stretch(ring, pull, entry, budget, &moved);
    if (status != URMA_CR_SUCCESS) return status;
    if (moved == 0) break;
    pull->moved += moved;
    budget -= std::min(budget, moved);
  }
  return URMA_CR_SUCCESS;
}

// Moves one mapped stretch, or all up to the end of the turn if the next byte is not mapped.
urma_cr_status_t Receiver::pull_stretch(IncomingRing* ring, Pull* pulled, ReceiveEntry* entry,
                                        uint64_t budget, uint64_t* moved) {
  if (pulled->staged != nullptr) return pull_staged(*ring, pulled, entry, budget, moved);
  const Pull& pull = *pulled;
  uint32_t at = 0;
  uint64_t offset = pull.moved;
  while (offset >= pull.pieces[at].len) offset -= pull.pieces[at++].len;
  const uint64_t rest = std::min(budget, pull.pieces[at].len - offset);
  const SenderMemory::Stretch stretch =
      sender_memory_.find(*ring->process, ring->sender.eid, pull.pieces[at], offset, rest);
  if (stretch.soon) return URMA_CR_SUCCESS;
  if (stretch.mapped != nullptr) {
    const IovecList into = destination(pull, entry, stretch.bytes);
    copy_mapped(Direction::kRead, const_cast<char*>(stretch.mapped), into.list());
    *moved = into.bytes();
    // Else the sender has made its memory private again meanwhile.
    // SYNC(segment-gone): this acquire fence, after the copy, pairs with the release fence in
    // SegmentTable::end_for_peers.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (stretch.grant->stands()) return URMA_CR_SUCCESS;
    *moved = 0;
  }
  pulled->mapped = false;
  const uint64_t bytes = stretch.bytes < rest ? stretch.bytes : budget;
  if (!ring->process->reachable()) return pull_staged(*ring, pulled, entry, bytes, moved);
  const IovecList into = destination(pull, entry, bytes);
  const urma_cr_status_t status =
      worth_help(*ring, pull, into.list())
          ? pull_jointly(ring, pull, into.list().front(), moved)
          : transport_->copy(Direction::kRead, *ring->process, into.list(),
                             source(pull, pull.moved, bytes).list(), moved);
  if (status == URMA_CR_SUCCESS || status == URMA_CR_REM_DATA_POISON ||
      ring->process->reachable()) {
    return status;
  }
  // The kernel has just refused. The other way at once: its end brings about the next turn, and an
  // owner that sleeps has no other.
  return pull_staged(*ring, pulled, entry, bytes, moved);
}

// In parts of one length, but for the last part of the message; and not where pages may be moved
// while another process writes to them.
bool Receiver::worth_help(const IncomingRing& ring, const Pull& pull,
                          std::span<const iovec> into) const {
  if (into.size() != 1 || into.front().iov_len < kLeastJointBytes) return false;
  const uint64_t bytes = into.front().iov_len;
  const bool in_parts = bytes % kPartBytes == 0 || pull.moved + bytes == pull.message.length;
  const SharedPages* pages = transport_->pages();
  return in_parts && ring.process->may_help.load(std::memory_order_relaxed) &&
         pull.landing == nullptr && !transport_->has_opaque() &&
         (pages == nullptr || !pages->may_move());
}

// URMA_CR_REM_DATA_POISON if something may still be written there.
urma_cr_status_t Receiver::pull_jointly(IncomingRing* ring, const Pull& pull, iovec to,
                                        uint64_t* moved) {
  JointTurn turn(ring->joint(), ring->process.get(), ++ring->joint_turns, ring->position(),
                 pull.moved, to);
  const auto copy = [&](const JointTurn::Window& part) URMA_NO_THREAD_SAFETY_ANALYSIS {
    return pull_alone(*ring, pull, pull.moved + part.offset,
                      {static_cast<char*>(to.iov_base) + part.offset, part.bytes});
  };
  urma_cr_status_t status = URMA_CR_SUCCESS;
  std::optional<JointTurn::Window> part;
  while (status == URMA_CR_SUCCESS && (part = turn.take())) status = copy(*part);
  if (turn.end() == JointTurn::End::kStuck) return URMA_CR_REM_DATA_POISON;
  if (status == URMA_CR_SUCCESS) status = copy(turn.unwritten());
  if (status == URMA_CR_SUCCESS) *moved = to.iov_len;
  return status;
}

// Moves all of `to`.
urma_cr_status_t Receiver::pull_alone(const IncomingRing& ring, const Pull& pull, uint64_t offset,
                                      iovec to) {
  while (to.iov_len != 0) {
    uint64_t moved = 0;
    const urma_cr_status_t status = transport_->copy(
        Direction::kRead, *ring.process, {&to, 1}, source(pull, offset, to.iov_len).list(), &moved);
    if (status != URMA_CR_SUCCESS) return status;
    offset += moved;
    to = {static_cast<char*>(to.iov_base) + moved, to.iov_len - moved};
  }
  return URMA_CR_SUCCESS;
}

// A copy that was asked for before has another length than the turn.
urma_cr_status_t Receiver::pull_staged(const IncomingRing& ring, Pull* pull, ReceiveEntry* entry,
                                       uint64_t budget, uint64_t* moved) {
  if (pull->staged == nullptr) {
    pull->staged = ask_sender(ring, pull->moved, std::min<uint64_t>(budget, kPlaceBytes));
  }
  if (!pull->staged->has_ended()) return URMA_CR_SUCCESS;
  const std::shared_ptr<StagedCopy> copy = std::move(pull->staged);
  if (copy->crowded) return URMA_CR_SUCCESS;
  if (copy->answer != Answer::kAccepted) return status_of(copy->answer);
  const IovecList into = destination(*pull, entry, copy->bytes);
  copy->place->copy(Direction::kRead, into.list(), copy->bytes);
  *moved = copy->bytes;
  return URMA_CR_SUCCESS;
}

// Asks for a part of the first message of the ring.
std::shared_ptr<StagedCopy> Receiver::ask_sender(const IncomingRing& ring, uint64_t offset,
                                                 uint64_t bytes) const {
  auto copy = std::make_shared<StagedCopy>();
  copy->bytes = static_cast<uint32_t>(bytes);
  Request request = {};
  request.type = RequestType::kCopyMessage;
  request.copy_message = {ring.key, ring.position(), ring.sender.id,
                          0,        copy->bytes,     static_cast<uint32_t>(offset)};
  transport_->service().post([copy, request, transport = transport_, slot = ring.process->slot] {
    ask_for_part(transport, slot, request, copy);
  });
  return copy;
}

// Where `bytes` bytes of the message lie.
IovecList Receiver::source(const Pull& pull, uint64_t offset, uint64_t bytes) {
  IovecList from;
  for (uint32_t i = 0; i < pull.count; ++i) {
    from.add(pull.pieces[i].addr, pull.pieces[i].len, offset, bytes);
  }
  return from;
}

// Where the next `bytes` bytes of the message go.
IovecList Receiver::destination(const Pull& pull, ReceiveEntry* entry, uint64_t bytes) {
  IovecList into;
  if (pull.landing != nullptr) {
    into.add(reinterpret_cast<uint64_t>(pull.landing->data()), pull.message.length, pull.moved,
             bytes);
    return into;
  }
  for (const LocalPiece& piece : ReceiveQueue::pieces(entry)) {
    into.add(piece.addr, piece.len, pull.moved, bytes);
  }
  return into;
}

}  // namespace urma::shm
