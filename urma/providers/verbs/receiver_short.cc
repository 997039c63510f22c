// SPDX-License-Identifier: MIT
//
// The short way of receives: one piece of memory that is registered, and messages without immediate
// data from peers that have sent before. All of it makes no call but those of the device.
#include <algorithm>
#include <utility>

#include "urma/providers/verbs/receiver.h"

namespace urma::verbs {

// Puts a receive behind those that are listed. False where it is not so simple.
[[gnu::always_inline]] inline bool Receiver::add_short(const urma_jfr_wr_t& wr) {
  const urma_sge_t* piece = wr.src.sge;
  uint32_t lkey;
  if (wr.src.num_sge != 1 || piece == nullptr || piece->len == 0 ||
      resources_.keys->own_segment(*piece, piece->len, &lkey) == nullptr) {
    return false;
  }
  const uint32_t index = table_.free_index();
  if (index == table_.depth()) [[unlikely]]
    return false;
  PostedReceive* place = &table_.at(index);
  place->user_ctx = wr.user_ctx;
  place->bytes = piece->len;
  place->pieces = 1;
  ibv_sge* listed = ReceiveTable::pieces(place);
  *listed = {piece->addr, piece->len, lkey};
  table_.take(place);
  ibv_recv_wr& request = requests_[listed_];
  // The one behind it is there only if it is added, see post().
  request = {index, &request + 1, listed, 1};
  ++listed_;
  return true;
}

urma_status_t Receiver::post(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept {
  if (!lock_.enter_biased()) [[unlikely]]
    return post_behind(wr, bad_wr);
  urma_jfr_wr_t* const first = wr;
  if (datagrams_ == nullptr) [[likely]] {
    while (listed_ != kBatch && add_short(*wr) && (wr = wr->next) != nullptr) {
    }
  }
  if (wr != nullptr || !in_state(URMA_JFR_STATE_READY) || srq_ == nullptr) [[unlikely]]
    return post_rest(first, wr, bad_wr);
  const uint32_t count = listed_;
  requests_[count - 1].next = nullptr;
  ibv_recv_wr* bad = nullptr;
  const int error = resources_.device->api().post_srq_recv(srq_.get(), requests_.data(), &bad);
  if (error != 0) [[unlikely]]
    return post_refused(first, error, bad, bad_wr);
  listed_ = 0;
  // Relaxed: a poll that does not see it yet has nothing to find either.
  busy_.store(true, std::memory_order_relaxed);
  counters_.posts.add(count);
  lock_.leave_biased();
  return URMA_SUCCESS;
}

urma_status_t Receiver::post_refused(urma_jfr_wr_t* first, int error, const ibv_recv_wr* bad,
                                     urma_jfr_wr_t** bad_wr) {
  uint32_t posted = 0;
  const urma_status_t status = refuse_listed(error, bad, std::exchange(listed_, 0), &posted);
  counters_.posts.add(posted);
  counters_.refused.add(1);
  for (; posted != 0; --posted) first = first->next;
  *bad_wr = first;
  lock_.leave();
  return status;
}

urma_status_t Receiver::post_behind(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) {
  lock_.enter_behind();
  return post_rest(wr, wr, bad_wr);
}

// False where it is not so simple, and nothing has happened.
[[gnu::always_inline]] inline bool Receiver::take_short(const ibv_wc& completion,
                                                        const CompletionQueue* poller,
                                                        urma_cr_t* record) {
  PostedReceive* place = table_.find(completion.wr_id);
  Incoming* incoming = recent(completion.qp_num);
  if (completion.status != IBV_WC_SUCCESS || place == nullptr || incoming == nullptr ||
      incoming->number != completion.qp_num || incoming->jfc != poller ||
      (completion.wc_flags & IBV_WC_WITH_IMM) != 0) {
    return false;
  }
  ++incoming->received;
  *record = incoming->record;
  record->user_ctx = place->user_ctx;
  record->completion_len = completion.byte_len;
  counters_.ended(URMA_CR_SUCCESS, completion.byte_len);
  table_.free(place, static_cast<uint32_t>(completion.wr_id));
  ++consumed_;
  watch_limit(table_.size());
  return true;
}

// Where nobody waits for an event, messages become records without a stop.
[[gnu::always_inline]] inline int Receiver::poll_alone(CompletionQueue* poller, int count,
                                                       urma_cr_t* cr) noexcept {
  if (!busy_.load(std::memory_order_relaxed)) return poller->finish_poll(0, cr);
  if (!lock_.enter_biased()) [[unlikely]]
    return poller->poll_rest_guarded(0, count, cr);
  if (next_ != have_ || datagrams_ != nullptr || to_flush_ != 0 || poller->armed()) [[unlikely]] {
    lock_.leave_biased();
    return poller->poll_rest_guarded(0, count, cr);
  }
  const int found = pump_->poll(completions_.data(), std::min(kBatch, count));
  int got = 0;
  while (got != found && take_short(completions_[got], poller, cr + got)) ++got;
  next_ = got;
  have_ = found;
  lock_.leave_biased();
  if (got != found) [[unlikely]]
    return poller->poll_rest_guarded(got, count, cr);
  if (got == 0) return poller->finish_poll(0, cr);
  return poller->end_poll(got);
}

int Receiver::poll_source(CompletionQueue* poller, int count, urma_cr_t* cr,
                          CompletionSource* source) noexcept {
  return static_cast<Receiver&>(*source).poll_alone(poller, count, cr);
}

int Receiver::collect(CompletionQueue* poller, int count, urma_cr_t* cr) {
  if (!busy_.load(std::memory_order_relaxed)) return 0;
  OwnerScope scope(lock_);
  Poll poll = {{poller, cr, count}, /*solicited=*/false};
  // Before: what comes meanwhile does not ring.
  if (poller->armed() && pump_->rang()) [[unlikely]]
    arm(poller);
  progress(&poll);
  return poll.got;
}

}  // namespace urma::verbs
