// SPDX-License-Identifier: MIT
#include "jetty/wire_path.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "urma/base/log.h"

namespace urma {
namespace {

// Cookies from here on are not of entries, but of accesses that the first request waits for.
constexpr uint32_t kFirstPart = 1U << 31;

}  // namespace

bool WirePath::advance_way() {
  more = false;
  const bool posting = half_->posting;
  reap();
  if (!posting && outstanding != 0) {
    if (half_->has_alternative) {
      wire().progress_beside_others();
    } else {
      wire().progress();
    }
    reap();
  }
  const bool pending = !idle();
  const bool waiting = pending && execute_pending();
  if (pending && !posting) push();
  // What a wire does at once has already ended.
  reap();
  return waiting;
}

void WirePath::flush() {
  reap();
  // Requests that wait for a peer that has gone end like those in flight.
  if (way_ != nullptr && way_->lost()) note_waiting();
  if (!idle() && way_ != nullptr) way_->let_go();
  SendQueue& queue = sender()->queue();
  while (!idle()) {
    const bool lost = queue.posted_before(first()) < lost_until_;
    queue.complete(take_next(), lost ? outcome(URMA_CR_ACK_TIMEOUT_ERR) : URMA_CR_WR_FLUSH_ERR);
  }
  if (way_ == nullptr) return;
  flushing_ = true;
  if (!std::exchange(closing_, true)) way_->close();
  reap();
}

void WirePath::give_up_first() {
  if (way_ != nullptr) way_->let_go();
  RequestPath::give_up_first();
}

void WirePath::reap() {
  if (way_ == nullptr || way_->quiet()) return;
  WireReport report;
  while (way_->reap(&report)) take_report(report);
  if (!way_->ended()) return;
  const bool lost = way_->lost();
  lost_until_ = 0;
  if (lost) note_waiting();
  // What nobody has tried to send may find its target again.
  if (lost && (message_lost_ || half_->has_alternative)) note_loss();
  way_.reset();
  closing_ = flushing_ = message_lost_ = false;
}

// A request that is just being posted has not waited.
uint64_t WirePath::waited() const { return sender()->queue().posted() - (half_->posting ? 1 : 0); }

// What was posted after a flush has not waited for the way that ends with it.
void WirePath::note_waiting() {
  if (!flushing_) lost_until_ = waited();
}

// Whatever waits for the target ends with it, not each after a search of its own.
void WirePath::note_loss() {
  if (half_->has_alternative) return give_up_target();
  lose_target(waited());
}

void WirePath::take_report(const WireReport& report) {
  urma_cr_status_t status = report.status;
  const bool part = report.cookie >= kFirstPart;
  // For a request that was given up meanwhile.
  if (part && (!part_.under_way || report.cookie != part_.cookie)) return;
  SendEntry* entry = part ? first() : &sender()->queue().at(report.cookie);
  if (status == URMA_CR_ACK_TIMEOUT_ERR) {
    message_lost_ |= entry->kind == OpKind::kSend || entry->kind == OpKind::kWriteImm;
    note_refusal();
  }
  if (status == URMA_CR_SUCCESS) {
    status = place(entry, part ? part_.bytes : entry->bytes - entry->moved, report);
  }
  if (part) {
    part_.under_way = false;
    part_.status = status;
    return;
  }
  --in_flight_;
  // A request that is being flushed ends as flushed, however its target ends.
  if (flushing_ && status != URMA_CR_SUCCESS) status = URMA_CR_WR_FLUSH_ERR;
  sender()->queue().complete(entry, outcome(status));
}

// The bytes that a request has fetched, `expected` of them, go to its own memory.
urma_cr_status_t WirePath::place(SendEntry* entry, uint64_t expected, const WireReport& report) {
  const std::span<const char> bytes = report.bytes;
  const bool fetches = entry->kind == OpKind::kRead || entry->kind == OpKind::kAtomic;
  const uint64_t come = bytes.size() + report.placed;
  if (come != (fetches ? expected : 0)) {
    because("its owner has answered with {} bytes", come);
    return URMA_CR_REM_RESP_LEN_ERR;
  }
  if (!fetches) return URMA_CR_SUCCESS;
  urma_cr_status_t status = URMA_CR_SUCCESS;
  if (!local_memory_stands(entry, &status)) return status;
  const char* from = bytes.data();
  const IovecList into = local_pieces(entry, entry->moved, bytes.size());
  for (const iovec& piece : into.list()) {
    std::memcpy(piece.iov_base, from, piece.iov_len);
    from += piece.iov_len;
  }
  return URMA_CR_SUCCESS;
}

Way& WirePath::way() {
  if (way_ == nullptr) {
    opened_ = false;
    const urma_jfs_cfg_t& cfg = sender()->config();
    const ProbeTarget asked = {target()->id.eid, target()->id.id,
                               static_cast<uint32_t>(target()->type),
                               static_cast<uint32_t>(cfg.trans_mode), target()->token.token};
    way_ = wire().make_way({asked, sender()->id(), cfg.rnr_retry, hint()},
                           *static_cast<const CompletionQueue*>(cfg.jfc));
  }
  return *way_;
}

RequestPath::Step WirePath::authorize(SendEntry* entry, const WireGrant** grant,
                                      urma_cr_status_t* status) {
  return RequestPath::authorize(&half_->implicit_imports, entry, grant, status);
}

void WirePath::look_up(SendEntry* entry) {
  half_->implicit_imports.look_up(entry, target()->id.eid);
}

void WirePath::next_begins() {
  part_ = {};
  // However the first request ends, nothing more of it is sent.
  if (way_ != nullptr && !idle()) way_->take_back(sender()->queue().index_of(first()));
}

// A way keeps messages in order, and executes accesses before those that follow them.
bool WirePath::placed_before(const SendEntry& entry) {
  return entry.kind == OpKind::kSend || in_flight_ == 0;
}

RequestPath::Step WirePath::await_part(SendEntry* entry, urma_cr_status_t* status) {
  if (part_.bytes == 0) return Step::kInFlight;
  reap();
  if (part_.under_way) return Step::kWait;
  *status = part_.status;
  entry->moved += part_.bytes;
  part_ = {};
  return *status == URMA_CR_SUCCESS ? Step::kInFlight : Step::kDone;
}

bool WirePath::begin(const WireGrant& grant, const WireAccess& access, uint32_t cookie) {
  return !closing_ && way().access(grant, access, cookie);
}

// Its last access, or its message, is in flight.
RequestPath::Step WirePath::launched() {
  ++in_flight_;
  return Step::kInFlight;
}

RequestPath::Step WirePath::move(SendEntry* entry, bool something_follows, uint64_t* budget,
                                 urma_cr_status_t* status) {
  const bool read = entry->kind == OpKind::kRead;
  for (;;) {
    const Step awaited = await_part(entry, status);
    if (awaited != Step::kInFlight) return awaited;
    if (!local_memory_stands(entry, status)) return Step::kDone;
    const WireGrant* grant;
    const Step allowed = authorize(entry, &grant, status);
    if (allowed != Step::kInFlight) return allowed;
    const uint64_t bytes = std::min(entry->bytes - entry->moved, kCopyPerTurn);
    if (bytes == 0) return Step::kDone;
    if (*budget == 0) return Step::kWait;
    const IovecList local = local_pieces(entry, entry->moved, bytes);
    const WireAccess access = {read ? OpKind::kRead : OpKind::kWrite,
                               entry->opcode,
                               entry->remote_addr + entry->moved,
                               local.bytes(),
                               {},
                               local.list()};
    const bool last = !something_follows && entry->moved + local.bytes() == entry->bytes;
    const uint32_t cookie =
        last ? sender()->queue().index_of(entry) : kFirstPart | next_part_++ % kFirstPart;
    if (!begin(*grant, access, cookie)) return Step::kWait;
    *budget -= std::min(*budget, local.bytes());
    if (last) return launched();
    part_ = {cookie, local.bytes(), true, URMA_CR_SUCCESS};
  }
}

RequestPath::Step WirePath::transfer(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  return move(entry, /*something_follows=*/false, budget, status);
}

RequestPath::Step WirePath::atomic(SendEntry* entry, urma_cr_status_t* status) {
  const bool write = entry->kind == OpKind::kWriteAtomic;
  if (!local_memory_stands(entry, status)) return Step::kDone;
  const WireGrant* grant;
  const Step allowed = authorize(entry, &grant, status);
  if (allowed != Step::kInFlight) return allowed;
  if (!aligned(*entry, status)) return Step::kDone;
  if (write) collect(entry, entry->operand);
  WireAccess access = {entry->kind, entry->opcode, entry->remote_addr, entry->bytes, {}, {}};
  std::copy(std::begin(entry->operand), std::end(entry->operand), access.operand);
  if (!begin(*grant, access, sender()->queue().index_of(entry))) return Step::kWait;
  return launched();
}

// kInFlight once the owner of the target takes messages of this queue.
RequestPath::Step WirePath::open(urma_cr_status_t* status) {
  if (closing_) return Step::kWait;
  uint32_t members = 0;
  const std::optional<Answer> answer = way().opened(&members);
  if (!answer.has_value()) return Step::kWait;
  if (*answer == Answer::kAccepted) {
    lost_until_ = 0;
    if (std::exchange(opened_, true)) return Step::kInFlight;
    // Only once: a later number may be smaller than others have learned. Relaxed: a number.
    target()->members.store(std::min<uint32_t>(members, URMA_MAX_JETTY_IN_JETTY_GRP),
                            std::memory_order_relaxed);
    return Step::kInFlight;
  }
  URMA_LOG_LIMITED(WARNING, "queue {:#x} cannot send to {} {:#x}: {}", sender()->id().id,
                   target_name(target()->type), target()->id.id, answer_text(*answer));
  *status = outcome_of(*answer);
  *answer == Answer::kUnreachable ? note_loss() : note_refusal();
  // The next request asks anew; those in flight are reported before.
  way_->close();
  closing_ = true;
  reap();
  return Step::kDone;
}

RequestPath::Step WirePath::send_message(SendEntry* entry, MessageKind kind,
                                         std::span<const iovec> payload) {
  uint8_t flags = entry->signalled ? kWantsAnswer : 0;
  if (entry->solicited) flags |= kSolicited;
  const Outgoing message = {kind, flags, static_cast<uint32_t>(entry->bytes), entry->operand[0],
                            payload};
  if (!way().send(message, sender()->queue().index_of(entry))) return Step::kWait;
  return launched();
}

RequestPath::Step WirePath::send(SendEntry* entry, urma_cr_status_t* status) {
  if (!local_memory_stands(entry, status)) return Step::kDone;
  const Step opened = open(status);
  if (opened != Step::kInFlight) return opened;
  const MessageKind kind = kind_of_send(entry->opcode);
  IovecList payload;
  Invalidation invalidation;
  if (kind == MessageKind::kSendInvalidate) {
    invalidation = entry->remote->invalidation();
    payload.add(reinterpret_cast<uint64_t>(&invalidation), sizeof(invalidation), 0, UINT64_MAX);
  }
  const IovecList own = local_pieces(entry, /*skip=*/0, entry->bytes);
  for (const iovec& piece : own.list()) {
    payload.add(reinterpret_cast<uint64_t>(piece.iov_base), piece.iov_len, 0, UINT64_MAX);
  }
  return send_message(entry, kind, payload.list());
}

// The message follows after the data was written, or not at all.
RequestPath::Step WirePath::write_imm(SendEntry* entry, uint64_t* budget,
                                      urma_cr_status_t* status) {
  const Step opened = open(status);
  if (opened != Step::kInFlight) return opened;
  const Step written = move(entry, /*something_follows=*/true, budget, status);
  if (written != Step::kDone || *status != URMA_CR_SUCCESS) return written;
  // The way may have ended meanwhile.
  const Step still = open(status);
  return still == Step::kInFlight ? send_message(entry, MessageKind::kWriteImm, {}) : still;
}

RequestPath::Step WirePath::write_notify(SendEntry* entry, uint64_t* budget,
                                         urma_cr_status_t* status) {
  // First, so that nothing is written if nobody could be notified.
  const WireGrant* grant;
  const Step allowed = authorize_notified(&half_->implicit_imports, entry, &grant, status);
  if (allowed != Step::kInFlight) return allowed;
  const Step written = move(entry, /*something_follows=*/true, budget, status);
  if (written != Step::kDone || *status != URMA_CR_SUCCESS) return written;
  const bool whole = entry->notified_addr % sizeof(uint64_t) == 0;
  const iovec local = {&entry->operand[0], sizeof(uint64_t)};
  const WireAccess access = {whole ? OpKind::kWriteAtomic : OpKind::kWrite,
                             static_cast<uint16_t>(whole ? URMA_OPC_WRITE_ATOMIC : URMA_OPC_WRITE),
                             entry->notified_addr,
                             sizeof(uint64_t),
                             {entry->operand[0]},
                             {&local, 1}};
  if (!begin(*grant, access, sender()->queue().index_of(entry))) return Step::kWait;
  return launched();
}

}  // namespace urma
