// SPDX-License-Identifier: MIT
#include "jetty/message_receiver.h"

#include <array>
#include <bit>

#include "jetty/failures.h"
#include "urma/base/clock.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {
namespace {

// min_rnr_timer 0..31 in units of 10 microseconds, as InfiniBand encodes it.
constexpr std::array<uint32_t, 32> kRnrTimer = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
constexpr uint64_t kRnrUnitNs = 10'000;
constexpr uint32_t kRnrForEver = 7;
// The time at which a message without limit began to wait: not needed.
constexpr uint64_t kWaitsForEver = 1;

// How long a message of a faster peer waits for the bind of this side.
constexpr uint64_t kBindPatienceNs = 4'000'000'000;

}  // namespace

MessageReceiver::MessageReceiver(const urma_jfr_cfg_t& cfg, const QueueIdentity& identity,
                                 EventSubject* subject, Transport* transport)
    : Receiver(cfg, identity, subject),
      segments_(&transport->segments()),
      rnr_timer_(cfg.min_rnr_timer),
      posted_(cfg.depth, cfg.max_sge),
      transport_(transport) {}

// Most posts are of one receive, and make no call.
urma_status_t MessageReceiver::post(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept {
  if (!lock_.enter_at_once()) [[unlikely]]
    return post_behind(wr, bad_wr);
  if (wr->next != nullptr || starved_ || !in_state(URMA_JFR_STATE_READY) ||
      !posted_.post_plain(*wr)) [[unlikely]] {
    return post_any(wr, bad_wr);
  }
  counters_.posts.add(1);
  if (lock_.leave_at_once()) [[unlikely]]
    return wake_one();
  return URMA_SUCCESS;
}

urma_status_t MessageReceiver::post_behind(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept {
  lock_.enter_behind();
  return post_any(wr, bad_wr);
}

urma_status_t MessageReceiver::wake_one() noexcept {
  lock_.wake_one();
  return URMA_SUCCESS;
}

urma_status_t MessageReceiver::post_any(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept {
  OwnerScope scope(lock_, std::adopt_lock);
  urma_status_t status = URMA_SUCCESS;
  uint64_t posts = 0;
  for (; wr != nullptr; wr = wr->next, ++posts) {
    status = posted_.post(*wr);
    if (status != URMA_SUCCESS) [[unlikely]] {
      counters_.refused.add(1);
      *bad_wr = wr;
      break;
    }
  }
  counters_.posts.add(posts);
  if (!in_state(URMA_JFR_STATE_READY)) [[unlikely]]
    turn_away();
  if (status != URMA_SUCCESS) return status;
  // Nobody polls, and nobody rings for a message that is already there.
  if (starved_) [[unlikely]]
    guarded(URMA_LOG_SITE, [this] {
      lock_.assume_held();
      serve_starved();
    });
  return URMA_SUCCESS;
}

void MessageReceiver::serve_starved() {
  starved_ = false;
  if (move_any()) transport_->take_over();
}

void MessageReceiver::quiesce(OwnerBarrier* barrier) { lock_.await_others(barrier); }

bool MessageReceiver::make_room(uint32_t receives) {
  ForeignScope scope(lock_);
  posted_.make_room(receives);
  return true;
}

uint64_t MessageReceiver::posted() {
  ForeignScope scope(lock_);
  return posted_.popped() + posted_.size();
}

uint64_t MessageReceiver::consumed() {
  ForeignScope scope(lock_);
  return posted_.popped();
}

void MessageReceiver::set_bond(Bond* bond, const Bond& peer) {
  {
    ForeignScope scope(lock_);
    *bond = peer;
  }
  // What the peer has sent before was left where it is.
  if (peer.has_value()) transport_->take_over();
}

uint64_t MessageReceiver::rnr_limit_ns(uint32_t rnr_retry) const {
  if (rnr_retry >= kRnrForEver) return UINT64_MAX;
  return rnr_retry * kRnrTimer[rnr_timer_ % kRnrTimer.size()] * kRnrUnitNs;
}

void MessageReceiver::describe(const Endpoint& endpoint, const WayRequest& asked,
                               IncomingWay* way) const {
  way->sender = asked.sender;
  way->target = endpoint.identity;
  way->jfc = endpoint.jfc;
  way->bond = endpoint.bond;
  way->messages_only = endpoint.trans_mode == URMA_TM_UM;
  // In mode UM a message without a posted receive is lost.
  way->rnr_limit_ns = way->messages_only ? 0 : rnr_limit_ns(asked.rnr_retry);
  way->record.flag.bs.s_r = 1;
  way->record.flag.bs.jetty = way->target.jetty ? 1 : 0;
  way->record.local_id = way->target.id;
  way->record.remote_id = way->sender;
  way->record.tpn = way->sender.id;
  way->record.user_data = way->target.user_data;
}

bool MessageReceiver::invalidate(const std::string& who, const Message& message,
                                 const Invalidation& invalidation) {
  const auto key = std::bit_cast<TokenKey>(message.immediate);
  if (segments_->invalidate(invalidation.eid, key.token_id, invalidation.va, invalidation.len,
                            urma_token_t{key.token}, invalidation.ref)) {
    return true;
  }
  URMA_LOG_LIMITED(WARNING,
                   "{} may not invalidate va {:#x} of token id {:#x}; its message is refused", who,
                   invalidation.va, key.token_id);
  return false;
}

bool MessageReceiver::from_peer(IncomingWay* way, urma_cr_status_t* refusal) {
  const Bond& bond = *way->bond;
  if (bound_to(bond, way->sender.eid, way->sender.id)) {
    way->unbound_since_ns = 0;
    return true;
  }
  *refusal = URMA_CR_SUCCESS;
  if (!bond.has_value()) {
    const uint64_t now = monotonic_ns();
    if (way->unbound_since_ns == 0) way->unbound_since_ns = now;
    if (now - way->unbound_since_ns >= kBindPatienceNs) *refusal = URMA_CR_ACK_TIMEOUT_ERR;
    return false;
  }
  *refusal = URMA_CR_REM_ACCESS_ABORT_ERR;
  URMA_LOG_FAILED("queue {:#x}: a message of id {:#x} is refused: the jetty is bound to id {:#x}",
                  way->target.id, way->sender.id, bond->id);
  return false;
}

urma_cr_status_t MessageReceiver::refusal_of_waiting(IncomingWay* way, const Message& message) {
  starved_ |= way->jfc->armed();
  const bool first = way->rnr_since_ns == 0;
  if (first) counters_.rnr.add(1);
  if (way->rnr_limit_ns == UINT64_MAX) {
    way->rnr_since_ns = kWaitsForEver;
    return URMA_CR_SUCCESS;
  }
  const uint64_t now = monotonic_ns();
  if (first) way->rnr_since_ns = now;
  if (now - way->rnr_since_ns < way->rnr_limit_ns) return URMA_CR_SUCCESS;
  way->rnr_since_ns = 0;
  // Mode UM loses messages as a matter of course.
  if (!way->messages_only) {
    URMA_LOG_FAILED(
        "queue {:#x}: a message of {} bytes of id {:#x} is refused: no receive was posted for {} "
        "us",
        way->target.id, message.length, way->sender.id, way->rnr_limit_ns / 1000);
  }
  return URMA_CR_RNR_RETRY_CNT_EXC_ERR;
}

urma_cr_status_t MessageReceiver::remote_status(urma_cr_status_t local) {
  if (local == URMA_CR_LOC_LEN_ERR) return URMA_CR_REM_RESP_LEN_ERR;
  return local == URMA_CR_SUCCESS ? URMA_CR_SUCCESS : URMA_CR_REM_OPERATION_ERR;
}

void MessageReceiver::log_failure(const IncomingWay& way, const Message& message,
                                  ReceiveEntry* entry, urma_cr_status_t status) const noexcept {
  if (!failures_are_read()) return;
  guarded(URMA_LOG_SITE, [&] { write_failure(way, message, entry, status); });
}

void MessageReceiver::write_failure(const IncomingWay& way, const Message& message,
                                    ReceiveEntry* entry, urma_cr_status_t status) const {
  if (status == URMA_CR_LOC_LEN_ERR) {
    URMA_LOG_FAILED(
        "queue {:#x}: a receive of {} bytes, user_ctx {:#x}, is too short for the {} bytes of id "
        "{:#x}; post longer ones",
        way.target.id, entry->bytes, entry->user_ctx, message.length, way.sender.id);
    return;
  }
  std::string why;
  for (const LocalPiece& piece : ReceiveQueue::pieces(entry)) {
    if (why.empty()) why = why_piece_fails(*segments_, piece);
  }
  URMA_LOG_FAILED("queue {:#x}: a receive of {} bytes, user_ctx {:#x}, ends with status {}: {}",
                  way.target.id, entry->bytes, entry->user_ctx, static_cast<int>(status), why);
}

}  // namespace urma
