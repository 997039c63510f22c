// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/tcp/wire.h"

namespace urma::tcp {
namespace {

constexpr size_t kInBytes = 64 << 10;
// Larger data bypass the buffers, in both directions.
constexpr size_t kDirectBytes = 8 << 10;
// Requests wait while this many bytes have not left; answers do not, so that two ends cannot block
// each other. All answers that a peer within its limits can request fit into kMostAnswers.
constexpr size_t kMostWaiting = 1 << 20;
constexpr size_t kMostAnswers = 16 << 20;
// Beyond this they are counted: no requests of this process wait in such numbers.
constexpr size_t kManyAnswers = 2 * kMostWaiting + kCopyPerTurn;
constexpr int kReadsPerTurn = 16;
// A write that arrives in parts is executed in steps of at least this size.
constexpr size_t kWriteStep = 32 << 10;
// Behind a large payload, no more of the next frame is read than the part before its payload: that
// one can go to its place, too.
constexpr size_t kNextFrame = sizeof(Head) + std::max(sizeof(AccessBody), sizeof(MessageBody));

// Without the first `skip` bytes, and at most `most`.
IovecList window(std::span<const iovec> pieces, uint64_t skip, uint64_t most) {
  IovecList list;
  for (const iovec& piece : pieces) {
    list.add(reinterpret_cast<uint64_t>(piece.iov_base), piece.iov_len, skip, most);
  }
  return list;
}

}  // namespace

Connection::Connection(Wire* wire, uint64_t number, std::unique_ptr<Stream> stream, bool began)
    : wire_(wire),
      number_(number),
      began_(began),
      fd_(stream->fd()),
      own_held_(charge(kInBytes + sizeof(Connection))),
      began_ns_(monotonic_ns()),
      here_(SocketAddress::local_of(fd_).eid),
      peer_(stream->peer()),
      stream_(std::move(stream)),
      in_(kInBytes) {}

WireEngine& Connection::engine() const { return wire_->engine(); }

StreamState Connection::greet(std::string* why) {
  const MutexLock lock(mutex_);
  if (gone()) return StreamState::kLost;
  const StreamState state = stream_->progress(why);
  if (state == StreamState::kOpen) {
    peer_ = stream_->peer();
    // The end of the greeting may still wait for room.
    wants_room_ = stream_->wants_room();
  }
  return state;
}

urma_ext_connection_t Connection::describe(urma_ext_connection_state_t state) const {
  urma_ext_connection_t described = {};
  described.eid = here_;
  described.peer_eid = peer_.listens_at.eid;
  described.peer_number = peer_.listens_at.port;
  described.state = gone() ? URMA_EXT_CONNECTION_FAILED : state;
  described.status = gone() ? URMA_CR_ACK_TIMEOUT_ERR : 0;
  described.incoming = began_ ? 0 : 1;
  described.handle = number_;
  described.age_ns = age_ns();
  described.stream = 1;
  // Relaxed: only counts.
  described.sent_bytes = sent_bytes_.load(std::memory_order_relaxed);
  described.received_bytes = received_bytes_.load(std::memory_order_relaxed);
  described.sent_requests = sent_requests_.load(std::memory_order_relaxed);
  described.received_requests = received_requests_.load(std::memory_order_relaxed);
  return described;
}

bool Connection::wants_room() {
  const MutexLock lock(mutex_);
  return !gone() && stream_->wants_room();
}

// -------------------------------------------------------------------------------------------------
// The end
// -------------------------------------------------------------------------------------------------

void Connection::end(std::string_view why) {
  const MutexLock lock(mutex_);
  if (!gone()) give_up(why);
}

void Connection::give_up(std::string_view why) {
  lose();
  if (why.empty()) return;
  URMA_LOG_LIMITED(WARNING, "the connection to {} has ended: {}", who(), why);
}

void Connection::break_off(const char* what) {
  lose();
  URMA_LOG_LIMITED(WARNING, "{} violates the protocol, connection closed: {}", who(), what);
}

// As peers do that end.
void Connection::lose_stream(const std::string& why) {
  lose();
  URMA_LOG_LIMITED(INFO, "the stream of {} has ended: {}", who(), why);
}

// Allocates nothing, except to report accesses: tell_ended() tells what that could not.
void Connection::lose() {
  const auto give_back = [](auto* map) { std::remove_pointer_t<decltype(map)>().swap(*map); };
  // Release pairs with the acquire in gone().
  lost_.store(true, std::memory_order_release);
  wire_->leave(*this);
  stream_.reset();
  landing_.way.reset();
  landing_.held = {};
  landing_.placing = false;
  in_ = std::vector<char>();
  out_.clear();
  own_held_ = {};
  answers_held_ = {};
  ended_held_ = {};
  in_begin_ = in_end_ = 0;
  for (const auto& [number, way] : incoming_) way->abandon();
  give_back(&incoming_);
  give_back(&opening_);
  {
    const MutexLock lock(ended_mutex_);
    give_back(&ended_);
  }
  guarded(URMA_LOG_SITE, [this] {
    mutex_.assume_held();
    tell_requests();
  });
  wire_->lost(shared_from_this());
}

// Each is forgotten once it is told.
void Connection::tell_requests() {
  while (!accesses_.empty()) {
    const Access& access = accesses_.front();
    access.end->done({access.cookie, URMA_CR_ACK_TIMEOUT_ERR, {}}, access.elsewhere);
    accesses_.pop_front();
  }
  while (!sending_.empty()) {
    sending_.begin()->second->lost();
    sending_.erase(sending_.begin());
  }
}

void Connection::tell_ended() {
  std::unordered_map<uint32_t, OnAnswer> unanswered;
  {
    const MutexLock lock(mutex_);
    tell_requests();
    unanswered.swap(tickets_);
  }
  for (const auto& asked : unanswered) {
    guarded(URMA_LOG_SITE, [&] { asked.second(Answer::kUnreachable, {}); });
  }
}

bool Connection::awaits() {
  const MutexLock lock(mutex_);
  if (gone()) return false;
  return !accesses_.empty() || !tickets_.empty() ||
         std::any_of(sending_.begin(), sending_.end(),
                     [](const auto& way) { return way.second->awaits_answer(); }) ||
         std::any_of(incoming_.begin(), incoming_.end(),
                     [](const auto& way) { return way.second->comes_in_parts(); });
}

bool Connection::silent() {
  const MutexLock lock(mutex_);
  if (gone()) return false;
  // A slow network may take longer than the timeout for what is on its way. A host takes only so
  // much for a process that does not read.
  const bool delivers = stream_->delivers();
  if (std::exchange(heard_, false) || delivers) return false;
  put(PingBody{});
  flush();
  return true;
}

// -------------------------------------------------------------------------------------------------
// Bytes that leave
// -------------------------------------------------------------------------------------------------

void Connection::put_frame(FrameKind kind, std::span<const char> body,
                           std::span<const iovec> payload,
                           const std::optional<Outbox::Lender>& lender) {
  try {
    const size_t bytes = total(payload);
    const Head head = {static_cast<uint32_t>(body.size() + bytes), kind, {}};
    out_.add({reinterpret_cast<const char*>(&head), sizeof(head)});
    out_.add(body);
    if (bytes < kDirectBytes) {
      for (const iovec& piece : payload) {
        out_.add({static_cast<const char*>(piece.iov_base), piece.iov_len});
      }
      return;
    }
    out_.lend(payload, lender.value_or(Outbox::Lender{}));
    send_waiting(false);
    if (!lender.has_value()) out_.take_in_last();
  } catch (const std::exception& failure) {
    // Nothing can follow half a frame.
    if (!gone()) give_up(failure.what());
    throw;
  }
}

void Connection::say_frame(FrameKind kind, std::span<const char> body, bool awaits) {
  const MutexLock lock(mutex_);
  if (gone()) return;
  ending_where_it_fails([&] {
    mutex_.assume_held();
    if (awaits) wire_->await();
    // First the reports: the sender of a message that was taken back waits for its end before
    // another one is pulled.
    put_owed();
    put_frame(kind, body, {}, std::nullopt);
    flush();
  });
}

bool Connection::has_room() const { return waiting() < kMostWaiting; }

void Connection::send_waiting(bool ahead) {
  while (waiting() != 0) {
    const IovecList next = out_.next();
    const size_t sent = stream_->send(next.list(), ahead);
    if (sent == 0) break;
    // Relaxed, as all counts for lists: nothing follows from them.
    sent_bytes_.fetch_add(sent, std::memory_order_relaxed);
    out_.left(sent);
  }
}

void Connection::let_go() {
  const MutexLock lock(mutex_);
  ending_where_it_fails([&] {
    mutex_.assume_held();
    out_.take_in();
    stop_placing();
  });
}

// What has landed is kept for the report.
void Connection::stop_placing() {
  if (std::exchange(landing_.placing, false)) {
    const IovecList landed = window(accesses_.front().places, 0, landing_.done);
    for (const iovec& piece : landed.list()) {
      const auto* from = static_cast<const char*>(piece.iov_base);
      landing_.bytes.insert(landing_.bytes.end(), from, from + piece.iov_len);
    }
    landing_.bytes.resize(landing_.done + landing_.left);
    landing_.into = landing_.bytes.data() + landing_.done;
  }
  for (Access& access : accesses_) access.places.clear();
}

void Connection::flush() {
  if (gone()) return;
  if (waiting() != 0) {
    send_waiting(false);
  } else if (ahead_) {
    stream_->push();
  }
  ahead_ = false;
  answers_held_ = waiting() > kManyAnswers ? charge(waiting()) : Charge();
  if (waiting() == 0 && std::exchange(full_, false)) wire_->engine().take_over();
  std::string why;
  // The stream itself may hold the rest of a record.
  const bool held = waiting() != 0 || stream_->wants_room();
  if (held && stream_->progress(&why) == StreamState::kLost) return lose_stream(why);
  const bool wants_room = waiting() != 0 || stream_->wants_room();
  if (wants_room != std::exchange(wants_room_, wants_room)) wire_->watch(*this, wants_room);
}

bool Connection::has_messages(bool* stuck) {
  const MutexLock lock(mutex_);
  bool any = false;
  for (const auto& [way, end] : incoming_) any |= end->has_messages(stuck);
  return any;
}

void Connection::push(bool answers) {
  const MutexLock lock(mutex_);
  if (gone()) return;
  if (std::exchange(reported_, false)) answers_ = answers;
  ending_where_it_fails([&] {
    mutex_.assume_held();
    put_owed();
    flush();
  });
}

// A program that answers each message at once sends the report with its answer, in one packet. The
// kernel has the report before: it leaves even if the program is killed, unless bytes have arrived
// that no poll has read.
void Connection::report() {
  const MutexLock lock(mutex_);
  if (gone()) return;
  // SYNC(tcp-spinning): under the lock, which those who end this state take afterwards to push.
  const bool first = !std::exchange(reported_, true);
  const bool ahead = first && answers_ && wire_->polls_each();
  ending_where_it_fails([&] {
    mutex_.assume_held();
    put_owed();
    if (!ahead) return flush();
    ahead_ = waiting() != 0;
    send_waiting(true);
    // It continues the stream, and asks to be told of room.
    if (waiting() != 0 || stream_->wants_room()) flush();
  });
}

// A debt that cannot be recorded is never paid: the connection ends then.
void Connection::owe(uint32_t way, bool urgent) {
  try {
    bool first = false;
    {
      const MutexLock lock(owing_mutex_);
      first = owing_.empty();
      owing_.push_back(way);
      owes_.store(true);
    }
    // SYNC(tcp-spinning): the debt is recorded before these looks; whatever ends either state
    // changes it first, then pushes.
    if (urgent || wire_->polls_each()) return;
    if (!wire_->spinning()) {
      engine().service().post([self = shared_from_this()] { self->push(/*answers=*/false); });
    } else if (first) {
      wire_->add_debtor(shared_from_this());
    }
  } catch (const std::exception& failure) {
    end(failure.what());
  }
}

void Connection::put_owed() {
  if (done_ != 0) put(DoneBody{std::exchange(done_, 0), URMA_CR_SUCCESS});
  if (!owes_.load()) return;
  {
    const MutexLock lock(owing_mutex_);
    owing_now_.swap(owing_);
    owes_.store(false);
  }
  for (const uint32_t way : owing_now_) {
    const auto found = incoming_.find(way);
    ReceivedBody received;
    while (found != incoming_.end() && found->second->take_owed(&received)) put(received);
  }
  owing_now_.clear();
}

// -------------------------------------------------------------------------------------------------
// Asking
// -------------------------------------------------------------------------------------------------

uint32_t Connection::add_ticket(OnAnswer* answered) {
  wire_->await();
  const uint32_t ticket = ++last_ticket_;
  tickets_[ticket].swap(*answered);
  return ticket;
}

bool Connection::stands(SegmentRef segment) const {
  if (gone()) return false;
  // Relaxed: the owner itself reports registrations that end meanwhile.
  if (!any_ended_.load(std::memory_order_relaxed)) return true;
  const MutexLock lock(ended_mutex_);
  const auto ended = ended_.find(segment.index);
  return ended == ended_.end() || is_newer(segment.generation, ended->second);
}

// The queues have lent the last of that memory before. Once it is let go of, nothing lands in it
// any more, nothing is sent from it, and no grant of it is on its way.
void Connection::tell_unregistered(SegmentRef segment) {
  let_go();
  const MutexLock lock(mutex_);
  if (gone() || !grants_.has(segment)) return;
  ending_where_it_fails([&] {
    mutex_.assume_held();
    put(EndedBody{segment});
    flush();
  });
}

// -------------------------------------------------------------------------------------------------
// Requests
// -------------------------------------------------------------------------------------------------

void Connection::open_way(const WayRequest& request, const std::shared_ptr<SendingEnd>& end) {
  const MutexLock lock(mutex_);
  ending_where_it_fails([&] {
    mutex_.assume_held();
    if (gone()) return;
    wire_->await();
    const uint32_t way = ++last_way_;
    if (!end->found(shared_from_this(), way)) return;
    sending_[way] = end;
    const ProbeTarget& target = request;
    put(OpenWayBody{way, 0, target, request.rnr_retry, request.hint, request.sender.eid,
                    request.sender.uasid, request.sender.id});
    flush();
  });
  if (gone()) end->answered(Answer::kUnreachable);
}

bool Connection::send(SendingEnd* end, const Outgoing& message, uint32_t cookie) {
  const MutexLock lock(mutex_);
  const uint32_t prefix = prefix_of(message.kind);
  const bool large = message.kind != MessageKind::kWriteImm && message.length > kLargestInline;
  if (large && end->is_sending(cookie)) return go_on_sending(end, message, cookie);
  if (!gone() && !has_room()) {
    full_ = true;
    return false;
  }
  wire_->await();
  const uint64_t payload = large ? prefix : total(message.payload);
  Outbox::Lender lender;
  const auto turn = end->begin(payload, large ? message.length : 0, cookie, &lender);
  if (turn != SendingEnd::Turn::kSend) return turn == SendingEnd::Turn::kEnded;
  sent_requests_.fetch_add(1, std::memory_order_relaxed);
  MessageBody body = {end->way(),        message.length,
                      message.immediate, static_cast<uint8_t>(message.kind),
                      message.flags,     {}};
  if (large) body.flags |= kByReference;
  ending_where_it_fails([&] {
    mutex_.assume_held();
    // An Invalidation is not the program's memory.
    const bool lends = prefix == 0 && !large;
    put(body, window(message.payload, 0, payload).list(),
        lends ? std::optional(lender) : std::nullopt);
    if (large) flush();
  });
  return !large;
}

bool Connection::go_on_sending(SendingEnd* end, const Outgoing& message, uint32_t cookie) {
  uint64_t sent = 0;
  for (;;) {
    const SendingEnd::Turn turn = end->go_on(cookie, &sent);
    if (turn != SendingEnd::Turn::kSend) return turn == SendingEnd::Turn::kEnded;
    if (!has_room()) {
      full_ = true;
      flush();
      return false;
    }
    const uint64_t bytes = std::min<uint64_t>(message.length - sent, kCopyPerTurn);
    const IovecList part = window(message.payload, prefix_of(message.kind) + sent, bytes);
    put(PartBody{end->way()}, part.list(), end->last_begun());
    if (end->sent_part(part.bytes())) return true;
  }
}

bool Connection::access(const std::shared_ptr<SendingEnd>& end, SegmentRef segment,
                        const WireAccess& access, uint32_t cookie) {
  const MutexLock lock(mutex_);
  if (gone()) {
    end->unreachable(cookie);
    return true;
  }
  const bool fetches = access.kind == OpKind::kRead || access.kind == OpKind::kAtomic;
  const uint32_t fetched = fetches ? static_cast<uint32_t>(access.bytes) : 0;
  const bool too_much = fetched_ != 0 && fetched_ + fetched > kMostFetched;
  if (!has_room() || too_much || accesses_.size() >= kMostAccesses) {
    full_ = true;
    return false;
  }
  wire_->await();
  sent_requests_.fetch_add(1, std::memory_order_relaxed);
  Access begun = {end, cookie, fetched, false, {}};
  if (access.kind == OpKind::kRead && fetched >= kDirectBytes) {
    begun.places.assign(access.local.begin(), access.local.end());
  }
  // Nothing before this changes anything if memory is short.
  accesses_.push_back(std::move(begun));
  accesses_.back().elsewhere = end->began_access(this);
  fetched_ += fetched;
  ++accesses_begun_;
  const AccessBody body = {segment,
                           access.addr,
                           static_cast<uint32_t>(access.bytes),
                           access.opcode,
                           static_cast<uint8_t>(access.kind),
                           0};
  const iovec operands = {const_cast<uint64_t*>(access.operand), kOperandBytes};
  ending_where_it_fails([&] {
    mutex_.assume_held();
    if (access.kind == OpKind::kRead) {
      put(body);
    } else if (access.kind == OpKind::kWrite) {
      put(body, access.local, Outbox::Lender{Outbox::kAccess, accesses_begun_});
    } else {
      put(body, {&operands, 1});
    }
  });
  return true;
}

void Connection::incoming_closed(IncomingEnd* end) {
  const MutexLock lock(mutex_);
  // If it is not open yet, opening it comes first, and tells the rest.
  if (gone() || opening_.contains(end->way())) return;
  // The end of a queue must not fail.
  ending_where_it_fails([&] {
    mutex_.assume_held();
    put_owed();
    // If its sender has closed it meanwhile, it is in no list any more.
    ReceivedBody received;
    while (end->take_owed(&received)) put(received);
    if (const auto status = end->take_end()) put(WayClosedBody{end->way(), *status});
    const auto found = incoming_.find(end->way());
    const bool known = found != incoming_.end() && found->second.get() == end;
    if (known && end->over()) incoming_.erase(found);
    flush();
  });
}

// -------------------------------------------------------------------------------------------------
// Bytes that come
// -------------------------------------------------------------------------------------------------

bool Connection::progress(bool to_end) {
  if (gone() || !mutex_.try_lock()) return false;
  const MutexLock lock(mutex_, std::adopt_lock);
  return take_turn(to_end);
}

void Connection::serve() {
  const MutexLock lock(mutex_);
  if (!gone()) take_turn(/*to_end=*/false);
}

bool Connection::take_turn(bool to_end) {
  const uint64_t reads_before = reads_;
  ending_where_it_fails([&] {
    mutex_.assume_held();
    if (std::exchange(reported_, false)) answers_ = false;
    bool more = true;
    for (int reads = 0; more && reads < kReadsPerTurn && !gone(); ++reads) {
      more = receive_some(to_end);
      take_frames();
    }
    if (gone()) return;
    put_owed();
    if (waiting() != 0 || wants_room_ || ahead_) flush();
    // The descriptor does not report these bytes.
    if (!gone() && stream_->has_read_ahead()) {
      engine().service().post([self = shared_from_this()] { self->serve(); });
    }
  });
  return reads_ != reads_before;
}

// False if nothing more arrives now. If the buffer is not filled, these bytes are the last; only
// one more look (`to_end`) tells whether the stream ends after them.
bool Connection::receive_some(bool to_end) {
  size_t come = 0;
  bool all = false;
  const bool bare =
      in_frame_ && in_begin_ == in_end_ && landing_.left >= kDirectBytes && !landing_.faulted;
  if (const auto landed = bare ? land_bare() : std::nullopt) {
    come = *landed + in_end_;
    all = in_end_ < kNextFrame;
  } else if (!gone()) {
    if (in_begin_ != 0) {
      std::copy(in_.begin() + static_cast<ptrdiff_t>(in_begin_),
                in_.begin() + static_cast<ptrdiff_t>(in_end_), in_.begin());
      in_end_ -= std::exchange(in_begin_, 0);
    }
    const uint64_t wanted = (in_frame_ ? landing_.left : 0) + kNextFrame;
    const bool little = bulk_ && wanted < kDirectBytes && in_end_ < wanted;
    const iovec rest = {in_.data() + in_end_, (little ? wanted : in_.size()) - in_end_};
    come = stream_->receive({&rest, 1});
    in_end_ += come;
    all = come < rest.iov_len;
  }
  if (gone()) return false;
  if (come != 0) {
    heard_ = true;
    ++reads_;
    received_bytes_.fetch_add(come, std::memory_order_relaxed);
    return to_end || !all;
  }
  std::string why;
  if (stream_->progress(&why) == StreamState::kLost) lose_stream(why);
  return false;
}

// Into these places, and what follows into the empty buffer. Returns the bytes in the places;
// nothing if the places are not backed.
std::optional<size_t> Connection::receive_behind(std::span<const iovec> places) {
  IovecList all = window(places, 0, UINT64_MAX);
  const size_t bytes = all.bytes();
  const size_t rest = landing_.left - bytes;
  if (rest <= sizeof(uint64_t)) {
    all.add(reinterpret_cast<uint64_t>(in_.data()), rest + kNextFrame, 0, UINT64_MAX);
  }
  in_begin_ = in_end_ = 0;
  const size_t come = stream_->receive(all.list());
  landing_.faulted = stream_->faulted();
  if (landing_.faulted) return std::nullopt;
  in_end_ = come - std::min(come, bytes);
  return come - in_end_;
}

// Whether bytes of this frame go from the stream to granted memory.
bool Connection::lands() const {
  return landing_.kind == FrameKind::kAccess && landing_.into == nullptr &&
         landing_.status == URMA_CR_SUCCESS && stream_->tells_faults() && !landing_.faulted;
}

// Nothing if the next bytes of the frame have to pass through the buffer.
std::optional<size_t> Connection::land_bare() {
  if (lands()) return land_write();
  return land(landing_.left, [this](std::span<const iovec> places) {
    mutex_.assume_held();
    return receive_behind(places);
  });
}

// Calls come() with the places of the next bytes of the frame, at most `most`. Nothing if it
// returns nothing, or there are none.
template <typename Come>
std::optional<size_t> Connection::land(uint64_t most, const Come& come) {
  std::optional<size_t> landed;
  if (landing_.into != nullptr) {
    const iovec place = {landing_.into, most};
    landed = come({&place, 1});
    landing_.into += landed.value_or(0);
  } else if (landing_.placing) {
    landed = come(window(accesses_.front().places, landing_.done, most).list());
    landing_.done += landed.value_or(0);
    if (!landed.has_value()) give_up("the memory that a read fills has gone");
  } else if (landing_.way != nullptr) {
    landed = landing_.way->land(most, come);
  }
  landing_.left -= landed.value_or(0);
  return landed;
}

// What is not backed passes through the buffer, piece by piece: execute() looks at each.
std::optional<size_t> Connection::land_write() {
  const auto asked = body<AccessBody>();
  const uint64_t bytes = landing_.left - landing_.last;
  const uint64_t at = asked.addr + landing_.done;
  std::optional<size_t> come;
  landing_.status =
      engine().execute_with(grants_, asked.ref, OpKind::kWrite, at, bytes, [&](void* place) {
        mutex_.assume_held();
        const iovec piece = {place, bytes};
        come = receive_behind({&piece, 1});
      });
  // Pairs with the acquire that the program makes: the last word comes after this.
  std::atomic_thread_fence(std::memory_order_release);
  landing_.done += come.value_or(0);
  landing_.left -= come.value_or(0);
  return come;
}

void Connection::take_frames() {
  while (!gone()) {
    if (!in_frame_ && !begin_frame()) return;
    if (gone() || !feed()) return;
    in_frame_ = false;
    if (!take(landing_.kind) && !gone()) break_off("unrequested frame");
    if (waiting() > kMostAnswers && !gone()) break_off("it does not take its answers");
    landing_.way.reset();
    landing_.held = {};
  }
  if (!gone() && waiting() > kManyAnswers) static_cast<void>(may_hold(0));
}

// False if more has to arrive first.
bool Connection::begin_frame() {
  const size_t come = in_end_ - in_begin_;
  Head head;
  if (come < sizeof(head)) return false;
  std::memcpy(&head, in_.data() + in_begin_, sizeof(head));
  if (!plausible(head)) {
    break_off("unknown frame");
    return true;
  }
  const uint32_t body = shape_of(head.kind).body;
  if (come < sizeof(head) + body) return false;
  std::memcpy(landing_.body, in_.data() + in_begin_ + sizeof(head), body);
  in_begin_ += sizeof(head) + body;
  landing_.kind = head.kind;
  landing_.left = head.bytes - body;
  landing_.into = nullptr;
  landing_.faulted = false;
  bulk_ = landing_.left >= kDirectBytes;
  in_frame_ = true;
  if (!begin(head.kind)) break_off("invalid size, id or count");
  return true;
}

// True once the whole frame has arrived.
bool Connection::feed() {
  const bool writes = landing_.kind == FrameKind::kAccess && landing_.into == nullptr;
  for (;;) {
    const size_t bytes = std::min<uint64_t>(in_end_ - in_begin_, landing_.left);
    const std::span<const char> come(in_.data() + in_begin_, bytes);
    if (bytes == 0) return landing_.left == 0;
    if (writes) return feed_write(come);
    auto landed = land(bytes, [&](std::span<const iovec> places) {
      std::optional<size_t> copied = 0;
      for (const iovec& place : places) {
        std::memcpy(place.iov_base, come.data() + *copied, place.iov_len);
        *copied += place.iov_len;
      }
      return copied;
    });
    // Only the places of a large message can be gone.
    if (landed.value_or(0) == 0) {
      landing_.way->skip(bytes);
      landing_.left -= bytes;
      landed = bytes;
    }
    in_begin_ += *landed;
    if (landing_.left == 0) return true;
  }
}

// Executes the part of a write that has arrived, up to the end of a word if more follows.
bool Connection::feed_write(std::span<const char> come) {
  const auto asked = body<AccessBody>();
  const uint64_t at = asked.addr + landing_.done;
  size_t bytes = come.size();
  if (bytes < landing_.left && landing_.left >= kDirectBytes && lands()) {
    // Nothing stays before what can land.
    bytes = std::min(bytes, landing_.left - landing_.last);
    if (bytes == 0) return false;
  } else if (bytes < landing_.left) {
    if (bytes < kWriteStep) return false;
    bytes -= (at + bytes) % sizeof(uint64_t);
  }
  const iovec local = {const_cast<char*>(come.data()), bytes};
  const WireAccess access = {OpKind::kWrite, asked.opcode, at, bytes, {}, {&local, 1}};
  if (landing_.status == URMA_CR_SUCCESS) {
    landing_.status = engine().execute(grants_, asked.ref, access, &landing_.bytes);
  }
  landing_.done += bytes;
  in_begin_ += bytes;
  landing_.left -= bytes;
  return landing_.left == 0 || feed();
}

}  // namespace urma::tcp
