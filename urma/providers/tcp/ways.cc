// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/ways.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "urma/base/guard.h"
#include "urma/providers/tcp/connection.h"
#include "urma/providers/tcp/wire.h"

namespace urma::tcp {

namespace {

// What the queues of an end take while they are empty, about.
constexpr uint64_t kOfItsQueues = 1536;

}  // namespace

// -------------------------------------------------------------------------------------------------
// The sending end
// -------------------------------------------------------------------------------------------------

// The JFC lives while it is set here. What is told stands, also where nobody can be woken at once:
// the next tick of its queue looks.
void SendingEnd::tell() {
  // Release pairs with the acquire in quiet().
  told_.store(true, std::memory_order_release);
  if (jfc_ == nullptr) return;
  guarded(URMA_LOG_SITE, [this, jfc = jfc_] { engine_->arrived(*jfc); });
}

bool SendingEnd::reap(WireReport* report) {
  const MutexLock lock(mutex_);
  // Its queue does not know yet that it is in flight.
  const bool early =
      large_.has_value() && !reports_.empty() && reports_.front().cookie == large_->cookie;
  const bool found = !reports_.empty() && !early;
  if (found) {
    *report = std::move(reports_.front());
    reports_.pop_front();
  } else if (closed_ && reports_.empty()) {
    return reap_ended(report);
  }
  // Relaxed: cleared and set under the lock.
  if (reports_.empty() && !closed_) told_.store(false, std::memory_order_relaxed);
  return found;
}

// The messages that the end of the way ends stay where they are until then: it needs no memory.
bool SendingEnd::reap_ended(WireReport* report) {
  while (!sent_.empty()) {
    const Sent& sent = sent_.front();
    if (large_.has_value() && large_->cookie == sent.cookie) return false;
    const bool reports = !sent.given_up;
    *report = {sent.cookie, closed_with_, {}};
    sent_.pop_front();
    if (reports) return true;
  }
  return false;
}

bool SendingEnd::ended() const {
  const MutexLock lock(mutex_);
  return closed_ && sent_.empty() && reports_.empty() && accesses_ == 0;
}

bool SendingEnd::is_lost() const {
  const MutexLock lock(mutex_);
  return lost_;
}

// Its queue ends it itself.
void SendingEnd::give_up_large() {
  const Large large = *std::exchange(large_, std::nullopt);
  if (!large.ended) sent_.back().given_up = true;
  std::erase_if(reports_, [&](const WireReport& report) { return report.cookie == large.cookie; });
}

bool SendingEnd::take_back(uint32_t cookie) {
  const MutexLock lock(mutex_);
  if (!large_.has_value() || large_->cookie != cookie) return false;
  const bool ended = large_->ended || closed_;
  give_up_large();
  return !ended;
}

std::optional<Answer> SendingEnd::answer(uint32_t* members) const {
  const MutexLock lock(mutex_);
  *members = members_;
  return answer_;
}

std::shared_ptr<Connection> SendingEnd::connection() const {
  const MutexLock lock(mutex_);
  return connection_;
}

void SendingEnd::forget_queue() {
  const MutexLock lock(mutex_);
  jfc_ = nullptr;
}

bool SendingEnd::close() {
  const MutexLock lock(mutex_);
  if (large_.has_value()) give_up_large();
  if (std::exchange(closing_, true)) return false;
  const bool accepted = answer_ == Answer::kAccepted;
  // An answer still to come closes it.
  if (!accepted && (answer_.has_value() || connection_ == nullptr)) end(URMA_CR_WR_FLUSH_ERR);
  return accepted && !closed_;
}

bool SendingEnd::found(std::shared_ptr<Connection> connection, uint32_t way) {
  const MutexLock lock(mutex_);
  if (closing_) return false;
  connection_ = std::move(connection);
  way_ = way;
  return true;
}

bool SendingEnd::answered(Answer answer, uint32_t members) {
  const MutexLock lock(mutex_);
  answer_ = answer;
  members_ = members;
  if (closing_ && answer != Answer::kAccepted) end(URMA_CR_WR_FLUSH_ERR);
  tell();
  return closing_ && answer == Answer::kAccepted;
}

SendingEnd::Turn SendingEnd::begin(uint64_t bytes, uint64_t large, uint32_t cookie,
                                   Outbox::Lender* lender) {
  const MutexLock lock(mutex_);
  if (closed_) {
    sent_.push_back({cookie, bytes, false});
    ++begun_;
    tell();
    return Turn::kEnded;
  }
  const bool full = sent_.size() >= kWayMessages || sent_bytes_ + bytes > kWayBytes;
  if (full && !sent_.empty()) return Turn::kWait;
  if (large_.has_value()) return Turn::kWait;
  sent_.push_back({cookie, bytes, false});
  *lender = {way_, ++begun_};
  sent_bytes_ += bytes;
  if (large != 0) large_ = {cookie, large, 0, false, false};
  return Turn::kSend;
}

bool SendingEnd::is_sending(uint32_t cookie) const {
  const MutexLock lock(mutex_);
  return large_.has_value() && large_->cookie == cookie;
}

SendingEnd::Turn SendingEnd::go_on(uint32_t cookie, uint64_t* sent) {
  const MutexLock lock(mutex_);
  if (!large_.has_value() || large_->cookie != cookie) return Turn::kWait;
  if (closed_ || large_->ended) {
    large_.reset();
    return Turn::kEnded;
  }
  *sent = large_->sent;
  return large_->pulled ? Turn::kSend : Turn::kWait;
}

bool SendingEnd::sent_part(uint64_t bytes) {
  const MutexLock lock(mutex_);
  large_->sent += bytes;
  if (large_->sent < large_->bytes) return false;
  large_.reset();
  return true;
}

bool SendingEnd::pulled() {
  const MutexLock lock(mutex_);
  // The receiver may not know yet that it does not come.
  const auto given_up = [](const Sent& sent) { return sent.given_up; };
  if (std::any_of(sent_.begin(), sent_.end(), given_up)) return true;
  if (!large_.has_value()) return closing_ || closed_;
  if (large_->pulled) return false;
  large_->pulled = true;
  tell();
  return true;
}

void SendingEnd::end_oldest(urma_cr_status_t status) {
  const Sent& sent = sent_.front();
  if (!sent.given_up) {
    reports_.push_back({sent.cookie, status, {}});
    if (large_.has_value() && large_->cookie == sent.cookie) large_->ended = true;
  }
  sent_bytes_ -= sent.bytes;
  sent_.pop_front();
}

bool SendingEnd::received(uint32_t count, urma_cr_status_t status) {
  const MutexLock lock(mutex_);
  if (closed_ || count > sent_.size()) return false;
  for (uint32_t i = 0; i < count; ++i) end_oldest(status);
  tell();
  return true;
}

void SendingEnd::end(urma_cr_status_t status) {
  if (!std::exchange(closed_, true)) closed_with_ = status;
  tell();
}

bool SendingEnd::closed(urma_cr_status_t status, bool* untold) {
  const MutexLock lock(mutex_);
  if (closed_ || answer_ != Answer::kAccepted) return false;
  end(status);
  *untold = !std::exchange(closing_, true);
  return true;
}

void SendingEnd::lost() {
  const MutexLock lock(mutex_);
  if (!answer_.has_value()) answer_ = Answer::kUnreachable;
  lost_ = true;
  end(URMA_CR_ACK_TIMEOUT_ERR);
}

bool SendingEnd::began_access(const Connection* by) {
  const MutexLock lock(mutex_);
  ++accesses_;
  if (by == connection_.get()) return false;
  // Relaxed: the queue's own thread.
  elsewhere_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void SendingEnd::done(WireReport done, bool elsewhere) {
  const MutexLock lock(mutex_);
  reports_.push_back(std::move(done));
  --accesses_;
  // Release pairs with the acquire in has_accesses_elsewhere().
  if (elsewhere) elsewhere_.fetch_sub(1, std::memory_order_release);
  tell();
}

void SendingEnd::unreachable(uint32_t cookie) {
  const MutexLock lock(mutex_);
  reports_.push_back({cookie, URMA_CR_ACK_TIMEOUT_ERR, {}});
  tell();
}

Outbox::Lender SendingEnd::last_begun() const {
  const MutexLock lock(mutex_);
  return {way_, begun_};
}

Outbox::Lender SendingEnd::last_of(uint32_t answered) const {
  const MutexLock lock(mutex_);
  return {way_, begun_ - sent_.size() + answered};
}

bool SendingEnd::awaits_answer() const {
  const MutexLock lock(mutex_);
  return !closed_ && (closing_ || !answer_.has_value() || !sent_.empty());
}

// -------------------------------------------------------------------------------------------------
// A way of the engine
// -------------------------------------------------------------------------------------------------

Way::Way(Wire* wire, const WayRequest& request, const CompletionQueue& jfc)
    : wire_(wire), request_(request), end_(std::make_shared<SendingEnd>(&wire->engine(), &jfc)) {}

Way::~Way() {
  guarded(URMA_LOG_SITE, [this] { close(); });
  end_->forget_queue();
}

std::optional<Answer> Way::opened(uint32_t* members) {
  if (!asked_) wire_->open_way(request_, end_);
  asked_ = true;
  return end_->answer(members);
}

// Process what the peer has said first, unless a poll just did: it may be gone, and a process that
// took its place must get the request.
bool Way::use(const std::shared_ptr<Connection>& connection) {
  wire_->posted();
  if (!wire_->spinning()) connection->progress(/*to_end=*/true);
  if (used_ != connection) {
    push();
    // Only what the last one holds can be let go of later.
    let_go();
  }
  used_ = connection;
  return !connection->gone();
}

bool Way::send(const Outgoing& message, uint32_t cookie) {
  if (end_->has_accesses_elsewhere()) return false;
  if (connection_ == nullptr) connection_ = end_->connection();
  // A message that has begun ends with its connection.
  const bool usable = use(connection_) || end_->is_sending(cookie);
  return usable && connection_->send(end_.get(), message, cookie);
}

bool Way::access(const WireGrant& grant, const WireAccess& access, uint32_t cookie) {
  const auto owner = std::static_pointer_cast<const Connection>(grant.owner);
  const auto connection = std::const_pointer_cast<Connection>(owner);
  return use(connection) && connection->access(end_, grant.segment.ref, access, cookie);
}

void Way::take_back(uint32_t cookie) {
  if (end_->take_back(cookie)) connection_->take_back(end_->way());
}

void Way::push() {
  if (used_ != nullptr) used_->push(/*answers=*/true);
}

void Way::let_go() {
  if (used_ != nullptr) used_->let_go();
}

void Way::close() {
  let_go();
  if (end_->close()) end_->connection()->close_way(end_->way());
  push();
}

// -------------------------------------------------------------------------------------------------
// The receiving end
// -------------------------------------------------------------------------------------------------

IncomingEnd::IncomingEnd(std::shared_ptr<Connection> connection, uint32_t way,
                         const SegmentTable* segments)
    : connection_(std::move(connection)),
      way_(way),
      segments_(segments),
      charge_(connection_->charge(sizeof(IncomingEnd) + kOfItsQueues)) {}

bool IncomingEnd::may_hold(uint64_t payload) const {
  const MutexLock lock(mutex_);
  const bool full = held_.size() >= kWayMessages || held_bytes_ + payload > kWayBytes;
  return !sender_closed_ && (!full || held_.empty());
}

void IncomingEnd::hold(Held held) {
  const MutexLock lock(mutex_);
  if (closed_with_.has_value()) return;
  const uint32_t payload = held.head.payload;
  held_.push_back(std::move(held));
  any_held_.store(true, std::memory_order_relaxed);
  held_bytes_ += payload;
  // The JFC lives while this is not closed.
  connection_->engine().arrived(*jfc);
  connection_->wire().messages_wait();
}

bool IncomingEnd::has_messages(bool* stuck) {
  const MutexLock lock(mutex_);
  if (held_.empty()) return false;
  *stuck |= looked_at_ == taken_;
  looked_at_ = taken_;
  return true;
}

bool IncomingEnd::begin_part(uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (closed_with_.has_value()) return true;
  if (bytes == 0) {
    take_back();
    return true;
  }
  const bool coming = pulled_ && !held_.front().taken_back;
  if (!coming || bytes > held_.front().head.length - announced_) return false;
  announced_ += bytes;
  return true;
}

void IncomingEnd::part_ended() {
  const MutexLock lock(mutex_);
  if (!closed_with_.has_value() && pulled_ && landed_ == held_.front().head.length) {
    connection_->engine().arrived(*jfc);
  }
}

// Nothing follows a large message before it has ended, here or for its sender.
void IncomingEnd::take_back() {
  const bool large = !held_.empty() && is_announced(held_.back().head);
  const bool begun = held_.size() == 1 && pulled_;
  if (!large || (begun && landed_ == held_.back().head.length)) return;
  held_.back().taken_back = true;
  connection_->engine().arrived(*jfc);
}

bool IncomingEnd::sender_closed() {
  const MutexLock lock(mutex_);
  return !std::exchange(sender_closed_, true);
}

std::optional<uint8_t> IncomingEnd::take_end() {
  const MutexLock lock(mutex_);
  if (!closed_with_.has_value() || std::exchange(end_taken_, true)) return std::nullopt;
  return closed_with_;
}

bool IncomingEnd::over() const {
  const MutexLock lock(mutex_);
  return closed_with_.has_value() && sender_closed_;
}

std::optional<Message> IncomingEnd::taken_back() const {
  const MutexLock lock(mutex_);
  const bool any = !held_.empty() && held_.front().taken_back;
  return any ? std::optional(held_.front().head) : std::nullopt;
}

Peek IncomingEnd::next(Message* message) {
  while (const std::optional<Message> gone = taken_back()) {
    consume(*gone, URMA_CR_WR_FLUSH_ERR);
    // The next one waits by itself.
    rnr_since_ns = unbound_since_ns = 0;
    invalidated = false;
  }
  const MutexLock lock(mutex_);
  if (held_.empty()) return Peek::kEmpty;
  *message = held_.front().head;
  payload_ = held_.front().payload.bytes.get();
  return Peek::kMessage;
}

// Only the engine ends the message.
void IncomingEnd::copy_held(uint32_t offset, void* to, uint32_t bytes) const {
  std::memcpy(to, payload_ + offset, bytes);
}

void IncomingEnd::answer(uint8_t status) {
  bool first = false;
  bool urgent = false;
  bool owed = false;
  {
    const MutexLock lock(mutex_);
    guarded(URMA_LOG_SITE, [&] {
      mutex_.assume_held();
      first = owed_.empty();
      if (first || owed_.back().status != status) owed_.push_back({0, status});
      ++owed_.back().count;
      owed = true;
    });
    const Message& head = held_.front().head;
    urgent = (head.flags & kWantsAnswer) != 0 || status != URMA_CR_SUCCESS;
    held_bytes_ -= head.payload;
    connection_->wire().payloads().give_back(std::move(held_.front().payload));
    held_.pop_front();
    any_held_.store(!held_.empty(), std::memory_order_relaxed);
    ++taken_;
    pulled_ = failed_ = false;
    wanted_.store(false, std::memory_order_relaxed);
  }
  // Its sender would wait for that report.
  if (!owed) return connection_->end("no memory to report a message");
  if (first) connection_->owe(way_, urgent);
}

bool IncomingEnd::take_owed(ReceivedBody* received) {
  const MutexLock lock(mutex_);
  if (owed_.empty()) return false;
  *received = {way_, owed_.front().count, owed_.front().status};
  owed_.pop_front();
  return true;
}

void IncomingEnd::close(uint8_t status) {
  {
    const MutexLock lock(mutex_);
    if (closed_with_.has_value()) return;
    closed_with_ = status;
    held_.clear();
    any_held_.store(false, std::memory_order_relaxed);
    pieces_.clear();
    pulled_ = false;
    wanted_.store(false, std::memory_order_relaxed);
    drop_staged();
  }
  connection_->incoming_closed(this);
}

void IncomingEnd::wake() { connection_->report(); }

std::string IncomingEnd::who() const { return connection_->who(); }

void IncomingEnd::begin_parts(std::span<const LocalPiece> pieces) {
  {
    const MutexLock lock(mutex_);
    pieces_.assign(pieces.begin(), pieces.end());
    announced_ = landed_ = 0;
    pulled_ = true;
    wanted_.store(true, std::memory_order_relaxed);
  }
  connection_->pull(way_);
}

IncomingEnd::Landing IncomingEnd::landed() const {
  const MutexLock lock(mutex_);
  if (closed_with_.has_value()) return Landing::kFailed;
  if (held_.front().taken_back) return Landing::kTakenBack;
  if (landed_ < held_.front().head.length) return Landing::kComing;
  return failed_ ? Landing::kFailed : Landing::kWhole;
}

void IncomingEnd::end_parts() {
  const MutexLock lock(mutex_);
  wanted_.store(false, std::memory_order_relaxed);
  pieces_.clear();
}

std::optional<size_t> IncomingEnd::land(uint64_t most, const Into& into) {
  const MutexLock lock(mutex_);
  IovecList places;
  for (const LocalPiece& piece : pieces_) {
    failed_ |= !is_staged() && piece.len != 0 && !segments_->alive(piece.ref);
    places.add(piece.addr, piece.len, landed_, most);
  }
  if (!comes_in_parts() || failed_) return std::nullopt;
  const auto bytes = into(places.list());
  landed_ += bytes.value_or(0);
  failed_ |= !bytes.has_value();
  return bytes;
}

void IncomingEnd::skip(uint64_t bytes) {
  const MutexLock lock(mutex_);
  landed_ += bytes;
}

}  // namespace urma::tcp
