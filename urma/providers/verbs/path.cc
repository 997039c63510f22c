// SPDX-License-Identifier: MIT
//
// A path's connection, and the fate of its requests.
#include "urma/providers/verbs/path.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "urma/base/clock.h"
#include "urma/base/log.h"
#include "urma/providers/verbs/datagram.h"
#include "urma/providers/verbs/remote_region.h"

namespace urma::verbs {
namespace {

// How often, and for how long, to ask a target that its program has not bound yet.
constexpr uint64_t kAskAgainNs = 5'000'000;
constexpr uint64_t kBindPatienceNs = 4'000'000'000;
// A broken queue pair delivers its completions within this time, or never.
constexpr uint64_t kDrainNs = 100'000'000;
constexpr uint32_t kMaxFruitless = 3;
// A message that finds a receive arrives within this time after its connection opened.
constexpr uint64_t kLingerNs = 100'000'000;
// How long to wait for the reason why a connection of iWARP broke.
constexpr uint64_t kExplainNs = 4'000'000'000;
// How often, and for how long, to ask a receiver that cannot say yet what it has received.
constexpr uint64_t kCountAgainNs = 2'000'000;
constexpr uint64_t kCountPatienceNs = 500'000'000;

}  // namespace

urma_cr_status_t request_status(ibv_wc_status status, OpKind kind) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return URMA_CR_SUCCESS;
    case IBV_WC_LOC_LEN_ERR:
      return URMA_CR_LOC_LEN_ERR;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return URMA_CR_LOC_ACCESS_ERR;
    case IBV_WC_WR_FLUSH_ERR:
      return URMA_CR_WR_FLUSH_ERR;
    case IBV_WC_REM_INV_REQ_ERR:
      // The receiver refuses the length of a message; for other requests, the request itself.
      return kind == OpKind::kSend ? URMA_CR_REM_RESP_LEN_ERR : URMA_CR_REM_UNSUPPORTED_REQ_ERR;
    case IBV_WC_REM_ACCESS_ERR:
      return URMA_CR_REM_ACCESS_ABORT_ERR;
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return URMA_CR_REM_OPERATION_ERR;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return URMA_CR_ACK_TIMEOUT_ERR;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return URMA_CR_RNR_RETRY_CNT_EXC_ERR;
    default:
      return URMA_CR_LOC_OPERATION_ERR;
  }
}

namespace {

bool is_atomic(const SendEntry& entry) { return entry.kind == OpKind::kAtomic; }

// Whether a request has a result beyond having been executed.
bool has_result(const SendEntry& entry) { return entry.kind == OpKind::kRead || is_atomic(entry); }

const char* refusal_text(const ConnectAnswer& answer) {
  if (answer.later()) return "it is not bound";
  if (answer.answer != Answer::kUnreachable) return answer_text(answer.answer);
  return "its owner is gone or does not answer within URMA_VERBS_TIMEOUT_MS; check that it runs, "
         "the link is up and no firewall blocks UDP to its host, and try urma_ping";
}

}  // namespace

Path::Path(Sender* sender, RemoteQueue* target, uint32_t hint)
    : OffloadedPath(sender, target, hint),
      tag_above_(Sender::wr_id(tag_, 0)),
      proof_(sender->device().iwarp() ? 1 : 0) {}

Path::~Path() { drop_connection(); }

bool Path::advance() {
  more = false;
  sender_->poll_completions();
  if (!settled()) [[unlikely]]
    return advance_slowly();
  if (!is_open()) {
    if (lingers_) return advance_slowly();
    reopen();
  }
  sender_->keep_armed();
  return false;
}

bool Path::advance_slowly() {
  follow_connection();
  const bool posted = goes_on(queue().state()) && post_waiting();
  if (lingers_) follow_last();
  const bool waiting = posted || lingers_ || state_ == State::kSettling;
  shut();
  if (state_ == State::kReady && settled() && !lingers_) reopen();
  sender_->keep_armed();
  end_lingering();
  return waiting;
}

void Path::completed(uint32_t mark, ibv_wc_status status) {
  const uint64_t at = done_ + static_cast<uint32_t>(mark - static_cast<uint32_t>(done_));
  // Of an earlier connection, whose requests already count as done.
  if (at > posted_ || at == done_) [[unlikely]]
    return;
  if (status == IBV_WC_SUCCESS) [[likely]] {
    retire(at);
  } else {
    failed(at, status);
  }
}

// The device has completed everything up to here.
void Path::retire(uint64_t upto) {
  if (upto == done_) return;
  through(upto);
  while (under_way_ != 0 && first()->moved <= upto) {
    // An emulated atomic is the last one in flight: nothing is posted after it.
    if (under_way_ == 1 && emulating()) [[unlikely]] {
      if (continue_emulation(first())) return;
      continue;
    }
    if (takes_receive(*first())) ++messages_;
    end_first(URMA_CR_SUCCESS);
  }
}

void Path::failed(uint64_t at, ibv_wc_status status) {
  // Soft-iWARP reports LOC_QP_OP_ERR for requests that TCP did not take any more.
  const bool iwarp = proof_ != 0;
  const bool flushed = status == IBV_WC_WR_FLUSH_ERR || (status == IBV_WC_LOC_QP_OP_ERR && iwarp);
  drained_ |= flushed && at == drain_mark_;
  if (flushed && failing_) return;
  // Errors are reported also of unsignalled requests: those before the first one have succeeded.
  if (!iwarp) retire(at - 1);
  failing_ = true;
  shut();
  // Flushed requests were not executed and go by the next connection; but see explained().
  if (under_way_ == 0 || flushed) return;
  // How much a receiver that does not answer has received is unknown.
  if (status == IBV_WC_RETRY_EXC_ERR) {
    warn_unanswered();
    return end_all_under_way(URMA_CR_ACK_TIMEOUT_ERR);
  }
  SendEntry* entry = first();
  if (iwarp && entry->moved != at) return;
  if (status == IBV_WC_REM_ACCESS_ERR) doubt_segments(*entry);
  if (emulation_ != nullptr) emulation_->loop.reset();
  fruitless_ = 0;
  // Not every device reports a receive that was too short. The request ends with what its owner
  // says.
  if (status == IBV_WC_REM_OP_ERR && entry->kind == OpKind::kSend) {
    return ask_for_fault(sender_->resources(), connection_);
  }
  end_first(request_status(status, entry->kind));
}

void Path::warn_unanswered() const {
  const DeviceInfo& info = sender_->device();
  URMA_LOG_LIMITED(
      WARNING,
      "queue {:#x}: the device of id {:#x} at {} has not answered {} within the time of "
      "err_timeout {}; check that its process runs and the link is up, and try urma_ping",
      sender_->id().id, target()->id.id, address_of(target()->id.eid, info.link_layer, 0).text(),
      info.name, sender_->config().err_timeout);
}

// Their owner is asked anew before the next access.
void Path::doubt_segments(const SendEntry& entry) {
  for (ImportedSegment* segment : {entry.remote, entry.notified}) {
    auto* region = static_cast<RemoteRegion*>(segment);
    if (region != nullptr) region->doubt(region->grant());
  }
}

void Path::end_all_under_way(urma_cr_status_t status) {
  if (emulation_ != nullptr) emulation_->loop.reset();
  while (under_way_ != 0) end_first(status);
}

// Out of memory or descriptors: fails the waiting requests.
void Path::connect(bool one_sided) {
  try {
    connection_ = describe_connection();
    connection_->request.one_sided = one_sided;
    make_connection(sender_->resources(), connection_, sender_->pump(), sender_->limits(),
                    sender_->patience());
    state_ = State::kConnecting;
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "queue {:#x} cannot send to id {:#x}: {}", sender_->id().id,
                     target()->id.id, error.what());
    drop_connection();
    while (!idle()) end_first(URMA_CR_LOC_OPERATION_ERR);
  }
}

// False while the connection is being made. If that fails, the waiting requests end.
bool Path::connected() {
  if (carries()) [[likely]]
    return true;
  if (ends()) return false;
  if (state_ == State::kNone) {
    if (asked_again_ns_ == 0 || monotonic_ns() >= asked_again_ns_) connect(/*one_sided=*/false);
    return false;
  }
  if (!connection_->settled.load(std::memory_order_acquire)) return false;
  const bool broken = ahead_ && !intact();
  if (connection_->status == URMA_CR_SUCCESS && !connection_->answer.later() && !broken) {
    begin_requests();
    return true;
  }
  // A refusal in advance need not hold now. An ending queue waits for a silent peer only once.
  const bool silent = connection_->answer.answer == Answer::kUnreachable;
  if (std::exchange(ahead_, false) && !(lingers_ && silent)) {
    drop_connection();
    connect(/*one_sided=*/false);
    return false;
  }
  if (may_go_one_sided()) {
    drop_connection();
    connect(/*one_sided=*/true);
    return false;
  }
  const uint64_t now = monotonic_ns();
  if (patient_since_ns_ == 0) patient_since_ns_ = now;
  const bool later =
      connection_->answer.later() && now - patient_since_ns_ < kBindPatienceNs && !lingers_;
  const urma_cr_status_t status =
      connection_->answer.later() ? URMA_CR_ACK_TIMEOUT_ERR : connection_->status;
  if (!later) {
    URMA_LOG_LIMITED(WARNING, "queue {:#x} cannot send to id {:#x}: {}", sender_->id().id,
                     target()->id.id, refusal_text(connection_->answer));
  }
  drop_connection();
  asked_again_ns_ = later ? now + kAskAgainNs : 0;
  if (later) return false;
  patient_since_ns_ = 0;
  end_doomed();
  while (!idle()) end_first(status);
  return false;
}

void Path::connect_ahead() {
  if (state_ != State::kNone || queue().state() != URMA_JETTY_STATE_READY) return;
  connect(/*one_sided=*/false);
  ahead_ = true;
}

bool Path::advise() {
  connect_ahead();
  return !std::exchange(advised_, true);
}

void Path::unadvise() {
  if (std::exchange(advised_, false) && idle() && !ends()) drop_connection();
}

void Path::begin_requests() {
  const bool one_sided = connection_->request.one_sided;
  state_ = one_sided ? State::kOneSided : State::kReady;
  URMA_LOG(DEBUG, "the connection of queue {:#x} to id {:#x} is open", sender_->id().id,
           target()->id.id);
  ahead_ = false;
  opened_ns_ = monotonic_ns();
  waited_upto_ = posted_ + outstanding;
  asked_again_ns_ = patient_since_ns_ = 0;
  sends_ = connection_->pair->sends() - kSpareSends;
  signal_every_ = std::max(1U, std::min(sends_, sender_->config().depth) / 4);
  letters_ = messages_ = 0;
  if (one_sided) return;
  target()->members.store(connection_->answer.reply.members, std::memory_order_relaxed);
}

// If the target takes no messages: it is not bound yet, or a group without members.
bool Path::may_go_one_sided() const {
  if (connection_->request.one_sided || takes_receive(*first()) || sender_->device().iwarp()) {
    return false;
  }
  const Answer answer = connection_->answer.answer;
  return connection_->answer.later() ||
         (target()->type == URMA_JETTY_GROUP && answer == Answer::kNoSuchObject);
}

// The first waiting request is a message. False while those before it are in flight.
bool Path::leave_one_sided() {
  if (under_way_ != 0) {
    nudge();
    return false;
  }
  drop_connection();
  return true;
}

// True if another round is in flight.
bool Path::continue_emulation(SendEntry* entry) {
  Emulation& emulation = *emulation_;
  urma_cr_status_t status = URMA_CR_SUCCESS;
  switch (emulation.loop->found(emulation.found.word)) {
    case AtomicLoop::Next::kAgain:
      if (post_round(entry)) return true;
      status = URMA_CR_LOC_OPERATION_ERR;
      break;
    case AtomicLoop::Next::kHopeless:
      URMA_LOG_LIMITED(WARNING,
                       "queue {:#x}: an atomic at {:#x} failed; peers changed the value each time",
                       sender_->id().id, entry->remote_addr);
      status = URMA_CR_REM_OPERATION_ERR;
      break;
    case AtomicLoop::Next::kDone: {
      const LocalPiece& result = SendQueue::pieces(entry)[0];
      const uint64_t old = emulation.loop->old_value();
      const auto narrow = static_cast<uint32_t>(old);
      uint32_t lkey;
      if (!sender_->resources().keys->find(result.ref, &lkey)) {
        status = URMA_CR_LOC_ACCESS_ERR;
      } else if (result.len == sizeof(narrow)) {
        std::memcpy(reinterpret_cast<void*>(result.addr), &narrow, sizeof(narrow));
      } else {
        std::memcpy(reinterpret_cast<void*>(result.addr), &old, sizeof(old));
      }
      break;
    }
  }
  emulation.loop.reset();
  end_first(status);
  return false;
}

// -------------------------------------------------------------------------------------------------
// How the connection ends, and what becomes of the requests that were under way
// -------------------------------------------------------------------------------------------------

// Not while completions are handed out.
void Path::follow_connection() {
  if (carries()) [[likely]] {
    if (intact()) return;
    begin_drain();
  }
  if (state_ == State::kSettling) return follow_count();
  if (state_ != State::kDraining) return;
  if (!drained_ && monotonic_ns() - drain_since_ns_ < kDrainNs) return;
  // An answer comes, or the report that there is none.
  if (connection_->fault.load() == Connection::kFaultAsked) return;
  if (explained()) end_drain();
}

// After a break, a device of iWARP cannot say which unproven requests were executed, nor why the
// connection ended. Another component finds out, and sets `broken`.
bool Path::explained() const {
  return proof_ == 0 || under_way_ == 0 || connection_->broken.load() != URMA_CR_SUCCESS ||
         monotonic_ns() - drain_since_ns_ >= kExplainNs;
}

// Flushes everything that the queue pair holds; a mark behind it tells when that is done.
void Path::begin_drain() {
  // Otherwise polls that take the short way never notice.
  shut();
  state_ = State::kDraining;
  drained_ = false;
  drain_since_ns_ = monotonic_ns();
  drain_mark_ = 0;
  QueuePair& pair = *connection_->pair;
  // A queue pair of iWARP would take requests then, and drop them.
  if (!pair.fail() || proof_ != 0 || sender_->pump()->lost()) {
    drained_ = true;
    return;
  }
  ibv_send_wr mark = {};
  mark.opcode = IBV_WR_RDMA_WRITE;
  if (post_one(&mark)) drain_mark_ = posted_;
  drained_ = drain_mark_ == 0;
}

void Path::end_drain() {
  // Some devices remove those of a queue pair that closes.
  sender_->poll_completions();
  connection_->pair->close();
  forget_requests();
  const bool standing = connection_->broken.load() == URMA_CR_SUCCESS && proof_ == 0;
  // A message may have been received without this side knowing.
  if ((doomed_ != 0 || cut_) && standing && have_under_way(takes_receive)) return ask_count();
  conclude();
}

void Path::ask_count() {
  state_ = State::kSettling;
  count_asked_ns_ = count_since_ns_ = monotonic_ns();
  settle_connection(sender_->resources(), connection_);
}

void Path::follow_count() {
  switch (connection_->count.load(std::memory_order_acquire)) {
    case Count::kAsked:
      return;
    case Count::kLater: {
      const uint64_t now = monotonic_ns();
      if (now - count_since_ns_ >= kCountPatienceNs) break;
      if (now - count_asked_ns_ < kCountAgainNs) return;
      count_asked_ns_ = now;
      return settle_connection(sender_->resources(), connection_);
    }
    default:
      break;
  }
  conclude();
}

// The queue pair is closed, and all that can be known of its requests is known.
void Path::conclude() {
  // SYNC(received): acquire pairs with the release of the kKnown store.
  const bool counted = connection_->count.load(std::memory_order_acquire) == Count::kKnown;
  if (counted) end_received(connection_->received.load(std::memory_order_relaxed));
  uint32_t broken = connection_->broken.load();
  if (proof_ != 0 && under_way_ != 0) {
    if (broken == URMA_CR_SUCCESS) broken = URMA_CR_REM_OPERATION_ERR;
    // Any of them may have been the culprit.
    SendEntry* entry = first();
    for (uint32_t i = 0; i < under_way_; ++i, entry = next_of(*entry)) doubt_segments(*entry);
  }
  const auto fault = static_cast<urma_cr_status_t>(connection_->fault.load());
  const bool flushing = doomed_ != 0 && !lingers_;
  if (!flushing && fault != URMA_CR_SUCCESS && under_way_ != 0) end_first(fault);
  end_doomed();
  if (broken == kPostAgain || (cut_ && broken == URMA_CR_SUCCESS)) {
    // Nobody can say whether an atomic was executed; nor, uncounted, whether a message was
    // received.
    const bool doubtful = have_under_way(is_atomic) || (!counted && have_under_way(takes_receive));
    if (doubtful) end_all_under_way(URMA_CR_REM_OPERATION_ERR);
  } else if (broken != URMA_CR_SUCCESS) {
    end_all_under_way(static_cast<urma_cr_status_t>(broken));
  } else if (under_way_ != 0 && ++fruitless_ >= kMaxFruitless) {
    end_all_under_way(URMA_CR_REM_OPERATION_ERR);
    fruitless_ = 0;
  }
  if (emulation_ != nullptr) emulation_->loop.reset();
  drop_connection();
}

// Messages are received in order, and after all that was posted before them.
void Path::end_received(uint64_t total) {
  uint64_t more = total > messages_ ? total - messages_ : 0;
  uint32_t through = 0;
  const SendEntry* entry = under_way_ != 0 ? first() : nullptr;
  for (uint32_t seen = 1; seen <= under_way_ && more != 0; ++seen) {
    if (takes_receive(*entry)) {
      --more;
      through = seen;
    }
    entry = next_of(*entry);
  }
  for (; through != 0; --through) {
    const bool lost = has_result(*first());
    const urma_cr_status_t status = doomed_ != 0 ? URMA_CR_WR_FLUSH_ERR : URMA_CR_REM_OPERATION_ERR;
    end_first(lost ? status : URMA_CR_SUCCESS);
  }
}

// The loss of the peer ends them before the flush does.
void Path::end_doomed() {
  const bool lost = connection_ != nullptr && connection_->broken.load() == URMA_CR_ACK_TIMEOUT_ERR;
  while (doomed_ != 0) end_first(lost ? URMA_CR_ACK_TIMEOUT_ERR : URMA_CR_WR_FLUSH_ERR);
}

bool Path::have_under_way(bool (*which)(const SendEntry&)) const {
  const SendEntry* entry = under_way_ != 0 ? first() : nullptr;
  for (uint32_t left = under_way_; left != 0; --left) {
    if (which(*entry)) return true;
    entry = next_of(*entry);
  }
  return false;
}

// Nothing of interest is in flight.
void Path::drop_connection() {
  if (connection_ != nullptr) {
    URMA_LOG(DEBUG, "the connection of queue {:#x} to id {:#x} closes", sender_->id().id,
             target()->id.id);
    end_connection(sender_->resources(), connection_);
  }
  shut();
  connection_.reset();
  state_ = State::kNone;
  failing_ = drained_ = cut_ = false;
  forget_requests();
  take_back();
}

// The queue pair is gone. Later completions belong to nobody.
void Path::forget_requests() {
  sender_->give_credits(static_cast<uint32_t>(posted_ - done_));
  done_ = signalled_ = posted_;
}

void Path::flush() {
  sender_->poll_completions();
  if (!linger()) drop();
}

// The device holds none of them after that.
void Path::drop() {
  sender_->poll_completions();
  doomed_ = outstanding;
  flush_doomed();
}

// An opening in flight ends by itself: within URMA_VERBS_TIMEOUT_MS if the peer is silent.
bool Path::linger() {
  const bool leaving = carries() && intact() && (lingers_ || done_ < waited_upto_) &&
                       monotonic_ns() - opened_ns_ < kLingerNs;
  const bool opening = state_ == State::kConnecting;
  if (!(opening || leaving) || !may_linger(queue().state())) return false;
  doomed_ = outstanding;
  lingers_ = true;
  shut();
  return true;
}

void Path::follow_last() {
  // The end of a broken connection tells what was received.
  if (ends()) return;
  if (doomed_ == 0) {
    end_lingering();
  } else if (!goes_on(queue().state()) || (carries() && monotonic_ns() - opened_ns_ >= kLingerNs)) {
    flush_doomed();
  } else if (nothing_waits()) {
    nudge();
  }
}

// All doomed requests have ended. Not while completions are handed out.
void Path::end_lingering() {
  if (!lingers_ || doomed_ != 0 || ends()) return;
  lingers_ = false;
  if (idle()) drop_connection();
}

void Path::flush_doomed() {
  lingers_ = false;
  // Requests after those being counted end with them.
  if (state_ == State::kSettling) return;
  if (under_way_ == 0) {
    end_doomed();
    return drop_connection();
  }
  if (carries()) {
    begin_drain();
    cut_ = true;
  }
  while (!drained_ && monotonic_ns() - drain_since_ns_ < kDrainNs) {
    sender_->poll_completions();
    if (!drained_) ::sched_yield();
  }
  end_drain();
}

bool Path::close_unwanted() {
  end_lingering();
  if (connection_ == nullptr || !connection_->unwanted.load(std::memory_order_relaxed)) {
    return false;
  }
  sender_->poll_completions();
  if (carries() && idle()) {
    drop_connection();
    return false;
  }
  shut();
  nudge();
  return true;
}

}  // namespace urma::verbs
