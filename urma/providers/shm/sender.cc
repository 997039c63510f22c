// SPDX-License-Identifier: MIT
#include "urma/providers/shm/sender.h"

#include <algorithm>
#include <cstring>
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
        return transport->import_memory(described, token);
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

void Sender::take_back_unregistered() {
  // Relaxed: quiesce() came after the post that stored it.
  if (queue().empty() || !lends_.load(std::memory_order_relaxed)) return;
  ForeignScope scope(lock());
  for (const auto& path : paths()) {
    QueuePath* ring_path = as_ring_path(path.get());
    if (ring_path != nullptr) ring_path->take_back_unregistered();
  }
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
  return transport_->make_path(this, target, hint);
}

// Most requests are simple. All of their way is here, in post_one() or post_run() and what is
// inlined there, and makes no call.
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
    case OpKind::kWrite:
      return post_one_or_run<OpKind::kWrite>(wr, bad_wr);
    case OpKind::kRead:
      return post_one_or_run<OpKind::kRead>(wr, bad_wr);
    case OpKind::kSend:
      return post_one_or_run<OpKind::kSend>(wr, bad_wr);
    case OpKind::kAtomic:
      return post_one_or_run<OpKind::kAtomic>(wr, bad_wr);
    default:
      return post_rest(wr, bad_wr);
  }
}

template <OpKind kKind>
inline urma_status_t Sender::post_one_or_run(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  return wr->next == nullptr ? post_one<kKind>(wr, bad_wr) : post_run<kKind>(wr, bad_wr);
}

template <OpKind kKind>
urma_status_t Sender::post_one(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  if (!post_as_run<Simple::kWithoutCall, kKind>(*wr)) [[unlikely]]
    return post_rest(wr, bad_wr);
  return end_short_post<kKind>(wr, nullptr, bad_wr);
}

// Requests of one kind have few enough variables for the registers that need not be saved.
template <OpKind kKind>
urma_status_t Sender::post_run(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  urma_jfs_wr_t* const first = wr;
  uint32_t taken = 0;
  queue().begin_run();
  do {
    if (!post_simple<Simple::kWithoutCall, kKind>(*wr, &taken)) [[unlikely]]
      break;
    wr = wr->next;
  } while (wr != nullptr && direct_kind_of(wr->opcode) == kKind);
  if (wr == first) [[unlikely]]
    return post_rest(wr, bad_wr);
  end_run<kKind>(taken);
  return end_short_post<kKind>(first, wr, bad_wr);
}

// `rest` follows the requests that have gone the short way.
template <OpKind kKind>
inline urma_status_t Sender::end_short_post(urma_jfs_wr_t* first, urma_jfs_wr_t* rest,
                                            urma_jfs_wr_t** bad_wr) noexcept {
  if (kKind == OpKind::kSend && short_path()->may_be_awaited()) [[unlikely]]
    return wake_and_post_rest(first, rest, bad_wr);
  if (rest != nullptr || queue().may_be_armed()) [[unlikely]]
    return post_rest(rest, bad_wr);
  if (lock().leave_at_once()) [[unlikely]]
    return wake_one();
  return URMA_SUCCESS;
}

urma_status_t Sender::wake_one() noexcept {
  lock().wake_one();
  return URMA_SUCCESS;
}

urma_status_t Sender::wake_and_post_rest(const urma_jfs_wr_t* sent, urma_jfs_wr_t* rest,
                                         urma_jfs_wr_t** bad_wr) noexcept {
  bool solicited = false;
  for (; sent != rest; sent = sent->next) solicited |= sent->flag.bs.solicited_enable != 0;
  short_path()->wake_where_awaited(solicited);
  return post_rest(rest, bad_wr);
}

urma_status_t Sender::post_rest(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  urma_status_t status = URMA_SUCCESS;
  for (; wr != nullptr; wr = wr->next) {
    if (post_direct(*wr)) continue;
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

inline bool Sender::post_direct(const urma_jfs_wr_t& wr) {
  switch (direct_kind_of(wr.opcode)) {
    case OpKind::kWrite:
      return post_as_run<Simple::kAll, OpKind::kWrite>(wr);
    case OpKind::kRead:
      return post_as_run<Simple::kAll, OpKind::kRead>(wr);
    case OpKind::kSend:
      if (!post_as_run<Simple::kAll, OpKind::kSend>(wr)) return false;
      if (short_path()->may_be_awaited()) {
        short_path()->wake_where_awaited(wr.flag.bs.solicited_enable != 0);
      }
      return true;
    case OpKind::kAtomic:
      return post_as_run<Simple::kAll, OpKind::kAtomic>(wr);
    case OpKind::kWriteAtomic:
      return post_as_run<Simple::kAll, OpKind::kWriteAtomic>(wr);
    default:
      return false;
  }
}

template <Sender::Simple kSimple, OpKind kKind>
inline bool Sender::post_as_run(const urma_jfs_wr_t& wr) {
  uint32_t taken = 0;
  queue().begin_run();
  if (!post_simple<kSimple, kKind>(wr, &taken)) [[unlikely]]
    return false;
  end_run<kKind>(taken);
  return true;
}

template <OpKind kKind>
inline void Sender::end_run(uint32_t taken) {
  if constexpr (kKind == OpKind::kSend) {
    queue().end_run_sent(taken, last_path());
  } else if (taken != 0) {
    queue().end_run_done(taken, last_path());
  }
}

template <Sender::Simple kSimple, OpKind kKind>
inline bool Sender::post_simple(const urma_jfs_wr_t& wr, uint32_t* taken) {
  if (!is_simple(wr)) return false;
  if constexpr (kKind == OpKind::kSend) {
    return send_direct<kSimple>(wr, taken);
  } else {
    constexpr uint64_t kDone = start_of_form(SendState::kDone, OpKind::kNone, true);
    constexpr bool kFew = kSimple == Simple::kWithoutCall;
    constexpr uint32_t kLimit = kFew ? kFewBytes : kCopyPerTurn;
    DirectAccess access;
    if (config().trans_mode == URMA_TM_UM ||
        !view_direct<kKind>(wr, config().max_inline_data, kLimit, &access)) {
      return false;
    }
    if (wr.flag.bs.complete_enable == 0) {
      if (!execute_direct<kKind, kFew>(wr, access)) [[unlikely]]
        return false;
    } else {
      if (!queue().room_after(*taken) || !execute_direct<kKind, kFew>(wr, access)) [[unlikely]]
        return false;
      fill_place(wr, access.bytes, kDone, queue().place_after(*taken));
      ++*taken;
    }
    queue().count_executed(access.bytes);
    return true;
  }
}

inline void Sender::fill_place(const urma_jfs_wr_t& wr, uint64_t bytes, uint64_t form,
                               uint32_t place) {
  SendEntry& entry = queue().at(place);
  std::memcpy(static_cast<EntryForm*>(&entry), &form, sizeof(form));
  entry.user_ctx = wr.user_ctx;
  entry.bytes = bytes;
  entry.path = last_path();
}

template <Sender::Simple kSimple>
inline bool Sender::send_direct(const urma_jfs_wr_t& wr, uint32_t* taken) {
  constexpr uint64_t kSignalled = start_of_form(SendState::kInFlight, OpKind::kSend, true);
  constexpr uint64_t kUnsignalled = start_of_form(SendState::kInFlight, OpKind::kSend, false);
  DirectSend send;
  if (!view_send(wr, config().max_inline_data, &send)) return false;
  if (!queue().room_after(*taken)) [[unlikely]]
    return false;
  const uint32_t place = queue().place_after(*taken);
  const bool signalled = wr.flag.bs.complete_enable != 0;
  const bool solicited = wr.flag.bs.solicited_enable != 0;
  const bool immediate = wr.opcode == URMA_OPC_SEND_IMM;
  const MessageKind kind = immediate ? MessageKind::kSendImm : MessageKind::kSend;
  const uint8_t flags = (signalled ? kWantsAnswer : 0) | (solicited ? kSolicited : 0);
  const uint64_t value = immediate ? wr.send.imm_data : 0;
  if (kSimple != Simple::kWithoutCall && send.bytes > kMaxCopiedTwice && is_open(wr) &&
      short_path()->prefers_reference()) {
    return false;
  }
  const bool published =
      kSimple == Simple::kWithoutCall
          ? short_path()->publish_slot(kind, flags, send.data, send.bytes, value, place)
          : short_path()->publish_now(kind, flags, send.data, send.bytes, value, place);
  if (!published) return false;
  fill_place(wr, send.bytes, signalled ? kSignalled : kUnsignalled, place);
  ++*taken;
  return true;
}

}  // namespace urma::shm
