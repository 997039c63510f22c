// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/receiver.h"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "jetty/work_request.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma::verbs {
namespace {

// A key that no device ever returns: unregistered memory then fails the message, as the contract
// requires, not the post.
constexpr uint32_t kNoKey = UINT32_MAX;

urma_cr_status_t receive_status(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return URMA_CR_SUCCESS;
    case IBV_WC_LOC_LEN_ERR:
      return URMA_CR_LOC_LEN_ERR;
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
      return URMA_CR_LOC_ACCESS_ERR;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_ACCESS_ERR:
      return URMA_CR_REM_ACCESS_ABORT_ERR;
    default:
      return URMA_CR_LOC_OPERATION_ERR;
  }
}

}  // namespace

// The requests from `first_listed` on that precede `wr` are listed already.
urma_status_t Receiver::post_rest(urma_jfr_wr_t* first_listed, urma_jfr_wr_t* wr,
                                  urma_jfr_wr_t** bad_wr) {
  urma_status_t status = URMA_SUCCESS;
  uint64_t posts = 0;
  const auto hand_over = [&]() URMA_REQUIRES(lock_) {
    uint32_t posted = 0;
    const urma_status_t refused = post_listed(&posted);
    posts += posted;
    for (; posted != 0; --posted) first_listed = first_listed->next;
    return refused;
  };
  bool more = true;
  while (more) {
    if (wr != nullptr && listed_ != kBatch) {
      status = add(*wr);
      if (status == URMA_SUCCESS) wr = wr->next;
      if (wr != nullptr && status == URMA_SUCCESS && listed_ != kBatch) continue;
    }
    const urma_status_t refused = hand_over();
    if (refused != URMA_SUCCESS) status = refused;
    more = wr != nullptr && status == URMA_SUCCESS;
  }
  counters_.posts.add(posts);
  if (status != URMA_SUCCESS) [[unlikely]] {
    counters_.refused.add(1);
    *bad_wr = first_listed;
  }
  lock_.leave();
  return status;
}

urma_status_t Receiver::add(const urma_jfr_wr_t& wr) {
  if (wr.src.num_sge > cfg_.max_sge || (wr.src.num_sge != 0 && wr.src.sge == nullptr)) {
    URMA_LOG_LIMITED(ERR, "post: a receive with num_sge {} at {}; the JFR takes up to {}",
                     wr.src.num_sge, static_cast<const void*>(wr.src.sge), cfg_.max_sge);
    return URMA_EINVAL;
  }
  PostedReceive* place = table_.free_place();
  if (place == nullptr) {
    URMA_LOG_LIMITED(WARNING, "post: the JFR already holds its depth of {} receives; poll first",
                     table_.depth());
    return URMA_ENOMEM;
  }
  const urma_status_t status = fill_place(wr, place);
  if (status != URMA_SUCCESS) return status;
  table_.take(place);
  list(place);
  return URMA_SUCCESS;
}

urma_status_t Receiver::fill_place(const urma_jfr_wr_t& wr, PostedReceive* place) {
  place->user_ctx = wr.user_ctx;
  place->bytes = 0;
  place->pieces = 0;
  ibv_sge* pieces = ReceiveTable::pieces(place);
  if (datagrams_ != nullptr) {
    pieces[place->pieces++] = datagrams_->header_piece(table_.index_of(place));
  }
  for (uint32_t i = 0; i < wr.src.num_sge; ++i) {
    LocalPiece piece;
    if (!local_piece(wr.src.sge[i], &piece)) return URMA_EINVAL;
    if (piece.len == 0) continue;
    uint32_t lkey = kNoKey;
    if (!piece.valid || !resources_.keys->find(piece.ref, &lkey)) lkey = kNoKey;
    pieces[place->pieces++] = {piece.addr, piece.len, lkey};
    place->bytes += piece.len;
  }
  if (datagrams_ != nullptr) pieces[place->pieces++] = datagrams_->rest_piece();
  // Soft-iWARP takes no receive without a piece.
  if (place->pieces == 0 && proof_ != nullptr) {
    pieces[place->pieces++] = {proof_->piece.addr, 0, proof_->piece.lkey};
  }
  return URMA_SUCCESS;
}

void Receiver::list(PostedReceive* place) {
  ibv_recv_wr& request = requests_[listed_];
  request = table_.request_for(place);
  if (listed_ != 0) requests_[listed_ - 1].next = &request;
  ++listed_;
}

// Hands over the listed receives; *posted is how many of them the device has taken.
urma_status_t Receiver::post_listed(uint32_t* posted) {
  *posted = std::exchange(listed_, 0);
  if (*posted == 0) return URMA_SUCCESS;
  if (!in_state(URMA_JFR_STATE_READY)) [[unlikely]] {
    turn_away();
    return URMA_SUCCESS;
  }
  ibv_recv_wr* bad = nullptr;
  const uint32_t count = *posted;
  // The short way leaves it set.
  requests_[count - 1].next = nullptr;
  const int error = post_list(requests_.data(), &bad);
  if (error == 0) [[likely]] {
    // Relaxed: a poll that does not see it yet has nothing to find either.
    busy_.store(true, std::memory_order_relaxed);
    return URMA_SUCCESS;
  }
  return refuse_listed(error, bad, count, posted);
}

urma_status_t Receiver::refuse_listed(int error, const ibv_recv_wr* bad, uint32_t count,
                                      uint32_t* posted) {
  *posted = bad == nullptr ? 0 : static_cast<uint32_t>(bad - requests_.data());
  *posted = std::min(*posted, count);
  for (uint32_t i = *posted; i < count; ++i) table_.free(table_.find(requests_[i].wr_id));
  URMA_LOG_LIMITED(ERR, "post: the device refuses a receive of JFR {:#x} with errno {}",
                   identity_.id, error);
  return error == ENOMEM ? URMA_ENOMEM : URMA_EINVAL;
}

int Receiver::post_list(ibv_recv_wr* first, ibv_recv_wr** bad) {
  *bad = first;
  if (datagrams_ != nullptr) return datagrams_->post(first, bad);
  return srq_ == nullptr ? ENOMEM : resources_.device->api().post_srq_recv(srq_.get(), first, bad);
}

// A receive that the device returned without a message.
void Receiver::post_again(PostedReceive* place) {
  ibv_recv_wr request = table_.request_for(place);
  ibv_recv_wr* bad = nullptr;
  // The device had room for it before.
  const int error = post_list(&request, &bad);
  if (error != 0) {
    URMA_LOG_LIMITED(ERR, "a receive of JFR {:#x} is lost: errno {}", identity_.id, error);
  }
}

bool Receiver::move_for(CompletionQueue* waiter, bool just_armed) {
  OwnerScope scope(lock_);
  if (just_armed) {
    if (waiter->channel() != nullptr) waiter->channel()->watch(pump_->channel());
    arm(waiter);
  }
  // Only the device knows whether a solicited message has rung.
  const bool rang = !just_armed && pump_->rang();
  Poll nobody = {{waiter}, /*solicited=*/just_armed || rang};
  const uint32_t untold = untold_ ? take_untold(waiter) : 0;
  bool more = progress(&nobody);
  // A JFC that has just armed was told of all waiting messages. Only this many are still in the
  // ring.
  if (untold != 0 && rang) waiter->completed(std::min(untold, waiter->ring().size()), true);
  // Most have got what they wait for, and need no event. The others look once more after arming.
  if (rang && waiter->armed()) {
    arm(waiter);
    more = progress(&nobody);
  }
  return more;
}

// How many messages in the JFC's ring could not be reported as solicited when they were taken.
uint32_t Receiver::take_untold(const CompletionQueue* jfc) {
  uint32_t taken = 0;
  uint32_t left = 0;
  for (auto& [key, incoming] : incoming_) {
    (incoming->jfc == jfc ? taken : left) += incoming->untold;
    if (incoming->jfc == jfc) incoming->untold = 0;
  }
  untold_ = left != 0;
  return taken;
}

void Receiver::arm(CompletionQueue* jfc) {
  // While one JFC waits for any message, those that wait for solicited ones get every message.
  const bool all_before = armed_for_all_ && !pump_->rang();
  armed_for_all_ =
      all_before || !jfc->armed_for_solicited() || !resources_.device->info().has_solicited();
  pump_->arm(/*solicited_only=*/!armed_for_all_);
}

void Receiver::try_progress() {
  if (!busy_.load(std::memory_order_relaxed) || !lock_.enter_at_once()) return;
  OwnerScope scope(lock_, std::adopt_lock);
  Poll nobody;
  progress(&nobody);
}

// True if there may be more.
bool Receiver::progress(Poll* poll) {
  if (to_flush_ != 0) [[unlikely]] {
    flush_posted(poll);
    if (to_flush_ != 0) return false;
  }
  constexpr int kTurns = 8;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (; next_ != have_; ++next_) {
      if (!take(completions_[next_], poll)) return false;
    }
    if (held_up_) [[unlikely]] {
      serve_later();
      held_up_ = false;
    }
    const int batch = poll->batch();
    if (batch == 0) return true;
    next_ = 0;
    have_ = pump_->poll(completions_.data(), batch);
    if (have_ != 0) continue;
    if (datagrams_broken_) [[unlikely]]
      reopen_datagrams();
    return false;
  }
  return true;
}

// The device has dropped all receives; they are still posted here.
void Receiver::reopen_datagrams() {
  datagrams_broken_ = false;
  try {
    datagrams_->reopen();
    std::vector<PostedReceive*> again;
    table_.list(&again);
    for (; !again.empty(); again.pop_back()) post_again(again.back());
  } catch (const std::exception& error) {
    URMA_LOG(ERR, "JFR {:#x} receives no datagrams any more: {}", identity_.id, error.what());
    subject_->raise(URMA_EVENT_JFR_ERR);
  }
}

// False if there is no room for its record: it stays in place.
bool Receiver::take(const ibv_wc& completion, Poll* poll) {
  PostedReceive* place = table_.find(completion.wr_id);
  if (place == nullptr) return true;
  DatagramHeader header = {};
  Incoming* incoming = find_sender(completion, place, &header);
  // Reopened once all its completions are looked at.
  datagrams_broken_ |= is_datagram() && completion.status != IBV_WC_SUCCESS;
  if (completion.status == IBV_WC_WR_FLUSH_ERR || incoming == nullptr) [[unlikely]] {
    // After a failure, a queue for datagrams gets all receives back when it reopens.
    if (!is_datagram() || completion.status == IBV_WC_SUCCESS) post_again(place);
    return true;
  }
  urma_cr_t record;
  urma_cr_t* into = poll->place(incoming->jfc);
  if (into == nullptr) {
    if (!incoming->jfc->ring().has_room()) {
      incoming->jfc->overflowed();
      return false;
    }
    into = &record;
  }
  fill_record(completion, *incoming, place, header, into);
  into->user_ctx = place->user_ctx;
  const urma_cr_status_t status = into->status;
  const bool solicited = poll->solicited || status != URMA_CR_SUCCESS;
  bool kept = true;
  if (into == &record) {
    kept = incoming->jfc->ring().push(record, /*solicited=*/true);
    if (!solicited) {
      ++incoming->untold;
      untold_ = true;
    }
  }
  if (completion.status == IBV_WC_SUCCESS) ++incoming->received;
  counters_.ended(status, into->completion_len);
  table_.free(place);
  ++consumed_;
  watch_limit(table_.size());
  if (kept) [[likely]] {
    incoming->jfc->completed(1, solicited);
  } else {
    lost(incoming->jfc, incoming->target);
  }
  // The device has reported it to the sender, which may ask why, and takes nothing more.
  if (completion.status != IBV_WC_SUCCESS && !is_datagram()) [[unlikely]] {
    incoming->broken = true;
    incoming->too_long |= status == URMA_CR_LOC_LEN_ERR;
    incoming->pair->fail();
  }
  return true;
}

// The sender of the message; NULL if this process no longer knows it.
Incoming* Receiver::find_sender(const ibv_wc& completion, PostedReceive* place,
                                DatagramHeader* header) {
  if (datagrams_ != nullptr) {
    constexpr uint32_t kHeaders = kRoutingHeader + sizeof(DatagramHeader);
    if (completion.status != IBV_WC_SUCCESS) return &unknown_;
    if (completion.byte_len < kHeaders) return nullptr;
    *header = datagrams_->header(table_.index_of(place));
    const auto target = incoming_.find({header->to_jetty, header->target_id});
    return target == incoming_.end() ? nullptr : target->second.get();
  }
  const uint32_t number = completion.qp_num;
  if (Incoming* known = recent(number); known != nullptr && known->number == number) return known;
  const auto found = by_number_.find(number);
  if (found == by_number_.end()) return nullptr;
  found->second->number = number;
  fill_common(found->second);
  return recent(number) = found->second;
}

void Receiver::fill_common(Incoming* incoming) {
  urma_cr_t& record = incoming->record;
  record.opcode = URMA_CR_OPC_SEND;
  record.flag.bs.s_r = 1;
  record.flag.bs.jetty = incoming->target.jetty ? 1 : 0;
  record.local_id = incoming->target.id;
  record.user_data = incoming->target.user_data;
  const QueueName& source = incoming->request.source;
  record.remote_id.eid = source.eid;
  record.remote_id.uasid = source.uasid;
  record.remote_id.id = source.id;
  record.tpn = source.id;
}

void Receiver::fill_record(const ibv_wc& completion, const Incoming& incoming, PostedReceive* place,
                           const DatagramHeader& header, urma_cr_t* record) {
  *record = incoming.record;
  record->status = receive_status(completion.status);
  // Soft-RoCE only reports that it could not use the receive.
  if (completion.status == IBV_WC_LOC_QP_OP_ERR && memory_stands(place)) [[unlikely]]
    record->status = URMA_CR_LOC_LEN_ERR;
  if (record->status != URMA_CR_SUCCESS) return;
  if (is_datagram()) return fill_datagram(completion, *place, header, record);
  record->completion_len = completion.byte_len;
  if ((completion.wc_flags & IBV_WC_WITH_IMM) == 0) return;
  record->opcode = completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM ? URMA_CR_OPC_WRITE_WITH_IMM
                                                                  : URMA_CR_OPC_SEND_WITH_IMM;
  const uint32_t immediate = ntohl(completion.imm_data);
  record->imm_data = immediate;
  if ((immediate & kInMailbox) != 0) open_letter(incoming, immediate & ~kInMailbox, record);
}

void Receiver::fill_datagram(const ibv_wc& completion, const PostedReceive& place,
                             const DatagramHeader& header, urma_cr_t* record) {
  record->remote_id.eid = header.sender_eid;
  record->remote_id.uasid = header.sender_uasid;
  record->remote_id.id = header.sender_id;
  record->tpn = header.sender_id;
  const uint32_t bytes =
      completion.byte_len - kRoutingHeader - static_cast<uint32_t>(sizeof(header));
  if (bytes > place.bytes) {
    record->status = URMA_CR_LOC_LEN_ERR;
    return;
  }
  record->completion_len = bytes;
  if (header.has_immediate == 0) return;
  record->opcode = URMA_CR_OPC_SEND_WITH_IMM;
  record->imm_data = header.immediate;
}

bool Receiver::memory_stands(PostedReceive* place) const {
  const ibv_sge* pieces = ReceiveTable::pieces(place);
  return std::all_of(pieces, pieces + place->pieces,
                     [this](const ibv_sge& piece) { return resources_.keys->has(piece.lkey); });
}

void Receiver::open_letter(const Incoming& incoming, uint32_t slot, urma_cr_t* record) {
  std::optional<Letter> letter;
  if (incoming.mailbox != nullptr) letter = incoming.mailbox->read(slot);
  if (letter.has_value() && letter->kind == LetterKind::kImmediate) {
    record->imm_data = letter->value;
    return;
  }
  if (letter.has_value() && letter->kind == LetterKind::kInvalidation) {
    const auto key = std::bit_cast<TokenKey>(letter->value);
    record->opcode = URMA_CR_OPC_SEND_WITH_INV;
    record->imm_data = 0;
    record->invalid_token = {key.token_id, {key.token}};
    if (resources_.revoker->revoke(incoming.eid, key, letter->va, letter->len)) return;
    URMA_LOG_LIMITED(WARNING, "queue {:#x} may not invalidate va {:#x} of token id {:#x}",
                     incoming.request.source.id, letter->va, key.token_id);
  } else {
    URMA_LOG_LIMITED(ERR, "queue {:#x} misused its mailbox at queue {:#x}",
                     incoming.request.source.id, incoming.target.id);
  }
  record->status = URMA_CR_LOC_OPERATION_ERR;
  record->completion_len = 0;
}

void Receiver::queue_event(ibv_event_type type) {
  if (type != IBV_EVENT_SRQ_LIMIT_REACHED) {
    URMA_LOG(ERR, "JFR {:#x} is lost: device event {}", identity_.id, static_cast<int>(type));
    subject_->raise(URMA_EVENT_JFR_ERR);
    return;
  }
  // The destroyer of the queue may hold the lock, and waits for this call.
  limit_reached_.store(true, std::memory_order_relaxed);
  resources_.transport->serve_receives();
}

// -------------------------------------------------------------------------------------------------
// The short way: one registered piece of memory, and messages without immediate data from known
// senders. It calls nothing but the device.
// -------------------------------------------------------------------------------------------------

// Appends a receive to the list. False if it does not fit the short way.
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
  // The next one exists only if it is added, see post().
  request = {index, &request + 1, listed, 1};
  ++listed_;
  return true;
}

urma_status_t Receiver::post(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept {
  if (!lock_.enter_at_once()) [[unlikely]]
    return post_behind(wr, bad_wr);
  return post_held(wr, bad_wr);
}

[[gnu::always_inline]] inline urma_status_t Receiver::post_held(urma_jfr_wr_t* wr,
                                                                urma_jfr_wr_t** bad_wr) {
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
  lock_.leave();
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
  return post_held(wr, bad_wr);
}

// False if it does not fit the short way; nothing has changed then.
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

// If no JFC waits for an event, messages become records directly.
[[gnu::always_inline]] inline int Receiver::poll_alone(CompletionQueue* poller, int count,
                                                       urma_cr_t* cr) noexcept {
  if (!busy_.load(std::memory_order_relaxed)) return poller->finish_poll(0, cr);
  if (!lock_.enter_at_once()) [[unlikely]]
    return poller->poll_rest_guarded(0, count, cr);
  // Another thread may have moved messages into the ring since this poll began.
  if (next_ != have_ || datagrams_ != nullptr || to_flush_ != 0 || poller->armed() ||
      !poller->ring().empty()) [[unlikely]] {
    lock_.leave();
    return poller->poll_rest_guarded(0, count, cr);
  }
  const int found = pump_->poll(completions_.data(), std::min(kBatch, count));
  int got = 0;
  while (got != found && take_short(completions_[got], poller, cr + got)) ++got;
  next_ = got;
  have_ = found;
  lock_.leave();
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
  // First: messages that arrive meanwhile do not ring.
  if (poller->armed() && pump_->rang()) [[unlikely]]
    arm(poller);
  progress(&poll);
  return poll.got;
}

}  // namespace urma::verbs
