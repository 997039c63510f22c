// SPDX-License-Identifier: MIT
//
// The short way of requests that most programs post most of the time: one piece of memory that is
// registered, or a few bytes inline, over a connection that stands, with nothing to wait for. It
// makes no call but that of the device.
#include <algorithm>
#include <cstring>

#include "urma/providers/verbs/path.h"
#include "urma/providers/verbs/remote_region.h"

namespace urma::verbs {
namespace {

constexpr bool is_atomic(urma_opcode_t opcode) {
  return opcode == URMA_OPC_CAS || opcode == URMA_OPC_FADD;
}

// What a request works on: one piece here, and one there, or none for messages.
struct ShortView {
  const urma_sge_t* local;
  const urma_sge_t* remote;
};

template <urma_opcode_t kOpcode>
[[gnu::always_inline]] inline bool view_short(const urma_jfs_wr_t& wr, ShortView* view) {
  if constexpr (kOpcode == URMA_OPC_SEND) {
    *view = {wr.send.src.sge, nullptr};
    return wr.send.src.num_sge == 1 && view->local != nullptr;
  } else if constexpr (is_atomic(kOpcode)) {
    *view = {wr.cas.src, wr.cas.dst};
    return view->local != nullptr && view->remote != nullptr &&
           view->local->len == sizeof(uint64_t) && view->remote->addr % sizeof(uint64_t) == 0;
  } else {
    constexpr bool kReads = kOpcode == URMA_OPC_READ;
    *view = {kReads ? wr.rw.dst.sge : wr.rw.src.sge, kReads ? wr.rw.src.sge : wr.rw.dst.sge};
    return wr.rw.src.num_sge == 1 && wr.rw.dst.num_sge == 1 && view->local != nullptr &&
           view->remote != nullptr;
  }
}

constexpr OpKind kind_as(urma_opcode_t opcode) {
  if (is_atomic(opcode)) return OpKind::kAtomic;
  if (opcode == URMA_OPC_SEND) return OpKind::kSend;
  return opcode == URMA_OPC_READ ? OpKind::kRead : OpKind::kWrite;
}

constexpr uint32_t rights_of(urma_opcode_t opcode) {
  if (is_atomic(opcode)) return URMA_ACCESS_ATOMIC;
  return opcode == URMA_OPC_READ ? URMA_ACCESS_READ : URMA_ACCESS_WRITE;
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

uint32_t flag_bits(bool complete, bool fence, bool solicited, bool is_inline) {
  urma_jfs_wr_flag_t flag = {};
  flag.bs.complete_enable = complete;
  flag.bs.fence = fence;
  flag.bs.solicited_enable = solicited;
  flag.bs.inline_flag = is_inline;
  return flag.value;
}

inline bool is_ordered(urma_jfs_wr_flag_t flag) {
  static_assert(URMA_STRONG_ORDER == 2);
  return (flag.value & (flag_bits(false, true, false, false) | URMA_STRONG_ORDER)) != 0;
}

// Most requests want a completion, and nothing else of what a flag may say.
inline bool is_plain(urma_jfs_wr_flag_t flag) {
  const uint32_t looked_at = flag_bits(true, true, true, true) | URMA_STRONG_ORDER;
  return (flag.value & looked_at) == flag_bits(true, false, false, false);
}

// Nothing at all takes the long way.
inline bool lies_within(uint64_t bytes, uint64_t most) { return bytes - 1 < most; }

// The imported segment of a piece, where it grants what is wanted.
[[gnu::always_inline]] inline RemoteRegion* granted(const urma_sge_t& remote, uint32_t bytes,
                                                    uint32_t rights, uint32_t* rkey) {
  auto* handle = static_cast<SegmentHandle*>(remote.tseg);
  if (handle == nullptr || handle->registered) return nullptr;
  auto* region = static_cast<RemoteRegion*>(static_cast<ImportedSegment*>(handle));
  const KeyGrant* grant = region->grant();
  // A single right.
  if (grant == nullptr || (grant->access & rights) == 0 || !grant->covers(remote.addr, bytes)) {
    return nullptr;
  }
  *rkey = grant->rkey;
  return region;
}

}  // namespace

// What stands on the short way of every request. NULL where it is not so simple: nothing has
// happened then. The request is complete but for its number.
template <urma_opcode_t kOpcode, bool kAlone>
[[gnu::always_inline]] inline SendEntry* VerbsSender::take_short(VerbsPath* path,
                                                                 const urma_jfs_wr_t& wr,
                                                                 ibv_send_wr* request,
                                                                 ibv_sge* piece) {
  ShortView view;
  if (!view_short<kOpcode>(wr, &view)) return nullptr;
  const uint32_t bytes = view.local->len;
  const bool is_inline = !kAlone && wr.flag.bs.inline_flag != 0;
  SegmentRef ref = {};
  uint32_t lkey = 0;
  if (is_inline) {
    constexpr bool kNever = kOpcode == URMA_OPC_READ || is_atomic(kOpcode);
    if (kNever || !lies_within(bytes, queue().limits().max_inline)) return nullptr;
  } else {
    const Segment* segment = resources_.keys->own_segment(*view.local, &lkey);
    if (segment == nullptr || !lies_within(bytes, queue().limits().max_message)) return nullptr;
    ref = segment->ref;
  }
  RemoteRegion* region = nullptr;
  uint32_t rkey = 0;
  if constexpr (kOpcode != URMA_OPC_SEND) {
    region = granted(*view.remote, bytes, rights_of(kOpcode), &rkey);
    if (region == nullptr) return nullptr;
  }
  SendEntry* entry = queue().reserve_now();
  if (entry == nullptr) [[unlikely]]
    return nullptr;
  const uint32_t place = queue().reserved();
  if (region != nullptr) region->add_ref();

  const uint64_t local_addr = view.local->addr;
  entry->user_ctx = wr.user_ctx;
  entry->bytes = bytes;
  entry->remote = region;
  entry->notified = nullptr;
  entry->path = path;
  entry->kind = kind_as(kOpcode);
  entry->opcode = kOpcode;
  const bool solicited = !kAlone && wr.flag.bs.solicited_enable != 0;
  entry->signalled = kAlone || wr.flag.bs.complete_enable != 0;
  entry->solicited = solicited;
  entry->fence = entry->strong = false;
  request->opcode = opcode_of(kOpcode);
  if (is_inline) {
    char* copy = SendQueue::inline_data(entry);
    std::memcpy(copy, reinterpret_cast<const void*>(local_addr), bytes);
    entry->inline_bytes = bytes;
    entry->pieces = 0;
    *piece = {reinterpret_cast<uint64_t>(copy), bytes, 0};
  } else {
    entry->inline_bytes = 0;
    entry->pieces = 1;
    // For another connection, should this one break.
    auto* kept = reinterpret_cast<LocalPiece*>(entry + 1);
    kept->addr = local_addr;
    kept->len = bytes;
    kept->valid = true;
    kept->ref = ref;
    *piece = {local_addr, bytes, lkey};
  }
  unsigned flags = kAlone ? IBV_SEND_SIGNALED : 0;
  if (is_inline) flags = IBV_SEND_INLINE;
  if (kOpcode == URMA_OPC_SEND && solicited) flags |= IBV_SEND_SOLICITED;
  request->send_flags = flags;
  if constexpr (kOpcode != URMA_OPC_SEND) {
    const uint64_t remote_addr = view.remote->addr;
    entry->remote_addr = remote_addr;
    if constexpr (is_atomic(kOpcode)) {
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
  queue().commit_in_flight(entry);
  path->enqueue_at(place);
  path->last_under_way_ = place;
  ++path->under_way_;
  return entry;
}

template <urma_opcode_t kOpcode>
[[gnu::flatten]] urma_status_t VerbsSender::post_alone(VerbsPath* path, urma_jfs_wr_t* wr,
                                                       urma_jfs_wr_t** bad_wr) noexcept {
  const bool has_room = path->posted_ - path->done_ < path->sends_ && credits_ != 0;
  if (!has_room || (is_atomic(kOpcode) && !has_atomics_)) [[unlikely]]
    return post_rest(nullptr, wr, bad_wr);
  ibv_send_wr* const request = &path->ready_;
  SendEntry* entry = take_short<kOpcode, true>(path, *wr, request, &path->ready_piece_);
  if (entry == nullptr) [[unlikely]]
    return post_rest(nullptr, wr, bad_wr);
  const uint64_t mark = path->posted_ + 1;
  entry->moved = mark;
  request->wr_id = wr_id(path->tag_, static_cast<uint32_t>(mark));
  queue().count_posts(1);
  ibv_send_wr* bad = nullptr;
  const int error = post_send_(path->open_, request, &bad);
  if (error != 0) [[unlikely]] {
    path->post_refused(error, 1);
    return post_rest(path, nullptr, bad_wr);
  }
  path->posted_ = path->signalled_ = mark;
  --credits_;
  path->connection_->used.store(resources_.connections->clock(), std::memory_order_relaxed);
  if (queue().armed()) [[unlikely]]
    return post_rest(nullptr, nullptr, bad_wr);
  lock().leave_at_once();
  return URMA_SUCCESS;
}

// Puts requests of one kind behind those of the list, and returns what follows them.
template <urma_opcode_t kOpcode>
[[gnu::noinline]] urma_jfs_wr_t* VerbsSender::add_short(VerbsPath* path, urma_jfs_wr_t* wr,
                                                        uint32_t room) {
  const urma_target_jetty_t* target = wr->tjetty;
  uint32_t count = list_.count;
  do {
    if (count == room || is_ordered(wr->flag)) break;
    ibv_send_wr* request = &list_.requests[count];
    ibv_sge* piece = &list_.pieces[count];
    SendEntry* entry = take_short<kOpcode, false>(path, *wr, request, piece);
    if (entry == nullptr) break;
    list_.count = ++count;
    request->wr_id = wr_id(path->tag_, static_cast<uint32_t>(path->posted_ + count));
    // The one behind it is there only if it is added, see post_shortly().
    request->next = request + 1;
    request->sg_list = piece;
    request->num_sge = 1;
    path->sign(entry);
    wr = wr->next;
  } while (wr != nullptr && wr->opcode == kOpcode && wr->tjetty == target);
  return wr;
}

[[gnu::always_inline]] inline urma_jfs_wr_t* VerbsSender::add_short(VerbsPath* path,
                                                                    urma_jfs_wr_t* wr,
                                                                    uint32_t room) {
  switch (wr->opcode) {
    case URMA_OPC_WRITE:
      return add_short<URMA_OPC_WRITE>(path, wr, room);
    case URMA_OPC_READ:
      return add_short<URMA_OPC_READ>(path, wr, room);
    case URMA_OPC_SEND:
      return add_short<URMA_OPC_SEND>(path, wr, room);
    case URMA_OPC_FADD:
      return has_atomics_ ? add_short<URMA_OPC_FADD>(path, wr, room) : wr;
    case URMA_OPC_CAS:
      return has_atomics_ ? add_short<URMA_OPC_CAS>(path, wr, room) : wr;
    default:
      return wr;
  }
}

// Takes requests of a chain in and posts them, up to the first one that is not so simple, which *wr
// is then. False where some of them wait.
inline bool VerbsSender::post_short(VerbsPath* path, urma_jfs_wr_t** wr) {
  if (!path->is_open() || path->broken()) return true;
  list_.clear();
  // A nudge may lie where a request could.
  const auto held = static_cast<uint32_t>(path->posted_ - path->done_);
  const uint32_t places = held < path->sends_ ? path->sends_ - held : 0;
  const uint32_t room = std::min(std::min(places, credits_), RequestList::kRequests);
  const urma_target_jetty_t* target = (*wr)->tjetty;
  for (uint32_t before = 0; room != 0; before = list_.count) {
    *wr = add_short(path, *wr, room);
    if (list_.count == before || *wr == nullptr || (*wr)->tjetty != target) break;
  }
  return list_.count == 0 || path->post_shortly();
}

bool VerbsPath::post_shortly() {
  RequestList& list = sender_->list();
  const uint32_t count = list.count;
  list.requests[count - 1].next = nullptr;
  queue().count_posts(count);
  ibv_send_wr* bad = nullptr;
  const int error = sender_->post_send(open_, list.requests.data(), &bad);
  uint32_t taken = count;
  if (error != 0) [[unlikely]] {
    taken = bad == nullptr ? 0 : static_cast<uint32_t>(bad - list.requests.data());
    taken = std::min(taken, count);
  }
  posted_ += taken;
  sender_->take_credits(taken);
  connection_->used.store(sender_->resources().connections->clock(), std::memory_order_relaxed);
  return error == 0 || post_refused(error, count - taken);
}

// So many of the last ones wait. The caller goes on with the path.
bool VerbsPath::post_refused(int error, uint32_t refused_count) {
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

// Everything that was posted is with the device. Proofs take the long way.
void VerbsPath::reopen() {
  if (proof_ != 0) return;
  open_ = connection_->pair->handle();
  ready_ = {};
  ready_.sg_list = &ready_piece_;
  ready_.num_sge = 1;
}

// Where the last request went, if this one goes there, too.
[[gnu::always_inline]] inline VerbsPath* VerbsSender::short_path(const urma_jfs_wr_t& wr) const {
  if (is_rm_ && wr.tjetty == last_target()) [[likely]]
    return static_cast<VerbsPath*>(last_path());
  if (config().trans_mode == URMA_TM_UM || last_path() == nullptr) return nullptr;
  const auto* target = is_rm_ ? static_cast<const RemoteQueue*>(wr.tjetty) : bound();
  const bool same = target != nullptr && last_path()->serial() == target->serial;
  return same ? static_cast<VerbsPath*>(last_path()) : nullptr;
}

urma_status_t VerbsSender::post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  if (!lock().enter_at_once()) [[unlikely]]
    return post_behind(wr, bad_wr);
  VerbsPath* const path = short_path(*wr);
  if (path == nullptr || !path->is_open() || path->broken() || wr->next != nullptr ||
      !is_plain(wr->flag)) {
    return post_rest(nullptr, wr, bad_wr);
  }
  switch (wr->opcode) {
    case URMA_OPC_WRITE:
      return post_alone<URMA_OPC_WRITE>(path, wr, bad_wr);
    case URMA_OPC_READ:
      return post_alone<URMA_OPC_READ>(path, wr, bad_wr);
    case URMA_OPC_SEND:
      return post_alone<URMA_OPC_SEND>(path, wr, bad_wr);
    case URMA_OPC_FADD:
      return post_alone<URMA_OPC_FADD>(path, wr, bad_wr);
    case URMA_OPC_CAS:
      return post_alone<URMA_OPC_CAS>(path, wr, bad_wr);
    default:
      return post_rest(nullptr, wr, bad_wr);
  }
}

urma_status_t VerbsSender::post_behind(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  lock().enter_behind();
  return post_rest(nullptr, wr, bad_wr);
}

// Requests in a row that take the same path become one list
// of the device; `behind` is the path that requests wait in already.
urma_status_t VerbsSender::post_rest(TargetPath* behind, urma_jfs_wr_t* wr,
                                     urma_jfs_wr_t** bad_wr) noexcept {
  urma_status_t status = URMA_SUCCESS;
  while (wr != nullptr) {
    VerbsPath* path = behind == nullptr ? short_path(*wr) : nullptr;
    const urma_jfs_wr_t* before = wr;
    if (path != nullptr && !post_short(path, &wr)) behind = path;
    if (wr != before) continue;
    TargetPath* taken = nullptr;
    status = take_in(*wr, &taken);
    if (status != URMA_SUCCESS) [[unlikely]] {
      queue().count_refused();
      *bad_wr = wr;
      break;
    }
    queue().count_post();
    wr = wr->next;
    if (taken == nullptr) continue;
    if (datagrams_ == nullptr) static_cast<VerbsPath*>(taken)->shut();
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

}  // namespace urma::verbs
