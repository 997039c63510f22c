// SPDX-License-Identifier: MIT
#include "jetty/wire_engine.h"

#include <cstring>
#include <utility>

#include "jetty/iovecs.h"
#include "jetty/memory_access.h"
#include "urma/base/guard.h"
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
// The service for peers
// -------------------------------------------------------------------------------------------------

Answer WireEngine::accept(const WayRequest& asked, const std::shared_ptr<WireIncoming>& way,
                          uint32_t* members) {
  if (asked.type > URMA_JETTY_GROUP || asked.sender.id > kMaxChosenId) return Answer::kMalformed;
  try {
    return transport_->admit(
        asked, members, [&](const Endpoint& endpoint) { return add_way_(endpoint, asked, way); });
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a way to id {:#x} is refused: {}", asked.id, error.what());
    return Answer::kNoResources;
  }
}

urma_cr_status_t WireEngine::execute(const PeerGrants& grants, SegmentRef segment,
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

urma_cr_status_t WireEngine::execute_with(const PeerGrants& grants, SegmentRef segment, OpKind kind,
                                          uint64_t addr, uint64_t bytes,
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

void WireEngine::arrived(const CompletionQueue& jfc) {
  // SYNC(bell): what has come was stored before this look at the bell; pairs with the barrier in
  // CompletionQueue::arm.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (jfc.armed()) take_over();
}

// -------------------------------------------------------------------------------------------------
// Imported segments
// -------------------------------------------------------------------------------------------------

WireSegment::WireSegment(WireEngine* engine, urma_context_t* ctx, const urma_seg_t& imported,
                         urma_token_t token)
    : GrantedSegment(&engine->transport(), imported, token), engine_(engine) {
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
  bool renewed;
  {
    const MutexLock lock(mutex_);
    // However that goes, who waits for the answer gets one.
    const urma_status_t taken = guarded(URMA_LOG_SITE, [&] {
      mutex_.assume_held();
      take(wanted, answer, std::move(given));
      return URMA_SUCCESS;
    });
    const bool untaken = answer == Answer::kAccepted && taken != URMA_SUCCESS;
    if (untaken) answer = Answer::kNoResourcesHere;
    attempt_ended(answer, status_of(answer));
    renewed = grants().size() > 1;
  }
  guarded(URMA_LOG_SITE, [&] {
    if (renewed) drop_older_soon();
    engine_->serve_senders();
  });
  drop_ref();
}

void WireSegment::take(const Wanted& wanted, Answer answer, WireGrant given) {
  if (answer != Answer::kAccepted) return log_refusal(wanted, answer);
  const WireGrant* before = grant();
  // An answer that says nothing new needs no new place.
  const bool known = before != nullptr && before->owner == given.owner &&
                     before->segment.says_the_same(given.segment);
  if (known) return;
  given.wanted = wanted;
  publish(std::make_unique<const WireGrant>(std::move(given)));
}

WireHalf::WireHalf(WireEngine* wire_engine, bool has_alternative)
    : engine(wire_engine),
      has_alternative(has_alternative),
      implicit_imports([wire_engine](const urma_seg_t& described, urma_token_t token) {
        return ImportRef<WireSegment>(
            new WireSegment(wire_engine, /*ctx=*/nullptr, described, token));
      }) {}

}  // namespace urma
