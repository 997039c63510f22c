// SPDX-License-Identifier: MIT
#include "jetty/wire_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "jetty/faulty.h"
#include "jetty/iovecs.h"
#include "jetty/memory_access.h"
#include "jetty/process_barrier.h"
#include "jetty/wire_path.h"
#include "urma/base/log.h"

namespace urma {
namespace {

// Whether a peer asks for something that a request of this library could be.
bool sound(const WireAccess& access) {
  if (access.bytes == 0 || access.bytes > kCopyPerTurn) return false;
  if (access.kind == OpKind::kAtomic || access.kind == OpKind::kWriteAtomic) {
    const bool writes = access.opcode == URMA_OPC_WRITE_ATOMIC;
    return writes == (access.kind == OpKind::kWriteAtomic) &&
           valid_width(access.opcode, access.bytes) && access.addr % access.bytes == 0;
  }
  return access.kind == OpKind::kRead ||
         (access.kind == OpKind::kWrite && total(access.local) == access.bytes);
}

// On memory that is registered, and backed.
void execute_here(const WireAccess& access, std::vector<char>* bytes) {
  char* own = reinterpret_cast<char*>(access.addr);
  if (access.kind == OpKind::kRead) {
    bytes->assign(own, own + access.bytes);
  } else if (access.kind == OpKind::kWrite) {
    for (const iovec& piece : access.local) {
      copy_in_order(own, static_cast<const char*>(piece.iov_base), piece.iov_len);
      own += piece.iov_len;
    }
  } else {
    uint64_t before[2];
    execute_wide(access.opcode, own, static_cast<uint32_t>(access.bytes), access.operand, before);
    if (access.kind == OpKind::kWriteAtomic) return;
    bytes->resize(access.bytes);
    std::memcpy(bytes->data(), before, access.bytes);
  }
}

}  // namespace

// -------------------------------------------------------------------------------------------------
// Imported segments
// -------------------------------------------------------------------------------------------------

WireSegment::WireSegment(WireTransport* engine, urma_context_t* ctx, const urma_seg_t& imported,
                         urma_token_t token)
    : GrantedSegment(engine, imported, token), engine_(engine) {
  enter_list(ctx);
}

void WireSegment::ask_owner(const Wanted& wanted) {
  try {
    engine_->wire().ask_grant(
        {seg.ubva.eid, seg.token_id, token().token, wanted},
        [this, wanted](Answer answer, const WireGrant& given) { finish(wanted, answer, given); });
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "asking for token id {:#x}: {}", seg.token_id, error.what());
    finish(wanted, Answer::kNoResources, {});
  }
}

void WireSegment::finish(const Wanted& wanted, Answer answer, WireGrant given) {
  if (answer == Answer::kAccepted && !possible(given.segment)) answer = Answer::kMalformed;
  {
    const MutexLock lock(mutex_);
    const WireGrant* before = grant();
    // An answer that says nothing new needs no new place.
    const bool known = before != nullptr && before->owner == given.owner &&
                       before->segment.says_the_same(given.segment);
    if (answer == Answer::kAccepted && !known) {
      given.wanted = wanted;
      publish(std::make_unique<const WireGrant>(std::move(given)));
    } else if (answer != Answer::kAccepted) {
      URMA_LOG_LIMITED(WARNING, "segment at va {:#x} of token id {:#x} cannot be used: {}",
                       wanted.va, seg.token_id, answer_text(answer));
    }
    attempt_ended(answer, status_of(answer));
  }
  engine_->serve_senders();
  drop_ref();
}

// -------------------------------------------------------------------------------------------------
// Queues
// -------------------------------------------------------------------------------------------------

WireSender::WireSender(WireTransport* engine, const urma_jfs_cfg_t& cfg,
                       const QueueIdentity& identity, const urma_jetty_id_t& id)
    : Sender(engine, cfg, identity, id, engine->max_message()),
      engine_(engine),
      implicit_imports_([engine](const urma_seg_t& described, urma_token_t token) {
        return ImportRef<WireSegment>(new WireSegment(engine, /*ctx=*/nullptr, described, token));
      }) {}

Wire& WireSender::wire() { return engine_->wire(); }

std::unique_ptr<TargetPath> WireSender::make_path(RemoteQueue* target, uint32_t hint) {
  return std::make_unique<WirePath>(this, target, hint);
}

bool WireSender::has_path(const TargetPath* path) const {
  return std::any_of(paths().begin(), paths().end(),
                     [=](const auto& other) { return other.get() == path; });
}

// Requests to one target leave together.
urma_status_t WireSender::post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  OwnerScope scope(lock());
  posting_ = true;
  TargetPath* last = nullptr;
  urma_status_t status = URMA_SUCCESS;
  for (; wr != nullptr && status == URMA_SUCCESS; wr = wr->next) {
    TargetPath* path = nullptr;
    status = take_in(*wr, &path);
    // A path without requests may have made room for another.
    if (last != path && !has_path(last)) last = nullptr;
    if (last != nullptr && path != last) static_cast<WirePath*>(last)->push();
    if (path != nullptr) last = path;
    if (path != nullptr) go_on(path);
    if (status == URMA_SUCCESS) {
      queue().count_post();
    } else {
      queue().count_refused();
      *bad_wr = wr;
    }
  }
  if (last != nullptr) static_cast<WirePath*>(last)->push();
  posting_ = false;
  return status;
}

WireReceiver::WireReceiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity,
                           EventSubject* subject, WireTransport* engine, SegmentTable* segments)
    : ReceiveEngine(cfg, identity, subject, engine, segments), wire_(&engine->wire()) {}

int WireReceiver::collect(CompletionQueue* poller, int count, urma_cr_t* cr) {
  wire_->progress();
  return ReceiveEngine::collect(poller, count, cr);
}

bool WireReceiver::move_for(CompletionQueue* waiter, bool just_armed) {
  wire_->progress();
  if (just_armed) wire_->asleep();
  return ReceiveEngine::move_for(waiter, just_armed);
}

std::optional<WireReceiver::Step> WireReceiver::begin_parts(WireIncoming* way,
                                                            const Message& message,
                                                            ReceiveEntry* entry,
                                                            urma_cr_status_t local,
                                                            Poll* /*poll*/) {
  if (!is_announced(message) || local != URMA_CR_SUCCESS) return std::nullopt;
  holding_ = way;
  way->begin_parts(ReceiveQueue::pieces(entry));
  return Step::kMoved;
}

WireReceiver::Step WireReceiver::go_on(WireIncoming* way, Poll* poll) {
  Message message;
  const auto landing = way->landed();
  if (way->peek(&message) != Peek::kMessage) return end_abandoned(way);
  if (landing == WireIncoming::Landing::kComing) {
    // Acquire pairs with the release in IncomingWay::abandon.
    return way->abandoned.load(std::memory_order_acquire) ? end_abandoned(way) : Step::kBlocked;
  }
  ReceiveEntry* entry = posted_.front();
  end_parts();
  const bool whole = landing == WireIncoming::Landing::kWhole;
  const urma_cr_status_t local = whole ? check(entry, message) : URMA_CR_LOC_ACCESS_ERR;
  if (local != URMA_CR_SUCCESS) {
    log_failure(*way, message, entry, local);
  } else if (message.kind == MessageKind::kSendInvalidate &&
             !invalidate(way->who(), message, invalidation_of(*way, message))) {
    way->consume(message, URMA_CR_REM_ACCESS_ABORT_ERR);
    return Step::kMoved;
  }
  finish(way, message, entry, local, static_cast<uint8_t>(remote_status(local)), poll);
  return Step::kMoved;
}

void WireReceiver::end_parts() {
  if (holding_ != nullptr) holding_->end_parts();
  holding_ = nullptr;
}

// -------------------------------------------------------------------------------------------------
// The device
// -------------------------------------------------------------------------------------------------

void WireTransport::add_post_ops(urma_ops_t* ops) {
  if (faults() != nullptr) {
    add_faulty_post_ops<WireSender, WirePath, WireReceiver>(ops);
  } else {
    urma::add_post_ops<WireSender, WireReceiver>(ops);
  }
}

WireTransport::WireTransport(const urma_host& host, Wire* wire, uint64_t max_message)
    : DirectoryTransport(host, Faults::parse(host.settings->text("URMA_FAULT"))),
      wire_(wire),
      names_(wire->names()),
      max_message_(max_message) {
  enter_process_barrier();
  wire_->start(this);
}

void WireTransport::stop() {
  if (stopped()) return;
  service().run([this] {
    end_service();
    wire_->stop();
  });
  // What was posted while that ran is done before anything it refers to goes.
  service().run([this] { cancel_timers(); });
}

Answer WireTransport::accept(const WayRequest& asked, const std::shared_ptr<WireIncoming>& way,
                             uint32_t* members) {
  if (asked.type > URMA_JETTY_GROUP || asked.sender.id > kMaxChosenId) return Answer::kMalformed;
  try {
    return admit(asked, members, [&](const Endpoint& endpoint) {
      auto* receiver = static_cast<WireReceiver*>(endpoint.receiver);
      receiver->describe(endpoint, asked, way.get());
      return receiver->add_way(way);
    });
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a way to id {:#x} is refused: {}", asked.id, error.what());
    return Answer::kNoResources;
  }
}

urma_cr_status_t WireTransport::execute(const PeerGrants& grants, SegmentRef segment,
                                        const WireAccess& access, std::vector<char>* bytes) {
  if (!sound(access)) return URMA_CR_REM_UNSUPPORTED_REQ_ERR;
  urma_cr_status_t status = URMA_CR_REM_ACCESS_ABORT_ERR;
  if (!grants.has(segment)) return status;
  segments().with_grant(segment, access.addr, access.bytes, right_of(access.kind), [&] {
    if (!populate(access.addr, access.bytes, access.kind != OpKind::kRead)) return;
    execute_here(access, bytes);
    status = URMA_CR_SUCCESS;
  });
  return status;
}

urma_cr_status_t WireTransport::execute_with(const PeerGrants& grants, SegmentRef segment,
                                             OpKind kind, uint64_t addr, uint64_t bytes,
                                             const std::function<void(void*)>& move) {
  urma_cr_status_t status = URMA_CR_REM_ACCESS_ABORT_ERR;
  if (!grants.has(segment)) return status;
  segments().with_grant(segment, addr, bytes, right_of(kind), [&] {
    if (kind == OpKind::kRead && !populate(addr, bytes, /*for_writing=*/false)) return;
    move(reinterpret_cast<void*>(addr));
    status = URMA_CR_SUCCESS;
  });
  return status;
}

void WireTransport::arrived(const CompletionQueue& jfc) {
  // SYNC(bell): what has come was stored before this look at the bell; pairs with the barrier in
  // CompletionQueue::arm.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (jfc.armed()) take_over();
}

uint32_t WireTransport::take_id(IdKind kind, uint32_t eid_index, uint32_t chosen) {
  return names_ != nullptr ? names_->take_id(kind, eid_index, chosen)
                           : DirectoryTransport::take_id(kind, eid_index, chosen);
}

void WireTransport::free_id(IdKind kind, uint32_t eid_index, uint32_t id) {
  if (names_ != nullptr) return names_->free_id(kind, eid_index, id);
  DirectoryTransport::free_id(kind, eid_index, id);
}

std::unique_ptr<Sender> WireTransport::make_sender(const urma_jfs_cfg_t& cfg,
                                                   const QueueIdentity& identity,
                                                   const urma_jetty_id_t& id) {
  if (faults() != nullptr) {
    return std::make_unique<FaultySender<WireSender, WirePath>>(faults(), this, cfg, identity, id);
  }
  return std::make_unique<WireSender>(this, cfg, identity, id);
}

std::unique_ptr<Receiver> WireTransport::make_receiver(const urma_jfr_cfg_t& cfg,
                                                       const QueueIdentity& identity,
                                                       const urma_eid_t& /*eid*/,
                                                       EventSubject* subject) {
  return std::make_unique<WireReceiver>(cfg, identity, subject, this, &segments());
}

void WireTransport::unregister(Segment* segment) {
  segments().remove(segment);
  // A queue checks its memory, and lends it to the wire, under one lock, for which this waits: what
  // was lent is known to the wire afterwards, and nothing more of this memory will be.
  quiesce();
  wire_->unregistered(segment->ref);
}

// Asks at once, so that the first request usually finds the answer there. With va 0 it is not known
// yet which memory is meant.
ImportedSegment* WireTransport::import_segment(urma_context_t* ctx, const urma_seg_t& seg,
                                               urma_token_t token, uint32_t /*access*/) {
  ImportRef<WireSegment> segment(new WireSegment(this, ctx, seg, token));
  if (seg.ubva.va != 0) static_cast<ImportedSegment&>(*segment).ask();
  return segment.release();
}

void WireTransport::probe(const ProbeTarget& target, std::function<void(Answer)> answered) {
  wire_->probe(target, std::move(answered));
}

}  // namespace urma
