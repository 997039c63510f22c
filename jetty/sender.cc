// SPDX-License-Identifier: MIT
#include "jetty/sender.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "jetty/transport.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {
namespace {

// Rounds in which a receiver can be asked, and answer.
constexpr uint32_t kRoundsInFlight = 8;

// Fills in the operands of an atomic, and the immediate of other requests.
void fill_operands(const urma_jfs_wr_t& wr, const RequestView& view, SendEntry* entry) {
  if (view.kind != OpKind::kAtomic) {
    entry->operand[0] = view.immediate;
  } else if (view.bytes > sizeof(uint64_t)) {
    std::memcpy(&entry->operand[0], reinterpret_cast<const void*>(wr.cas.cmp_addr), view.bytes);
    std::memcpy(&entry->operand[2], reinterpret_cast<const void*>(wr.cas.swap_addr), view.bytes);
  } else {
    // faa.operand lies where cas.cmp_data does.
    entry->operand[0] = wr.cas.cmp_data;
    entry->operand[2] = replaces(wr.opcode) ? wr.cas.swap_data : 0;
  }
}

// Takes a reference, dropped when the path is through with the request, to an imported segment; or
// the key of one that the path looks up. False, with one log line, if it is neither.
bool name_segment(const urma_sge_t& sge, ImportedSegment** segment, TokenKey* key) {
  if (sge.tseg == nullptr) {
    *key = {sge.user_tseg->token_id, sge.user_tseg->token_value.token};
    return true;
  }
  auto& handle = static_cast<SegmentHandle&>(*sge.tseg);
  if (handle.registered) {
    URMA_LOG_LIMITED(ERR,
                     "post: the remote sge names a segment that was registered here; import it "
                     "first");
    return false;
  }
  auto& imported = static_cast<ImportedSegment&>(handle);
  imported.add_ref();
  *segment = &imported;
  return true;
}

// From this number on, an idle path to members of a group is dropped for a new one: a program may
// use any number of hints.
constexpr size_t kMaxIdlePaths = 64;
// A sender that takes the members of a group in turn asks who they are once in this many turns.
constexpr uint32_t kTurnsPerLook = 64;

// Atomics have no field for a hint.
uint8_t hint_of(const urma_jfs_wr_t& wr) {
  switch (wr.opcode) {
    case URMA_OPC_SEND:
    case URMA_OPC_SEND_IMM:
    case URMA_OPC_SEND_INVALIDATE:
      return wr.send.target_hint;
    case URMA_OPC_WRITE:
    case URMA_OPC_WRITE_IMM:
    case URMA_OPC_WRITE_NOTIFY:
    case URMA_OPC_WRITE_ATOMIC:
    case URMA_OPC_READ:
      return wr.rw.target_hint;
    default:
      return 0;
  }
}

}  // namespace

TargetPath::TargetPath(SendQueue* queue, RemoteQueue* target, uint32_t hint)
    : SendPath(queue->record_of(target->id, target->tp.tpn)),
      queue_(queue),
      target_(target),
      // A path to a group is never taken for that to another member.
      serial_(target->type == URMA_JETTY_GROUP ? target->transport->next_serial() : target->serial),
      hint_(hint) {
  target_->add_ref();
}

TargetPath::~TargetPath() {
  while (!idle()) take_first();
  target_->drop_ref();
}

const urma_target_jetty_t Sender::kNobody = {};

Sender::Sender(Transport* transport, const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
               const urma_jetty_id_t& id, uint64_t max_message)
    : transport_(transport), cfg_(cfg), id_(id), queue_(cfg, identity, max_message) {
  transport_->add_sender(this);
}

// Nobody else uses it any more.
void Sender::end() URMA_NO_THREAD_SAFETY_ANALYSIS {
  transport_->remove_sender(this);
  paths_.clear();
}

urma_status_t Sender::take_in(const urma_jfs_wr_t& wr, TargetPath** path) noexcept {
  return guarded(URMA_LOG_SITE, [&] {
    lock().assume_held();
    return check_and_take(wr, path);
  });
}

urma_status_t Sender::check_and_take(const urma_jfs_wr_t& wr, TargetPath** taken) {
  *taken = nullptr;
  RequestView view;
  const urma_status_t refused = view_request(wr, queue_.limits(), &view);
  if (refused != URMA_SUCCESS) return refused;
  if (refuses(wr)) return URMA_EINVAL;
  RemoteQueue* target = target_of(wr);
  if (target == nullptr) return URMA_EINVAL;
  SendEntry* entry = queue_.reserve();
  if (entry == nullptr) {
    found_full();
    URMA_LOG_LIMITED(WARNING,
                     "post: queue {:#x} already holds its depth of {} requests; poll its "
                     "JFC first",
                     id_.id, cfg_.depth);
    return URMA_ENOMEM;
  }
  TargetPath* path =
      target->type == URMA_JETTY_GROUP ? path_to_member(target, hint_of(wr)) : path_to(target);
  const urma_status_t status = fill(wr, view, entry);
  if (status != URMA_SUCCESS) {
    // If the queue is stopped, the short way stays shut.
    shut_short_way();
    return status;
  }
  entry->path = path;
  if (queue_.state() != URMA_JETTY_STATE_READY) [[unlikely]] {
    post_stopped(entry, path);
    return URMA_SUCCESS;
  }
  queue_.commit(entry);
  path->enqueue(entry);
  *taken = path;
  return URMA_SUCCESS;
}

void Sender::go_on(TargetPath* path) {
  const bool waiting = path->advance();
  if (waiting) queue_.set_waiting();
  queue_.announce();
  if (waiting || jfc().armed()) look_after();
}

void Sender::look_after() {
  // Sequentially consistent, as the accesses in serve() and tick(): either this thread sees that
  // no tick is due and starts one, or the tick sees that this sender has something pending.
  // SYNC(pending): pairs with the exchange in leave_to_polls().
  if (pending_.exchange(true)) return;
  const urma_status_t watched = guarded(URMA_LOG_SITE, [this] {
    transport_->watch_pending();
    return URMA_SUCCESS;
  });
  // The next post, or the arming of who sleeps, tries it again.
  if (watched != URMA_SUCCESS) pending_.store(false);
}

// True, with one log line, if the queue's mode does not support the request.
bool Sender::refuses(const urma_jfs_wr_t& wr) const {
  if (cfg_.trans_mode != URMA_TM_UM || wr.opcode == URMA_OPC_SEND ||
      wr.opcode == URMA_OPC_SEND_IMM || wr.opcode == URMA_OPC_NOP) {
    return false;
  }
  URMA_LOG_LIMITED(ERR,
                   "post: opcode {:#x} on queue {:#x} of mode UM; it takes SEND, SEND_IMM and NOP, "
                   "use URMA_TM_RM for others",
                   static_cast<int>(wr.opcode), id_.id);
  return true;
}

// NULL, with one log line, if the request has none.
RemoteQueue* Sender::target_of(const urma_jfs_wr_t& wr) const {
  if (cfg_.trans_mode == URMA_TM_RC) {
    if (bound_ == nullptr) {
      URMA_LOG_LIMITED(ERR, "post: RC jetty {:#x} has no peer; call urma_bind_jetty first", id_.id);
    }
    return bound_;
  }
  if (wr.tjetty == nullptr) {
    URMA_LOG_LIMITED(ERR, "post: tjetty is NULL; in RM and UM mode each request names its target");
  }
  return static_cast<RemoteQueue*>(wr.tjetty);
}

void Sender::bind(RemoteQueue* target) {
  ForeignScope scope(lock());
  bound_ = target;
  // A path left from an earlier bind would name the number of that bind's channel.
  shut_short_way();
  for (const auto& path : paths_) path->retire();
}

void Sender::unbind() {
  ForeignScope scope(lock());
  bound_ = nullptr;
  shut_short_way();
  flush_paths();
  queue_.announce();
  // As in set_state().
  if (!queue_.empty()) look_after();
}

urma_status_t Sender::fill(const urma_jfs_wr_t& wr, const RequestView& view, SendEntry* entry) {
  *entry = {};
  entry->user_ctx = wr.user_ctx;
  entry->bytes = view.bytes;
  entry->kind = view.kind;
  entry->opcode = static_cast<uint8_t>(wr.opcode);
  entry->signalled = wr.flag.bs.complete_enable != 0;
  entry->solicited = wr.flag.bs.solicited_enable != 0;
  entry->fence = wr.flag.bs.fence != 0;
  entry->strong = wr.flag.bs.place_order == URMA_STRONG_ORDER;
  if (wr.flag.bs.inline_flag != 0) {
    for (const urma_sge_t& sge : view.local) {
      std::memcpy(SendQueue::inline_data(entry) + entry->inline_bytes,
                  reinterpret_cast<const void*>(sge.addr), sge.len);
      entry->inline_bytes += sge.len;
    }
  } else {
    entry->pieces = static_cast<uint16_t>(view.local.size());
    for (size_t i = 0; i < view.local.size(); ++i) {
      if (!local_piece(view.local[i], &SendQueue::pieces(entry)[i])) return URMA_EINVAL;
    }
  }
  fill_operands(wr, view, entry);
  return fill_remote(wr, view, entry);
}

urma_status_t Sender::fill_remote(const urma_jfs_wr_t& wr, const RequestView& view,
                                  SendEntry* entry) {
  if (wr.opcode == URMA_OPC_SEND_INVALIDATE) {
    auto& segment = static_cast<ImportedSegment&>(static_cast<SegmentHandle&>(*wr.send.tseg));
    segment.add_ref();
    entry->remote = &segment;
    entry->operand[0] =
        std::bit_cast<uint64_t>(TokenKey{segment.seg.token_id, segment.token().token});
  }
  if (view.remote == nullptr) return URMA_SUCCESS;
  entry->remote_addr = view.remote->addr;
  if (!name_segment(*view.remote, &entry->remote, &entry->key)) return URMA_EINVAL;
  if (view.notified == nullptr) return URMA_SUCCESS;
  entry->notified_addr = view.notified->addr;
  if (name_segment(*view.notified, &entry->notified, &entry->notified_key)) return URMA_SUCCESS;
  if (entry->remote != nullptr) entry->remote->drop_ref();
  return URMA_EINVAL;
}

TargetPath* Sender::path_to(RemoteQueue* target) {
  const bool last = last_path_ != nullptr && last_path_->serial() == target->serial;
  if (last && !last_path_->is_over()) return last_path_;
  for (const auto& path : paths_) {
    if (path->serial() != target->serial) continue;
    if (path->is_over()) {
      path->retire();
      break;
    }
    // The import that the path was made for; others of the same queue are found by their serial.
    return take_short_way(path.get(), path->leads_to(target) ? target : &kNobody);
  }
  shut_short_way();
  std::erase_if(paths_, [](const auto& path) { return path->unused(); });
  return take_short_way(add_path(target, 0), target);
}

TargetPath* Sender::add_path(RemoteQueue* target, uint32_t hint) {
  paths_.push_back(make_path(target, hint));
  uint32_t near = 0;
  uint32_t far = 0;
  for (const auto& path : paths_) {
    if (path->serial() != 0 && !path->is_over()) ++(path->is_near() ? near : far);
  }
  // Relaxed: figures to show.
  near_ways_.store(near, std::memory_order_relaxed);
  far_ways_.store(far, std::memory_order_relaxed);
  return paths_.back().get();
}

void Sender::report(urma_ext_queue_t* queue) const {
  queue_.report(queue);
  queue->near_ways = near_ways_.load(std::memory_order_relaxed);
  queue->far_ways = far_ways_.load(std::memory_order_relaxed);
}

// One path for each hint. The owner decides where it leads when the path needs a ring.
TargetPath* Sender::path_to_member(RemoteQueue* group, uint32_t hint) {
  // Relaxed: the turns of concurrent senders may come in any order.
  bool look = false;
  if (group->policy == URMA_JETTY_GRP_POLICY_RR) {
    const uint32_t turn = group->next_turn.fetch_add(1, std::memory_order_relaxed);
    const uint32_t members = group->members.load(std::memory_order_relaxed);
    hint = turn % (members != 0 ? members : URMA_MAX_JETTY_IN_JETTY_GRP);
    look = turn % kTurnsPerLook == kTurnsPerLook - 1;
  }
  const auto is_stale = [=](const TargetPath& path) {
    return ((look && path.entries == 0) || path.is_over()) && path.leads_to(group, hint);
  };
  for (const auto& path : paths_) {
    if (path->leads_to(group, hint) && !is_stale(*path)) {
      return take_short_way(path.get(), &kNobody);
    }
  }
  shut_short_way();
  std::erase_if(paths_, [=](const auto& path) {
    return path->unused() || (path->entries == 0 && is_stale(*path));
  });
  make_room(group);
  return take_short_way(add_path(group, hint), &kNobody);
}

// Drops the oldest idle path to a group, if there are many.
void Sender::make_room(const RemoteQueue* group) {
  const auto paths = std::count_if(paths_.begin(), paths_.end(),
                                   [=](const auto& path) { return path->leads_to(group); });
  if (static_cast<size_t>(paths) < kMaxIdlePaths) return;
  const auto oldest = std::find_if(paths_.begin(), paths_.end(), [=](const auto& path) {
    return path->entries == 0 && path->leads_to(group);
  });
  if (oldest != paths_.end()) paths_.erase(oldest);
}

auto Sender::serve() -> Look {
  const bool asleep = jfc().armed() && !queue_.empty();
  if (!pending_.load() && !asleep) return Look::kNever;
  const uint64_t polls = jfc().polls();
  if (polls != polls_seen_) {
    polls_seen_ = polls;
    if (queue_.waiting()) return Look::kSoon;
    // The program looks after what is in flight.
    if (rounds_in_flight_ != 0 && !asleep) {
      rounds_in_flight_ = 0;
      return leave_to_polls();
    }
  }
  ForeignScope scope(lock());
  for (const auto& path : paths_) path->insist();
  // Requests in flight of a sleeping program are looked after too, and for a while those that were
  // published here: their receiver may need a hint.
  const bool unfinished = queue_.advance_paths() || (jfc().armed() && !queue_.empty());
  rounds_in_flight_ = unfinished || queue_.empty() ? 0 : rounds_in_flight_ + 1;
  const bool waiting =
      unfinished || (rounds_in_flight_ != 0 && rounds_in_flight_ < kRoundsInFlight);
  if (!waiting) rounds_in_flight_ = 0;
  pending_.store(waiting);
  if (!waiting) return Look::kNever;
  if (!jfc().armed() || has_moved()) return Look::kSoon;
  const bool wakes = std::ranges::all_of(
      paths_, [](const auto& path) { return path->outstanding == 0 || path->wakes(); });
  return wakes ? Look::kLater : Look::kSoon;
}

// A request may have begun to wait since the last look, and have found the sender pending.
auto Sender::leave_to_polls() -> Look {
  // SYNC(pending): what was stored before each look_after() that found it set is visible after an
  // exchange. A store would let the look at the requests pass it.
  pending_.exchange(false);
  if (!queue_.waiting()) return Look::kNever;
  pending_.store(true);
  return Look::kSoon;
}

// Since the last call.
bool Sender::has_moved() {
  uint64_t mark = queue_.posted() * 31 + queue_.retired();
  for (const auto& path : paths_) mark = mark * 31 + path->mark();
  return std::exchange(mark_seen_, mark) != mark;
}

bool Sender::serve_armed() {
  if (!jfc().armed() || queue_.empty()) return false;
  ForeignScope scope(lock());
  queue_.advance_paths();
  // What has ended may be what a fence on another path waits for.
  return jfc().armed() && (queue_.more() || (queue_.waiting() && has_moved()));
}

urma_status_t Sender::advise(RemoteQueue* target) {
  transport_->connect_ahead(*target);
  return URMA_SUCCESS;
}

void Sender::quiesce(OwnerBarrier* barrier) {
  if (!queue_.empty()) lock().await_others(barrier);
}

// -------------------------------------------------------------------------------------------------
// States
// -------------------------------------------------------------------------------------------------

bool change_allowed(urma_jetty_state_t from, urma_jetty_state_t to) {
  switch (to) {
    case URMA_JETTY_STATE_RESET:
    case URMA_JETTY_STATE_READY:
    case URMA_JETTY_STATE_ERROR:
      return true;
    case URMA_JETTY_STATE_SUSPENDED:
      return from == URMA_JETTY_STATE_READY || from == URMA_JETTY_STATE_SUSPENDED;
  }
  return false;
}

void Sender::set_state(urma_jetty_state_t state) {
  ForeignScope scope(lock());
  if (queue_.state() == state) return;
  // The short way is open only to requests for the path of the last one.
  shut_short_way();
  if (state == URMA_JETTY_STATE_READY) {
    queue_.resume();
    if (queue_.advance_paths()) look_after();
    return;
  }
  if (state == URMA_JETTY_STATE_RESET) {
    for (const auto& path : paths_) path->drop();
    queue_.reset();
  } else {
    flush_paths();
    queue_.stop(state);
  }
  queue_.announce();
  // Polls, or otherwise the service thread from time to time, ask for what a peer has to answer
  // first.
  if (!queue_.empty()) look_after();
}

urma_jetty_state_t Sender::state() {
  ForeignScope scope(lock());
  return queue_.state();
}

int Sender::hand_back(int count, urma_cr_t* cr) {
  OwnerScope scope(lock());
  return queue_.hand_back(count, cr);
}

uint64_t Sender::posted() {
  ForeignScope scope(lock());
  return queue_.posted();
}

uint64_t Sender::retired() {
  ForeignScope scope(lock());
  return queue_.retired();
}

void Sender::flush_paths() {
  for (const auto& path : paths_) path->flush();
}

// A suspended queue keeps the request for later, any other queue gives it back.
void Sender::post_stopped(SendEntry* entry, TargetPath* path) {
  shut_short_way();
  queue_.commit(entry);
  if (queue_.state() == URMA_JETTY_STATE_SUSPENDED) return path->enqueue(entry);
  TargetPath::drop_segments(entry);
  queue_.complete(entry, URMA_CR_WR_FLUSH_ERR);
  queue_.announce();
}

}  // namespace urma
