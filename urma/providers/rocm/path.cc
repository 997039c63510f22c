// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/path.h"

#include <algorithm>
#include <cstring>

#include "jetty/iovecs.h"
#include "urma/providers/rocm/landing.h"
#include "urma/providers/rocm/transport.h"
#include "urma/providers/shm/sender.h"

namespace urma::rocm {

Path::Path(shm::Sender* sender, RemoteQueue* target, uint32_t hint)
    : QueuePath(sender, target, hint),
      engine_(static_cast<Transport&>(sender->transport()).copies()),
      jfc_(static_cast<const CompletionQueue*>(sender->config().jfc)) {}

bool Path::advance() {
  reap_copies();
  return QueuePath::advance();
}

// Copies of reads and writes in progress end by themselves, and say how.
void Path::next_begins() {
  current_.copy.reset();
  current_ = {};
  QueuePath::next_begins();
}

// From the front on: the queue gives its records out in post order anyway, so nothing is lost by
// not looking past the first one that has not ended.
void Path::reap_copies() {
  urma_cr_status_t status;
  while (!copies_.empty() && copies_.front().copy->ended(&status)) {
    SendEntry* const entry = copies_.front().entry;
    copies_.pop_front();
    sender()->queue().complete(entry, status);
  }
  if (!copies_.empty()) wake_when_ended(copies_.front().copy.get());
}

// A program that polls finds out by itself.
void Path::wake_when_ended(Copy* copy) {
  if (jfc_->armed()) copy->wake_when_ended();
}

Path::Step Path::execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  const bool side_by_side =
      !entry->strong && (entry->kind == OpKind::kWrite || entry->kind == OpKind::kRead);
  if (!side_by_side && !copies_.empty()) return Step::kWait;
  return QueuePath::execute(entry, budget, status);
}

Path::Local Path::local_memory(SendEntry* entry) {
  const SegmentTable& segments = sender()->transport().segments();
  Local found = Local::kHost;
  for (const LocalPiece& piece : SendQueue::pieces(entry)) {
    if (piece.len == 0) continue;
    if (piece.valid && segments.alive(piece.ref)) continue;
    if (!is_device_memory(segments, piece)) {
      because("{}", why_piece_fails(segments, piece));
      return Local::kNone;
    }
    found = Local::kDevice;
  }
  return found;
}

// Pairs `bytes` bytes of the local side, after the first `skip`, with as many at `other`.
void Path::collect_pieces(SendEntry* entry, uint64_t skip, uint64_t bytes, char* other,
                          bool from_local) {
  const IovecList local = local_pieces(entry, skip, bytes);
  pieces_.clear();
  for (const iovec& piece : local.list()) {
    char* const here = static_cast<char*>(piece.iov_base);
    pieces_.push_back(from_local ? CopyPiece{other, here, piece.iov_len}
                                 : CopyPiece{here, other, piece.iov_len});
    other += piece.iov_len;
  }
}

Path::Step Path::transfer(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  const Local local = local_memory(entry);
  if (local == Local::kNone) {
    *status = URMA_CR_LOC_ACCESS_ERR;
    return Step::kDone;
  }
  const Step awaited = await_staged(status);
  if (awaited != Step::kInFlight) return awaited;
  const shm::Grant* grant;
  const Step allowed = authorize(&sender()->implicit_imports(), entry, &grant, status);
  if (allowed != Step::kInFlight) return allowed;
  if (grant->is_opaque) {
    *status = grant->attach_status;
    if (!grant->attached) return Step::kDone;
    return transfer_to_device(entry, *grant->attached, entry->remote_addr - grant->segment.base,
                              status);
  }
  return local == Local::kHost ? QueuePath::transfer(entry, budget, status)
                               : transfer_by_buffer(entry, *grant, budget, status);
}

// Directly between memory of this process and attached memory.
Path::Step Path::transfer_to_device(SendEntry* entry, const shm::OpaqueView& view, uint64_t offset,
                                    urma_cr_status_t* status) {
  *status = URMA_CR_SUCCESS;
  if (entry->moved == entry->bytes) return Step::kDone;
  const bool side_by_side = entry->kind == OpKind::kWrite || entry->kind == OpKind::kRead;
  if (current_.copy == nullptr) {
    collect_pieces(entry, 0, entry->bytes, view.start + offset, entry->kind != OpKind::kRead);
    if (!side_by_side) {
      current_.copy = engine_->begin(pieces_);
    } else {
      auto copy = engine_->begin(pieces_);
      if (copy->ended(status)) return Step::kDone;
      wake_when_ended(copy.get());
      copies_.push_back({entry, std::move(copy)});
      return Step::kInFlight;
    }
  }
  const Step step = await_current(status);
  if (step == Step::kDone) entry->moved = entry->bytes;
  return step;
}

// kDone once it has ended; then there is none.
Path::Step Path::await_current(urma_cr_status_t* status) {
  if (!current_.copy->ended(status)) {
    wake_when_ended(current_.copy.get());
    return Step::kWait;
  }
  current_.copy.reset();
  return Step::kDone;
}

// Between memory of a device here and ordinary memory of the target: the engine reaches only this
// process's end.
Path::Step Path::transfer_by_buffer(SendEntry* entry, const shm::Grant& grant, uint64_t* budget,
                                    urma_cr_status_t* status) {
  const bool read = entry->kind == OpKind::kRead;
  while (entry->moved < entry->bytes) {
    const bool gathered = !read && is_staging();
    if (current_.copy == nullptr && !gathered) {
      if (*budget == 0) return Step::kWait;
      current_.bytes = std::min(entry->bytes - entry->moved, kCopyPerTurn);
      if (current_.buffer == nullptr) current_.buffer = engine_->buffer(current_.bytes);
      if (read) {
        const Step moved =
            transfer_some(entry, grant, current_.buffer->data(), &current_.bytes, status);
        if (moved != Step::kDone || *status != URMA_CR_SUCCESS) return moved;
      }
      collect_pieces(entry, entry->moved, current_.bytes, current_.buffer->data(), !read);
      // Pieces that a turn has no room for are left to the next.
      current_.bytes = 0;
      for (const CopyPiece& piece : pieces_) current_.bytes += piece.bytes;
      current_.copy = engine_->begin(pieces_);
    }
    Step step = gathered ? Step::kDone : await_current(status);
    if (step != Step::kDone || *status != URMA_CR_SUCCESS) return step;
    uint64_t moved = current_.bytes;
    if (!read) step = transfer_some(entry, grant, current_.buffer->data(), &moved, status);
    if (step != Step::kDone || *status != URMA_CR_SUCCESS) return step;
    entry->moved += moved;
    *budget -= std::min(*budget, moved);
  }
  return Step::kDone;
}

// Atomics of the CPU are atomic in host memory only, not over a bus.
Path::Step Path::atomic(SendEntry* entry, urma_cr_status_t* status) {
  const bool write = entry->kind == OpKind::kWriteAtomic;
  if (awaits_atomic()) return QueuePath::atomic(entry, status);
  *status = URMA_CR_LOC_ACCESS_ERR;
  if (local_memory(entry) != Local::kHost) return Step::kDone;
  const shm::Grant* grant;
  const Step allowed = authorize(&sender()->implicit_imports(), entry, &grant, status);
  if (allowed != Step::kInFlight) return allowed;
  if (!grant->is_opaque) return QueuePath::atomic(entry, status);
  *status = grant->attach_status;
  if (!grant->attached) return Step::kDone;
  *status = URMA_CR_REM_UNSUPPORTED_REQ_ERR;
  if (!grant->attached->is_host_memory || entry->remote_addr % entry->bytes != 0) {
    because("address {:#x} is not a multiple of {}, or not memory of the host", entry->remote_addr,
            entry->bytes);
    return Step::kDone;
  }
  if (write) collect(entry, entry->operand);
  execute_at(entry, grant->attached->start + (entry->remote_addr - grant->segment.base));
  *status = URMA_CR_SUCCESS;
  return Step::kDone;
}

Path::Step Path::write_value(const shm::Grant& grant, uint64_t addr, uint64_t value,
                             urma_cr_status_t* status) {
  if (!grant.is_opaque) return QueuePath::write_value(grant, addr, value, status);
  *status = grant.attach_status;
  if (!grant.attached) return Step::kDone;
  *status = URMA_CR_SUCCESS;
  char* const word = grant.attached->start + (addr - grant.segment.base);
  if (grant.attached->is_host_memory) {
    // A reader that sees the value sees all data: the copies before it have ended, and their end
    // was loaded with acquire.
    if (addr % sizeof(value) == 0) {
      write_whole(word, &value, sizeof(value));
    } else {
      std::memcpy(word, &value, sizeof(value));
    }
    return Step::kDone;
  }
  if (current_.copy == nullptr) {
    current_.buffer = engine_->buffer(sizeof(value));
    std::memcpy(current_.buffer->data(), &value, sizeof(value));
    const CopyPiece piece = {word, current_.buffer->data(), sizeof(value)};
    current_.copy = engine_->begin({&piece, 1});
  }
  return await_current(status);
}

// A message out of memory of a device is gathered in host memory, where its receiver may take it.
Path::Step Path::send(SendEntry* entry, urma_cr_status_t* status) {
  if (!current_.staged && current_.copy == nullptr) {
    const Local local = local_memory(entry);
    if (local == Local::kHost) return QueuePath::send(entry, status);
    *status = URMA_CR_LOC_ACCESS_ERR;
    if (local == Local::kNone) return Step::kDone;
  }
  const Step opened = open_ring(status);
  if (opened != Step::kInFlight) return opened;
  if (!current_.staged) {
    if (current_.copy == nullptr) {
      current_.buffer = engine_->buffer(entry->bytes);
      collect_pieces(entry, 0, entry->bytes, current_.buffer->data(), true);
      current_.copy = engine_->begin(pieces_);
    }
    const Step gathered = await_current(status);
    if (gathered != Step::kDone || *status != URMA_CR_SUCCESS) return gathered;
    current_.staged = true;
    entry->pieces = 1;
    SendQueue::pieces(entry)[0] = {reinterpret_cast<uint64_t>(current_.buffer->data()),
                                   static_cast<uint32_t>(entry->bytes),
                                   true,
                                   {},
                                   0};
  }
  if (!publish(entry)) return Step::kWait;
  std::erase_if(staged_, [](const Staged& old) { return old.entry->state == SendState::kDone; });
  staged_.push_back({entry, std::move(current_.buffer)});
  return Step::kInFlight;
}

}  // namespace urma::rocm
