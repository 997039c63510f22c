// SPDX-License-Identifier: MIT
//
// The short way of the most frequent requests: one registered piece of memory, or a few bytes
// inline, over an open connection, with nothing to wait for; and of their completions. Both call
// nothing but the device.
#include <algorithm>
#include <cstring>

#include "jetty/simple_request.h"
#include "urma/providers/verbs/path.h"
#include "urma/providers/verbs/remote_region.h"

namespace urma::verbs {
namespace {

constexpr bool is_atomic_opcode(urma_opcode_t opcode) {
  return opcode == URMA_OPC_CAS || opcode == URMA_OPC_FADD;
}

constexpr OpKind kind_as(urma_opcode_t opcode) {
  if (is_atomic_opcode(opcode)) return OpKind::kAtomic;
  if (opcode == URMA_OPC_SEND) return OpKind::kSend;
  return opcode == URMA_OPC_READ ? OpKind::kRead : OpKind::kWrite;
}

constexpr ibv_wr_opcode opcode_of(urma_opcode_t opcode) {
  switch (opcode) {
    case URMA_OPC_SEND:
      return IBV_WR_SEND;
    case URMA_OPC_READ:
      return IBV_WR_RDMA_READ;
    case URMA_OPC_CAS:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case URMA_OPC_FADD:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    default:
      return IBV_WR_RDMA_WRITE;
  }
}

// The differences between short requests: for one posted alone, known at compile time.
template <bool kInline>
struct FlagsAlone {
  static constexpr unsigned kSendFlags = IBV_SEND_SIGNALED;
  static constexpr bool is_inline = kInline;
  static constexpr bool signalled = true;
  static constexpr bool solicited = false;
};
template <bool kInline>
struct FlagsInChain {
  explicit FlagsInChain(urma_jfs_wr_flag_t flag)
      : signalled(flag.bs.complete_enable != 0), solicited(flag.bs.solicited_enable != 0) {}

  static constexpr unsigned kSendFlags = 0;  // see Path::sign()
  static constexpr bool is_inline = kInline;
  bool signalled;
  bool solicited;
};

inline uint32_t flag_bits(bool complete, bool fence, bool solicited, bool is_inline) {
  urma_jfs_wr_flag_t flag = {};
  flag.bs.complete_enable = complete;
  flag.bs.fence = fence;
  flag.bs.solicited_enable = solicited;
  flag.bs.inline_flag = is_inline;
  return flag.value;
}

template <bool kInline>
inline bool is_unordered(urma_jfs_wr_flag_t flag) {
  static_assert(URMA_STRONG_ORDER == 2);
  const uint32_t looked_at = flag_bits(false, true, false, true) | URMA_STRONG_ORDER;
  return (flag.value & looked_at) == flag_bits(false, false, false, kInline);
}

// Most requests want a completion, and no other flag; some are inline.
inline uint32_t wishes(urma_jfs_wr_flag_t flag) {
  return flag.value & (flag_bits(true, true, true, true) | URMA_STRONG_ORDER);
}
inline uint32_t plain() { return flag_bits(true, false, false, false); }
inline uint32_t plain_inline() { return flag_bits(true, false, false, true); }

// Length 0 takes the long way.
inline bool lies_within(uint64_t bytes, uint64_t most) { return bytes - 1 < most; }

// The imported segment of a piece, if it grants the access.
[[gnu::always_inline]] inline ImportedSegment* granted(const urma_sge_t& remote, uint64_t bytes,
                                                       uint32_t rights, uint32_t* rkey) {
  auto* handle = static_cast<SegmentHandle*>(remote.tseg);
  if (handle == nullptr) return nullptr;
  const KeyGrant* grant = RemoteRegion::grant_of(*handle);
  // A single right.
  if (grant == nullptr || (grant->segment.access & rights) == 0 ||
      !grant->segment.covers(remote.addr, bytes)) {
    return nullptr;
  }
  *rkey = grant->rkey;
  return static_cast<ImportedSegment*>(handle);
}

}  // namespace

// Comes last, and looks up the source again, so that nothing has to be kept for it.
template <urma_opcode_t kOpcode>
[[gnu::always_inline]] inline void copy_inline(const urma_jfs_wr_t& wr, const ibv_sge& piece) {
  const urma_sge_t* source = kOpcode == URMA_OPC_SEND ? wr.send.src.sge : wr.rw.src.sge;
  std::memcpy(reinterpret_cast<void*>(piece.addr), reinterpret_cast<const void*>(source->addr),
              piece.length);
}

// The short way of every request, if there is room for it. NULL if the request does not fit:
// nothing has changed then. The request is complete except for its number.
template <urma_opcode_t kOpcode, typename Flags>
[[gnu::always_inline]] inline SendEntry* Sender::take_short(Path* path, const urma_jfs_wr_t& wr,
                                                            const Flags& flags,
                                                            ibv_send_wr* request, ibv_sge* piece) {
  SimpleRequest view;
  if (!view_simple<kind_as(kOpcode)>(wr, &view)) return nullptr;
  const uint64_t bytes = view.local->len;
  if (is_atomic_opcode(kOpcode) && bytes != sizeof(uint64_t)) return nullptr;
  const uint64_t local_addr = view.local->addr;
  SendEntry* entry;
  // Writing to a free place is harmless.
  if (flags.is_inline) {
    constexpr bool kNever = kOpcode == URMA_OPC_READ || is_atomic_opcode(kOpcode);
    if (kNever || !lies_within(bytes, queue().limits().max_inline)) return nullptr;
    entry = queue().reserve_known();
    char* copy = SendQueue::inline_data(entry);
    *piece = {reinterpret_cast<uint64_t>(copy), static_cast<uint32_t>(bytes), 0};
  } else {
    uint32_t lkey;
    const Segment* segment = resources_.keys->own_segment(*view.local, bytes, &lkey);
    if (segment == nullptr) return nullptr;
    if (!is_atomic_opcode(kOpcode) && !lies_within(bytes, queue().limits().max_message))
      return nullptr;
    entry = queue().reserve_known();
    // For the next connection, if this one breaks.
    auto* kept = reinterpret_cast<LocalPiece*>(entry + 1);
    kept->addr = local_addr;
    kept->len = static_cast<uint32_t>(bytes);
    kept->valid = true;
    kept->ref = segment->ref;
    *piece = {local_addr, static_cast<uint32_t>(bytes), lkey};
  }
  entry->user_ctx = wr.user_ctx;
  entry->bytes = bytes;
  ImportedSegment* region = nullptr;
  if constexpr (kOpcode != URMA_OPC_SEND) {
    uint32_t rkey;
    constexpr OpKind kKind = kind_as(kOpcode);
    const uint32_t right = kKind == OpKind::kAtomic ? atomic_right_ : right_of(kKind);
    region = granted(*view.remote, bytes, right, &rkey);
    if (region == nullptr) return nullptr;
    const uint64_t remote_addr = view.remote->addr;
    region->add_ref();
    entry->remote_addr = remote_addr;
    if constexpr (is_atomic_opcode(kOpcode)) {
      entry->operand[0] = request->wr.atomic.compare_add = wr.cas.cmp_data;
      if (kOpcode == URMA_OPC_CAS) {
        entry->operand[2] = request->wr.atomic.swap = wr.cas.swap_data;
      }
      request->wr.atomic.remote_addr = remote_addr;
      request->wr.atomic.rkey = rkey;
    } else {
      request->wr.rdma.remote_addr = remote_addr;
      request->wr.rdma.rkey = rkey;
    }
  }
  entry->remote = region;
  entry->notified = nullptr;
  entry->path = path;
  static_cast<EntryForm&>(*entry) = {
      .state = SendState::kInFlight,
      .special = 0,
      .signalled = flags.signalled,
      .kind = kind_as(kOpcode),
      .status = URMA_CR_SUCCESS,
      .fence = false,
      .strong = false,
      .solicited = flags.solicited,
      .opcode = kOpcode,
      .pieces = static_cast<uint16_t>(flags.is_inline ? 0 : 1),
      .inline_bytes = static_cast<uint32_t>(flags.is_inline ? bytes : 0),
  };
  request->opcode = opcode_of(kOpcode);
  request->send_flags = Flags::kSendFlags | (flags.is_inline ? IBV_SEND_INLINE : 0) |
                        (kOpcode == URMA_OPC_SEND && flags.solicited ? IBV_SEND_SOLICITED : 0);
  const uint32_t place = queue().reserved();
  // It is open: all outstanding requests are in its list.
  path->enqueue_at(place, queue().commit_in_flight(entry, place, path));
  path->last_under_way_ = place;
  ++path->under_way_;
  if (flags.is_inline) copy_inline<kOpcode>(wr, *piece);
  return entry;
}

// How many requests the path could take now.
inline uint32_t Sender::room_of(const Path& path) {
  // A nudge may take the place of a request.
  const auto held = static_cast<uint32_t>(path.posted_ - path.done_);
  const uint32_t places = held < path.sends_ ? path.sends_ - held : 0;
  return std::min({places, credits_, queue().easy_room()});
}

template <urma_opcode_t kOpcode, bool kInline>
[[gnu::flatten]] urma_status_t Sender::post_alone(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr,
                                                  Path* path) noexcept {
  ibv_send_wr* const request = &path->ready_;
  SendEntry* entry =
      take_short<kOpcode>(path, *wr, FlagsAlone<kInline>{}, request, &path->ready_piece_);
  if (entry == nullptr) [[unlikely]]
    return post_rest(nullptr, wr, bad_wr);
  const uint64_t mark = path->posted_ + 1;
  entry->moved = mark;
  request->wr_id = path->wr_id(mark);
  queue().count_posts(1);
  const int error = post_send_(path->pair_, request, &bad_);
  // From here on no request is refused, so bad_wr is not needed.
  if (error != 0) [[unlikely]] {
    path->post_refused(error, 1);
    return post_rest(path, nullptr, nullptr);
  }
  path->posted_ = path->signalled_ = mark;
  --credits_;
  if (queue().may_be_armed()) [[unlikely]]
    return post_rest(nullptr, nullptr, nullptr);
  if (lock().leave_at_once()) [[unlikely]]
    return wake_one();
  return URMA_SUCCESS;
}

// Appends requests of one kind to the list, and returns the one after them.
template <urma_opcode_t kOpcode, bool kInline>
[[gnu::noinline]] urma_jfs_wr_t* Sender::add_short(Path* path, urma_jfs_wr_t* wr, uint32_t room) {
  const urma_target_jetty_t* target = wr->tjetty;
  uint32_t count = list_.count;
  do {
    if (count == room || !is_unordered<kInline>(wr->flag)) break;
    ibv_send_wr* request = &list_.requests[count];
    ibv_sge* piece = &list_.pieces[count];
    SendEntry* entry =
        take_short<kOpcode>(path, *wr, FlagsInChain<kInline>(wr->flag), request, piece);
    if (entry == nullptr) break;
    list_.count = ++count;
    request->wr_id = path->wr_id(path->posted_ + count);
    // The next one exists only if it is added, see post_shortly().
    request->next = request + 1;
    request->sg_list = piece;
    request->num_sge = 1;
    path->sign(entry);
    wr = wr->next;
  } while (wr != nullptr && wr->opcode == kOpcode && wr->tjetty == target);
  return wr;
}

[[gnu::always_inline]] inline urma_jfs_wr_t* Sender::add_short(Path* path, urma_jfs_wr_t* wr,
                                                               uint32_t room) {
  const bool is_inline = wr->flag.bs.inline_flag != 0;
  switch (wr->opcode) {
    case URMA_OPC_WRITE:
      return is_inline ? add_short<URMA_OPC_WRITE, true>(path, wr, room)
                       : add_short<URMA_OPC_WRITE, false>(path, wr, room);
    case URMA_OPC_SEND:
      return is_inline ? add_short<URMA_OPC_SEND, true>(path, wr, room)
                       : add_short<URMA_OPC_SEND, false>(path, wr, room);
    case URMA_OPC_READ:
      return add_short<URMA_OPC_READ, false>(path, wr, room);
    case URMA_OPC_FADD:
      return add_short<URMA_OPC_FADD, false>(path, wr, room);
    case URMA_OPC_CAS:
      return add_short<URMA_OPC_CAS, false>(path, wr, room);
    default:
      return wr;
  }
}

// Takes requests of a chain and posts them, up to the first one that does not fit, which *wr is
// then. False if some of them wait.
inline bool Sender::post_short(Path* path, urma_jfs_wr_t** wr) {
  if (!path->is_open()) return true;
  list_.clear();
  const uint32_t room = std::min(room_of(*path), RequestList::kRequests);
  const urma_target_jetty_t* target = (*wr)->tjetty;
  for (uint32_t before = 0; room != 0; before = list_.count) {
    *wr = add_short(path, *wr, room);
    if (list_.count == before || *wr == nullptr || (*wr)->tjetty != target) break;
  }
  return list_.count == 0 || path->post_shortly();
}

bool Path::post_shortly() {
  RequestList& list = sender_->list();
  const uint32_t count = list.count;
  list.requests[count - 1].next = nullptr;
  queue().count_posts(count);
  ibv_send_wr* bad = nullptr;
  const int error = sender_->post_send(pair_, list.requests.data(), &bad);
  uint32_t taken = count;
  if (error != 0) [[unlikely]] {
    taken = bad == nullptr ? 0 : static_cast<uint32_t>(bad - list.requests.data());
    taken = std::min(taken, count);
  }
  posted_ += taken;
  sender_->take_credits(taken);
  return error == 0 || post_refused(error, count - taken);
}

// That many of the last ones wait. The caller continues with the path.
bool Path::post_refused(int error, uint32_t refused_count) {
  shut();
  under_way_ -= refused_count;
  SendEntry* entry = first();
  for (uint32_t i = 0; entry != nullptr; ++i, entry = next_of(*entry)) {
    if (i < under_way_) {
      last_under_way_ = queue().index_of(entry);
    } else {
      entry->state = SendState::kPending;
    }
  }
  refused(error);
  return false;
}

// Everything posted is at the device. Proofs take the long way.
void Path::reopen() {
  // An unwanted one takes the long way, which checks whether it is idle.
  if (proof_ != 0 || connection_->unwanted.load(std::memory_order_relaxed)) return;
  gate_ = &connection_->broken;
  pair_ = connection_->pair->handle();
  ready_ = {};
  ready_.sg_list = &ready_piece_;
  ready_.num_sge = 1;
}

// The path of the last request, if this one has the same target.
Path* Sender::short_path(const urma_jfs_wr_t& wr) const {
  if (config().trans_mode == URMA_TM_UM || last_path() == nullptr) return nullptr;
  auto* const path = static_cast<Path*>(last_path());
  if (wr.tjetty == last_target()) return path;
  const auto* target =
      config().trans_mode == URMA_TM_RM ? static_cast<const RemoteQueue*>(wr.tjetty) : bound();
  return target != nullptr && path->serial() == target->serial ? path : nullptr;
}

urma_status_t Sender::post_inline(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr, Path* path) noexcept {
  switch (wr->opcode) {
    case URMA_OPC_WRITE:
      return post_alone<URMA_OPC_WRITE, true>(wr, bad_wr, path);
    case URMA_OPC_SEND:
      return post_alone<URMA_OPC_SEND, true>(wr, bad_wr, path);
    default:
      return post_rest(nullptr, wr, bad_wr);
  }
}

// A request posted alone, over an open path with room for it.
[[gnu::always_inline]] inline urma_status_t Sender::post_kind(urma_jfs_wr_t* wr,
                                                              urma_jfs_wr_t** bad_wr,
                                                              Path* path) noexcept {
  if (wr->next != nullptr) return post_rest(nullptr, wr, bad_wr);
  const uint32_t wished = wishes(wr->flag);
  if (wished != plain()) {
    return wished == plain_inline() ? post_inline(wr, bad_wr, path)
                                    : post_rest(nullptr, wr, bad_wr);
  }
  // The order is by cost: those with the most work first.
  const urma_opcode_t opcode = wr->opcode;
  if (opcode == URMA_OPC_CAS) return post_alone<URMA_OPC_CAS, false>(wr, bad_wr, path);
  if (opcode == URMA_OPC_READ) return post_alone<URMA_OPC_READ, false>(wr, bad_wr, path);
  if (opcode == URMA_OPC_WRITE) return post_alone<URMA_OPC_WRITE, false>(wr, bad_wr, path);
  if (opcode == URMA_OPC_FADD) return post_alone<URMA_OPC_FADD, false>(wr, bad_wr, path);
  if (opcode == URMA_OPC_SEND) return post_alone<URMA_OPC_SEND, false>(wr, bad_wr, path);
  return post_rest(nullptr, wr, bad_wr);
}

urma_status_t Sender::look_ahead(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr, Path* path) noexcept {
  const uint32_t room = room_of(*path);
  if (room == 0) return post_rest(nullptr, wr, bad_wr);
  queue().room_until() = path->posted_ + room;
  return post_kind(wr, bad_wr, path);
}

urma_status_t Sender::post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  if (!lock().enter_at_once()) [[unlikely]]
    return post_behind(wr, bad_wr);
  return post_held(wr, bad_wr);
}

[[gnu::always_inline]] inline urma_status_t Sender::post_held(urma_jfs_wr_t* wr,
                                                              urma_jfs_wr_t** bad_wr) noexcept {
  Path* path;
  if (wr->tjetty == last_target()) [[likely]] {
    path = static_cast<Path*>(last_path());
  } else {
    path = short_path(*wr);
    if (path == nullptr) return post_rest(nullptr, wr, bad_wr);
  }
  if (!path->is_open()) [[unlikely]]
    return post_rest(nullptr, wr, bad_wr);
  if (path->posted_ >= queue().room_until()) [[unlikely]]
    return look_ahead(wr, bad_wr, path);
  return post_kind(wr, bad_wr, path);
}

urma_status_t Sender::post_behind(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  lock().enter_behind();
  return post_held(wr, bad_wr);
}

urma_status_t Sender::wake_one() noexcept {
  lock().wake_one();
  return URMA_SUCCESS;
}

// Consecutive requests for the same path become one list of the device; `behind` is a path with
// waiting requests.
urma_status_t Sender::post_rest(TargetPath* behind, urma_jfs_wr_t* wr,
                                urma_jfs_wr_t** bad_wr) noexcept {
  urma_status_t status = URMA_SUCCESS;
  queue().room_until() = 0;
  while (wr != nullptr) {
    Path* path = behind == nullptr ? short_path(*wr) : nullptr;
    const urma_jfs_wr_t* before = wr;
    if (path != nullptr && !post_short(path, &wr)) behind = path;
    if (wr != before) continue;
    TargetPath* taken = nullptr;
    const TargetPath* const last = last_path();
    status = take_in(*wr, &taken);
    if (status != URMA_SUCCESS) [[unlikely]] {
      queue().count_refused();
      *bad_wr = wr;
      break;
    }
    queue().count_post();
    wr = wr->next;
    if (taken == nullptr) continue;
    if (taken != last) resources_.connections->turn();
    if (datagrams_ == nullptr) static_cast<Path*>(taken)->shut();
    if (behind != nullptr && behind != taken) go_on(behind);
    behind = taken;
  }
  if (behind != nullptr) {
    go_on(behind);
  } else {
    keep_armed();
  }
  lock().leave();
  return status;
}

// -------------------------------------------------------------------------------------------------
// Completions
// -------------------------------------------------------------------------------------------------

[[gnu::always_inline]] inline void Path::succeeded(uint32_t mark) {
  const uint64_t at = done_ + static_cast<uint32_t>(mark - static_cast<uint32_t>(done_));
  // Of an earlier connection; its last request had the final count of all.
  if (at > posted_ || at == done_) [[unlikely]]
    return;
  through(at);
  while (under_way_ != 0 && first()->moved <= at) {
    --under_way_;
    messages_ += takes_receive(*first());
    queue().complete(take_first(), URMA_CR_SUCCESS);
  }
}

// The only busy path has all requests of the queue. False if more than one of them has ended, or a
// special one: nothing has changed then.
[[gnu::always_inline]] inline bool Sender::take_oldest(Path* path, const ibv_wc& completion,
                                                       urma_cr_t* cr) {
  SendEntry* entry = queue().oldest();
  const uint64_t at = entry->moved;
  // The most frequent case by far.
  if (completion.status != IBV_WC_SUCCESS || completion.wr_id != path->wr_id(at) ||
      entry->state != SendState::kInFlight || entry->special != 0 || !entry->signalled) {
    return false;
  }
  path->through(at);
  --path->under_way_;
  path->messages_ += receives_for(entry->kind);
  path->take_out(entry);
  queue().leave_at_once(entry, path, cr);
  return true;
}

// Those of the last poll, from this one on.
void Sender::take_rest(int from, int got) {
  for (int i = from; i < got; ++i) {
    const ibv_wc& completion = completions_[i];
    auto* path = static_cast<Path*>(path_of(completion));
    if (path == nullptr) [[unlikely]]
      continue;
    const auto mark = static_cast<uint32_t>(completion.wr_id);
    if (completion.status == IBV_WC_SUCCESS && !path->emulating()) [[likely]] {
      path->succeeded(mark);
    } else {
      path->completed(mark, completion.status);
    }
  }
}

// True if there was nothing else to do.
inline bool Sender::take_completions() {
  for (const SendPath* path = queue().busy(); path != nullptr; path = path->earlier) {
    if (!static_cast<const Path*>(path)->is_open()) return false;
  }
  take_rest(0, pump_->poll(completions_.data(), kBatch));
  for (const SendPath* path = queue().busy(); path != nullptr; path = path->earlier) {
    if (!static_cast<const Path*>(path)->is_open()) return false;
  }
  return !queue().armed() && !queue().waiting();
}

// For a poll.
int Sender::collect(CompletionQueue* /*poller*/, int count, urma_cr_t* cr) {
  if (queue().empty()) return 0;
  OwnerScope scope(lock());
  // Requests found by an earlier poll are handed out first.
  if (queue().oldest()->state != SendState::kDone && !take_completions()) [[unlikely]]
    queue().advance_paths();
  if (has_unwanted_) [[unlikely]]
    close_idle();
  const int got = queue().retire(count, cr);
  if (got == 0) report_oldest();
  return got;
}

// If one path has all requests, the device's completions become records directly.
[[gnu::always_inline]] inline int Sender::poll_alone(CompletionQueue* poller, int count,
                                                     urma_cr_t* cr) noexcept {
  if (!lock().enter_biased()) [[unlikely]] {
    // A poll that would find nothing keeps no other thread waiting.
    if (queue().empty()) return poller->finish_poll(0, cr);
    if (!lock().enter_shared()) return poller->poll_behind_other(count, cr);
  }
  auto* path = static_cast<Path*>(queue().busy());
  if (path == nullptr || path->earlier != nullptr || !path->is_open() || poller->armed())
      [[unlikely]] {
    const bool nothing = queue().empty();
    lock().leave();
    return nothing ? poller->finish_poll(0, cr) : poller->poll_rest_guarded(0, count, cr);
  }
  const int found = pump_->poll(completions_.data(), kBatch);
  const int most = std::min(found, count);
  int got = 0;
  while (got < most && take_oldest(path, completions_[got], cr + got)) ++got;
  if (got == found && got != 0) [[likely]] {
    lock().leave();
    return poller->end_poll(got);
  }
  take_rest(got, found);
  // Requests found by an earlier poll are handed out too.
  got += queue().retire(count - got, cr + got);
  // One of another path may have ended before the oldest.
  if (got == 0 && queue().posted() - queue().retired() != path->entries) [[unlikely]]
    report_oldest();
  lock().leave();
  return poller->finish_poll(got, cr);
}

int Sender::poll_source(CompletionQueue* poller, int count, urma_cr_t* cr,
                        CompletionSource* source) noexcept {
  return static_cast<Sender&>(*source).poll_alone(poller, count, cr);
}

}  // namespace urma::verbs
