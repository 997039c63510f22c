// SPDX-License-Identifier: MIT
#include "urma/providers/shm/sender.h"

#include <algorithm>
#include <thread>

#include "urma/base/clock.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {
namespace {

// How long the end of a queue waits for a receiver that takes nothing.
constexpr uint64_t kLastCopiesNs = 100'000'000;

// Covers fence and strong order.
[[gnu::always_inline]] inline bool is_ordered(urma_jfs_wr_flag_t flag) {
  urma_jfs_wr_flag_t orders = {};
  orders.bs.fence = 1;
  orders.bs.place_order = URMA_STRONG_ORDER;
  return (flag.value & orders.value) != 0;
}

}  // namespace

Sender::Sender(Transport* transport, const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
               const urma_jetty_id_t& id)
    : urma::Sender(transport, cfg, identity, id, kMaxMessageBytes),
      transport_(transport),
      implicit_imports_([transport](const urma_seg_t& described, urma_token_t token) {
        return transport->import_memory(/*ctx=*/nullptr, described, token, /*access=*/0);
      }) {}

Sender::~Sender() { end(); }

// What would fit into the ring arrives as if it lay there, where the receiver takes it.
void Sender::finish() {
  const uint64_t until = monotonic_ns() + kLastCopiesNs;
  while (lends_what_fits() && monotonic_ns() < until) std::this_thread::yield();
}

bool Sender::lends_what_fits() {
  ForeignScope scope(lock());
  return std::any_of(paths().begin(), paths().end(), [this](const auto& path) {
    const QueuePath* ring_path = as_ring_path(path.get());
    return ring_path != nullptr && ring_path->lends_what_fits();
  });
}

bool Sender::lend(const CopyMessageRequest& asked,
                  const std::function<void(std::span<const iovec>)>& copy) {
  ForeignScope scope(lock());
  for (const auto& path : paths()) {
    IovecList own;
    QueuePath* ring_path = as_ring_path(path.get());
    if (ring_path == nullptr || !ring_path->lent(asked, &own)) continue;
    copy(own.list());
    return true;
  }
  return false;
}

std::unique_ptr<TargetPath> Sender::make_path(RemoteQueue* target, uint32_t hint) {
  OpaqueMemory* const opaque = transport_->opaque();
  if (opaque != nullptr) return opaque->make_path(this, target, hint);
  return std::make_unique<QueuePath>(this, target, hint);
}

// Most requests are simple. All of their way is here and in post_run(), and makes no call.
urma_status_t Sender::post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  if (!lock().enter_at_once()) [[unlikely]]
    return post_behind(wr, bad_wr);
  return post_held(wr, bad_wr);
}

urma_status_t Sender::post_behind(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  lock().enter_behind();
  return post_held(wr, bad_wr);
}

inline urma_status_t Sender::post_held(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  switch (direct_kind_of(wr->opcode)) {
    case DirectKind::kWrite:
      return post_run<DirectKind::kWrite>(wr, bad_wr);
    case DirectKind::kRead:
      return post_run<DirectKind::kRead>(wr, bad_wr);
    case DirectKind::kSend:
      return post_run<DirectKind::kSend>(wr, bad_wr);
    case DirectKind::kAtomic:
      return post_run<DirectKind::kAtomic>(wr, bad_wr);
    default:
      return post_rest(wr, bad_wr, Direct::kNot);
  }
}

// Requests of one kind have few enough variables for the registers that need not be saved.
template <DirectKind kKind>
urma_status_t Sender::post_run(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  do {
    const Direct done = post_simple<Reach::kWithoutCall, kKind>(*wr);
    if (done != Direct::kDone) [[unlikely]]
      return post_rest(wr, bad_wr, done);
    wr = wr->next;
  } while (wr != nullptr && direct_kind_of(wr->opcode) == kKind);
  if (wr != nullptr || queue().may_be_armed()) [[unlikely]]
    return post_rest(wr, bad_wr, Direct::kNot);
  if (lock().leave_at_once()) [[unlikely]]
    return wake_one();
  return URMA_SUCCESS;
}

urma_status_t Sender::wake_one() noexcept {
  lock().wake_one();
  return URMA_SUCCESS;
}

// `first` is the result of the first request.
urma_status_t Sender::post_rest(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr, Direct first) noexcept {
  urma_status_t status = URMA_SUCCESS;
  for (Direct done = first; wr != nullptr; wr = wr->next, done = Direct::kNot) {
    if (done == Direct::kNot) done = post_direct(*wr);
    if (done == Direct::kDone) continue;
    if (done == Direct::kMayBeAwaited) {
      short_path()->wake_where_awaited(wr->flag.bs.solicited_enable != 0);
      continue;
    }
    TargetPath* path = nullptr;
    status = take_in(*wr, &path);
    if (path != nullptr) go_on_posted(path);
    if (status != URMA_SUCCESS) [[unlikely]] {
      queue().count_refused();
      *bad_wr = wr;
      break;
    }
    queue().count_post();
  }
  return finish_post(status);
}

urma_status_t Sender::finish_post(urma_status_t status) noexcept {
  if (ends_later_) [[unlikely]] {
    ends_later_ = false;
    end_post();
  }
  if (queue().armed()) [[unlikely]] {
    queue().announce();
    if (jfc().armed() && !queue().empty()) look_after();
  }
  lock().leave();
  return status;
}

// Not simple after requests that wait, or if others must be awaited first.
inline bool Sender::is_simple(const urma_jfs_wr_t& wr) const {
  const urma_target_jetty_t* target = config().trans_mode == URMA_TM_RC ? bound() : wr.tjetty;
  if (target != last_target()) [[unlikely]] {
    if (target == nullptr || short_serial() != static_cast<const RemoteQueue*>(target)->serial) {
      return false;
    }
  }
  return short_path()->idle() && !is_ordered(wr.flag);
}

inline Sender::Direct Sender::post_direct(const urma_jfs_wr_t& wr) {
  switch (direct_kind_of(wr.opcode)) {
    case DirectKind::kWrite:
      return post_simple<Reach::kAll, DirectKind::kWrite>(wr);
    case DirectKind::kRead:
      return post_simple<Reach::kAll, DirectKind::kRead>(wr);
    case DirectKind::kSend:
      return post_simple<Reach::kAll, DirectKind::kSend>(wr);
    case DirectKind::kAtomic:
      return post_simple<Reach::kAll, DirectKind::kAtomic>(wr);
    case DirectKind::kWriteAtomic:
      return post_simple<Reach::kAll, DirectKind::kWriteAtomic>(wr);
    default:
      return Direct::kNot;
  }
}

template <Sender::Reach kReach, DirectKind kKind>
inline Sender::Direct Sender::post_simple(const urma_jfs_wr_t& wr) {
  if (!is_simple(wr)) return Direct::kNot;
  if constexpr (kKind == DirectKind::kSend) {
    return send_direct<kReach>(wr);
  } else {
    constexpr bool kFew = kReach == Reach::kWithoutCall;
    constexpr uint32_t kLimit = kFew ? kFewBytes : kCopyPerTurn;
    DirectAccess access;
    if (config().trans_mode == URMA_TM_UM ||
        !view_direct<kKind>(wr, config().max_inline_data, kLimit, &access)) {
      return Direct::kNot;
    }
    if (wr.flag.bs.complete_enable == 0) {
      execute_direct<kKind, kFew>(wr, access);
    } else {
      SendEntry* entry = queue().reserve_now();
      if (entry == nullptr) [[unlikely]]
        return Direct::kNot;
      execute_direct<kKind, kFew>(wr, access);
      entry->user_ctx = wr.user_ctx;
      entry->bytes = access.bytes;
      entry->path = last_path();
      queue().commit_done(entry);
    }
    queue().count_executed(access.bytes);
    return Direct::kDone;
  }
}

template <Sender::Reach kReach>
inline Sender::Direct Sender::send_direct(const urma_jfs_wr_t& wr) {
  DirectSend send;
  if (!view_send(wr, config().max_inline_data, &send)) return Direct::kNot;
  SendEntry* entry = queue().reserve_now();
  if (entry == nullptr) [[unlikely]]
    return Direct::kNot;
  const bool signalled = wr.flag.bs.complete_enable != 0;
  const bool solicited = wr.flag.bs.solicited_enable != 0;
  const bool immediate = wr.opcode == URMA_OPC_SEND_IMM;
  const MessageKind kind = immediate ? MessageKind::kSendImm : MessageKind::kSend;
  const uint8_t flags = (signalled ? kWantsAnswer : 0) | (solicited ? kSolicited : 0);
  const uint64_t value = immediate ? wr.send.imm_data : 0;
  if (kReach != Reach::kWithoutCall && send.bytes > kMaxCopiedTwice && is_open(wr) &&
      short_path()->prefers_reference()) {
    return Direct::kNot;
  }
  const bool published = kReach == Reach::kWithoutCall
                             ? short_path()->publish_slot(kind, flags, send.data, send.bytes, value,
                                                          queue().reserved())
                             : short_path()->publish_now(kind, flags, send.data, send.bytes, value,
                                                         queue().reserved());
  if (!published) return Direct::kNot;
  entry->user_ctx = wr.user_ctx;
  entry->bytes = send.bytes;
  entry->path = last_path();
  queue().commit_sent(entry, signalled);
  return short_path()->may_be_awaited() ? Direct::kMayBeAwaited : Direct::kDone;
}

}  // namespace urma::shm
