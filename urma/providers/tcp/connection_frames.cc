// SPDX-License-Identifier: MIT
//
// The meaning of a peer's frames; each is checked before anything is done.
#include <algorithm>
#include <utility>

#include "urma/base/log.h"
#include "urma/providers/tcp/connection.h"
#include "urma/providers/tcp/wire.h"

namespace urma::tcp {
namespace {

// Of a map, about.
constexpr uint64_t kOfAnEntry = 48;

bool is_answer(uint32_t answer) { return answer <= static_cast<uint32_t>(Answer::kUnreachable); }

bool is_outcome(uint32_t status) { return status <= URMA_CR_WR_FLUSH_ERR; }

bool is_target(uint32_t type) { return type <= URMA_JETTY_GROUP; }

}  // namespace

bool Connection::begin(FrameKind kind) {
  switch (kind) {
    case FrameKind::kMessage:
      return begin_message();
    case FrameKind::kPart:
      return begin_part();
    case FrameKind::kAccess:
      return begin_access();
    case FrameKind::kDone:
      return begin_done();
    default:
      return true;
  }
}

bool Connection::begin_message() {
  const auto message = body<MessageBody>();
  const auto way = incoming_.find(message.way);
  if (way == incoming_.end() || opening_.contains(message.way)) return false;
  if (!way->second->may_hold(landing_.left)) return false;
  if (!may_hold(landing_.left)) return true;
  const auto bytes = static_cast<uint32_t>(landing_.left);
  Message& head = landing_.held.head;
  head = {static_cast<MessageKind>(message.kind),
          message.flags,
          1,
          message.length,
          bytes,
          message.immediate};
  if (!is_whole(head) && !(is_announced(head) && head.length > kLargestInline)) return false;
  landing_.held.charge = charge(bytes + sizeof(Held));
  landing_.held.payload = wire_->payloads().take(bytes);
  landing_.into = landing_.held.payload.bytes.get();
  landing_.way = way->second;
  return true;
}

// False if the connection has ended, because peers hold too much in all. A little is always
// allowed.
bool Connection::may_hold(uint64_t more) {
  constexpr uint64_t kAlways = 128 << 10;
  const uint64_t held = HeldBytes::of_all();
  if (held <= wire_->most_held()) return true;
  wire_->relieve();
  if (held <= 2 * wire_->most_held() || holds() + more <= kAlways) return true;
  give_up("what peers hold leaves no memory for others");
  return false;
}

bool Connection::begin_part() {
  const auto way = incoming_.find(body<PartBody>().way);
  if (way == incoming_.end() || !way->second->begin_part(landing_.left)) return false;
  landing_.way = way->second;
  return true;
}

bool Connection::begin_access() {
  const auto asked = body<AccessBody>();
  if (asked.ref.index >= kMaxSegments || asked.bytes == 0 || asked.bytes > kCopyPerTurn) {
    return false;
  }
  landing_.done = 0;
  landing_.status = URMA_CR_SUCCESS;
  landing_.bytes.clear();
  switch (static_cast<OpKind>(asked.kind)) {
    case OpKind::kRead:
      return landing_.left == 0;
    case OpKind::kWrite:
      landing_.last = (asked.addr + asked.bytes - 1) % sizeof(uint64_t) + 1;
      // What is refused changes nothing, though its first bytes may have a place.
      if (in_end_ - in_begin_ < landing_.left) {
        landing_.status = engine().execute_with(grants_, asked.ref, OpKind::kWrite, asked.addr,
                                                asked.bytes, [](void* /*place*/) {});
      }
      return landing_.left == asked.bytes;
    case OpKind::kAtomic:
    case OpKind::kWriteAtomic:
      landing_.into = reinterpret_cast<char*>(landing_.operand);
      return landing_.left == kOperandBytes;
    default:
      return false;
  }
}

bool Connection::begin_done() {
  const auto done = body<DoneBody>();
  if (done.count == 0 || done.count > accesses_.size() || !is_outcome(done.status)) return false;
  if (landing_.left == 0) return true;
  if (done.count != 1 || landing_.left > accesses_.front().fetches) return false;
  landing_.done = 0;
  // An atomic of the peer may have left its result there.
  landing_.bytes.clear();
  landing_.placing = landing_.left == total(accesses_.front().places);
  if (landing_.placing) return true;
  landing_.bytes.resize(landing_.left);
  landing_.into = landing_.bytes.data();
  return true;
}

bool Connection::take(FrameKind kind) {
  switch (kind) {
    case FrameKind::kHello:
      if (std::exchange(greeted_, true)) return false;
      wire_->kept(shared_from_this());
      return true;
    case FrameKind::kPing:
      put(PongBody{});
      return true;
    case FrameKind::kPong:
      return true;
    case FrameKind::kFind:
      take_find(body<FindBody>());
      return true;
    case FrameKind::kProbe:
      take_probe(body<ProbeBody>());
      return true;
    case FrameKind::kAskGrant:
      take_ask_grant(body<AskGrantBody>());
      return true;
    case FrameKind::kAnswer:
      return take_answer(body<AnswerBody>());
    case FrameKind::kEnded:
      return take_ended(body<EndedBody>().ref);
    case FrameKind::kOpenWay:
      return take_open_way(body<OpenWayBody>());
    case FrameKind::kWayOpened:
      return take_way_opened(body<WayOpenedBody>());
    case FrameKind::kMessage:
      received_requests_.fetch_add(1, std::memory_order_relaxed);
      landing_.way->hold(std::move(landing_.held));
      return true;
    case FrameKind::kPull: {
      const auto way = sending_.find(body<PullBody>().way);
      return way != sending_.end() && way->second->pulled();
    }
    case FrameKind::kPart:
      landing_.way->part_ended();
      return true;
    case FrameKind::kReceived:
      return take_received(body<ReceivedBody>());
    case FrameKind::kCloseWay:
      return take_close_way(body<CloseWayBody>());
    case FrameKind::kWayClosed:
      return take_way_closed(body<WayClosedBody>());
    case FrameKind::kAccess:
      received_requests_.fetch_add(1, std::memory_order_relaxed);
      execute();
      return true;
    case FrameKind::kDone:
      return take_done();
  }
  return false;
}

void Connection::take_find(const FindBody& asked) {
  const bool ours =
      asked.kind < kIdKinds && wire_->owns(static_cast<IdKind>(asked.kind), asked.eid, asked.id);
  const Answer answer = ours ? Answer::kAccepted : Answer::kNoSuchObject;
  put(AnswerBody{asked.ticket, static_cast<uint32_t>(answer), {}, 0, 0, 0, 0});
}

void Connection::take_probe(const ProbeBody& asked) {
  if (asked_ >= kMostTickets) return break_off("too many requests at once");
  ++asked_;
  post_or_end([asked](Connection* self) {
    const bool known = is_target(asked.target.type);
    const Answer answer = known ? self->engine().judge(asked.target) : Answer::kMalformed;
    const MutexLock lock(self->mutex_);
    if (self->gone()) return;
    --self->asked_;
    self->put(AnswerBody{asked.ticket, static_cast<uint32_t>(answer), {}, 0, 0, 0, 0});
    self->flush();
  });
}

void Connection::take_ask_grant(const AskGrantBody& asked) {
  SegmentGrant grant = {};
  const Answer answer =
      engine().grant({asked.eid, asked.token_id, asked.token, {asked.va, asked.len, asked.access}},
                     who(), &grants_, &grant);
  put(AnswerBody{asked.ticket, static_cast<uint32_t>(answer), grant.ref, grant.base, grant.len,
                 grant.access, 0});
}

bool Connection::take_answer(const AnswerBody& answer) {
  const auto ticket = tickets_.find(answer.ticket);
  if (ticket == tickets_.end() || !is_answer(answer.answer)) return false;
  engine().service().post([answered = ticket->second, answer] {
    answered(static_cast<Answer>(answer.answer), answer);
  });
  tickets_.erase(ticket);
  return true;
}

bool Connection::take_ended(const SegmentRef& ref) {
  if (ref.index >= kMaxSegments) return false;
  {
    const MutexLock lock(ended_mutex_);
    const auto [last, first] = ended_.try_emplace(ref.index, ref.generation);
    if (first) ended_held_ = charge(ended_.size() * kOfAnEntry);
    if (!first && is_newer(ref.generation, last->second)) last->second = ref.generation;
    any_ended_.store(true, std::memory_order_relaxed);
  }
  static_cast<void>(may_hold(0));
  return true;
}

bool Connection::take_open_way(const OpenWayBody& asked) {
  if (incoming_.contains(asked.way) || opening_.contains(asked.way)) return false;
  if (incoming_.size() + opening_.size() >= kMostWays) {
    put(WayOpenedBody{asked.way, static_cast<uint32_t>(Answer::kNoResources), 0});
    return true;
  }
  opening_.insert(asked.way);
  if (!may_hold(0)) return true;
  post_or_end([asked](Connection* self) { self->accept_way(asked); });
  return true;
}

void Connection::accept_way(const OpenWayBody& asked) {
  WayRequest request;
  static_cast<ProbeTarget&>(request) = asked.target;
  request.sender = {asked.sender_eid, asked.sender_uasid, asked.sender_id};
  request.rnr_retry = asked.rnr_retry;
  request.hint = asked.hint;
  const auto way =
      std::make_shared<IncomingEnd>(shared_from_this(), asked.way, &engine().segments());
  // Before its receiver can end it.
  {
    const MutexLock lock(mutex_);
    if (gone()) return;
    incoming_[asked.way] = way;
  }
  uint32_t members = 0;
  const Answer answer = engine().accept(request, way, &members);
  const MutexLock lock(mutex_);
  if (gone()) return way->abandon();
  opening_.erase(asked.way);
  if (answer != Answer::kAccepted) incoming_.erase(asked.way);
  put(WayOpenedBody{asked.way, static_cast<uint32_t>(answer), members});
  // Its receiver may have ended meanwhile.
  if (const auto status = way->take_end()) put(WayClosedBody{asked.way, *status});
  flush();
}

bool Connection::take_way_opened(const WayOpenedBody& opened) {
  const auto way = sending_.find(opened.way);
  uint32_t members;
  if (way == sending_.end() || !is_answer(opened.answer) ||
      way->second->answer(&members).has_value()) {
    return false;
  }
  const auto answer = static_cast<Answer>(opened.answer);
  if (way->second->answered(answer, opened.members)) put(CloseWayBody{opened.way});
  if (answer != Answer::kAccepted) sending_.erase(way);
  wire_->serve_senders();
  return true;
}

bool Connection::take_received(const ReceivedBody& received) {
  const auto way = sending_.find(received.way);
  if (way == sending_.end() || received.count == 0 || !is_outcome(received.status)) return false;
  // No honest peer has received what has not left.
  if (out_.lent_until(way->second->last_of(received.count))) out_.take_in();
  return way->second->received(received.count, static_cast<urma_cr_status_t>(received.status));
}

bool Connection::take_close_way(const CloseWayBody& closed) {
  const auto way = incoming_.find(closed.way);
  if (way == incoming_.end() || opening_.contains(closed.way)) return false;
  if (!way->second->sender_closed()) return false;
  if (way->second->over()) {
    incoming_.erase(way);
  } else {
    way->second->abandon();
    engine().take_over();
  }
  return true;
}

bool Connection::take_way_closed(const WayClosedBody& closed) {
  const auto way = sending_.find(closed.way);
  if (way == sending_.end() || !is_outcome(closed.status)) return false;
  bool untold = false;
  out_.take_in();
  if (!way->second->closed(static_cast<urma_cr_status_t>(closed.status), &untold)) return false;
  if (untold) put(CloseWayBody{closed.way});
  sending_.erase(way);
  return true;
}

void Connection::execute() {
  const auto asked = body<AccessBody>();
  const auto kind = static_cast<OpKind>(asked.kind);
  if (kind == OpKind::kRead) {
    landing_.status =
        engine().execute_with(grants_, asked.ref, kind, asked.addr, asked.bytes, [&](void* place) {
          mutex_.assume_held();
          answer_access(URMA_CR_SUCCESS, {place, asked.bytes});
        });
    if (landing_.status == URMA_CR_SUCCESS) return;
  } else if (kind != OpKind::kWrite) {
    WireAccess access = {kind, asked.opcode, asked.addr, asked.bytes, {}, {}};
    std::memcpy(access.operand, landing_.operand, kOperandBytes);
    landing_.status = engine().execute(grants_, asked.ref, access, &landing_.bytes);
  }
  answer_access(landing_.status, {landing_.bytes.data(), landing_.bytes.size()});
}

void Connection::answer_access(urma_cr_status_t status, iovec payload) {
  if (status == URMA_CR_SUCCESS && payload.iov_len == 0) {
    ++done_;
    return;
  }
  if (done_ != 0) put(DoneBody{std::exchange(done_, 0), URMA_CR_SUCCESS});
  if (status != URMA_CR_SUCCESS) payload.iov_len = 0;
  put(DoneBody{1, static_cast<uint32_t>(status)}, {&payload, 1});
}

bool Connection::take_done() {
  const auto done = body<DoneBody>();
  const auto status = static_cast<urma_cr_status_t>(done.status);
  // No honest peer has executed what has not left.
  const uint64_t last = accesses_begun_ - accesses_.size() + done.count;
  if (out_.lent_until({Outbox::kAccess, last})) out_.take_in();
  for (uint32_t i = 0; i < done.count; ++i) {
    const Access& access = accesses_.front();
    WireReport report = {access.cookie, status, {}};
    if (landing_.into != nullptr) report.bytes = std::move(landing_.bytes);
    if (std::exchange(landing_.placing, false)) report.placed = landing_.done;
    access.end->done(std::move(report), access.elsewhere);
    // Last: what is not reported ends with the connection.
    fetched_ -= access.fetches;
    accesses_.pop_front();
  }
  landing_.bytes.clear();
  if (std::exchange(full_, false)) wire_->engine().take_over();
  return true;
}

}  // namespace urma::tcp
