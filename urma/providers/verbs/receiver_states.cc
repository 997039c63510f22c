// SPDX-License-Identifier: MIT
//
// The connections that end at a JFR, its states, and its limit.
#include <algorithm>
#include <utility>

#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/verbs/device.h"
#include "urma/providers/verbs/receiver.h"

namespace urma::verbs {
namespace {

// Later: the caller may hold the lock of a receiver.
void check_receivers(urma::Transport* transport) {
  transport->service().post([transport, ended = transport->ended()] {
    if (*ended) return;
    guarded(URMA_LOG_SITE, [&] {
      transport->visit_receivers(
          [](urma::Receiver& receiver) { static_cast<Receiver&>(receiver).check_completions(); });
    });
  });
}

}  // namespace

Receiver::Receiver(const ContextResources& resources, const urma_jfr_cfg_t& cfg,
                   const QueueIdentity& identity, EventSubject* subject)
    : urma::Receiver(cfg, identity, subject),
      resources_(resources),
      cfg_(cfg),
      // Each posted receive completes once, and its place is free after that was looked at.
      pump_(std::make_shared<CqPump>(*resources.device, cfg.depth,
                                     resources.notify->of(*resources.device, jfc_->channel()),
                                     [jfc = jfc_, transport = resources.transport] {
                                       jfc->failed();
                                       check_receivers(transport);
                                     })),
      table_(cfg.depth, cfg.max_sge + DatagramReceives::kPieces) {
  flushed_.reserve(cfg.depth);
  unknown_.target = identity;
  unknown_.jfc = jfc_;
  fill_common(&unknown_);
  if (resources_.device->info().iwarp()) {
    proof_ = std::make_unique<DeviceWord>(*resources_.device, URMA_ACCESS_READ);
  }
  open_queue();
}

Receiver::~Receiver() {
  close_all();
  pump_->forget_owner();
}

void Receiver::open_queue() {
  if (datagrams_ != nullptr) return datagrams_->reopen();
  if (is_datagram()) {
    datagrams_ = std::make_unique<DatagramReceives>(resources_, pump_, cfg_.depth, cfg_.max_sge);
    return;
  }
  ibv_srq_init_attr init = {};
  init.srq_context = static_cast<QueueListener*>(this);
  init.attr.max_wr = cfg_.depth;
  init.attr.max_sge = std::max<uint32_t>(cfg_.max_sge, 1);
  const Api* const api = &resources_.device->api();
  SrqHandle made(api, api->create_srq(resources_.device->pd(), &init));
  if (!made) {
    fail_device(resources_.device->info(),
                urma::format("making a shared receive queue of {} receives of {} pieces",
                             cfg_.depth, cfg_.max_sge),
                errno);
  }
  const auto owner = std::make_shared<SrqHandle>(std::move(made));
  srq_ = {owner, owner->get()};
}

// Senders of datagrams are not told: they must reach the same queue pair when it reopens.
void Receiver::close_queue() {
  if (datagrams_ != nullptr && !datagrams_->shut()) datagrams_.reset();
  srq_.reset();
}

// An RC jetty takes messages only of the sender that it is bound to. kAccepted without an end
// means: later.
bool Receiver::takes(const Endpoint& endpoint, const ConnectRequest& request,
                     Answer* answer) const {
  *answer = Answer::kNoSuchObject;
  if (!in_state(URMA_JFR_STATE_READY)) return false;
  *answer = Answer::kAccepted;
  if (endpoint.bond == nullptr) return true;
  if (!endpoint.bond->has_value()) return false;
  if (bound_to(*endpoint.bond, request.source.eid, request.source.id)) return true;
  *answer = Answer::kNoAccess;
  return false;
}

ConnectAnswer Receiver::accept(uint64_t nonce, const ConnectRequest& request,
                               const Endpoint& endpoint, std::shared_ptr<QueuePair>* pair) {
  pair->reset();
  if (is_datagram()) return accept_datagrams();
  const Key key = {nonce, request.connection};
  ConnectAnswer answer;
  // Held: the state may change while the device makes what depends on it.
  std::shared_ptr<ibv_srq> srq;
  {
    ForeignScope scope(lock_);
    const auto known = incoming_.find(key);
    if (known != incoming_.end()) {
      *pair = known->second->pair;
      return {Answer::kAccepted, known->second->reply};
    }
    if (!takes(endpoint, request, &answer.answer)) return answer;
    srq = srq_;
  }
  std::unique_ptr<Incoming> made = make_incoming(nonce, request, endpoint, srq);
  ForeignScope scope(lock_);
  if (srq != srq_) return {Answer::kNoSuchObject};
  if (!takes(endpoint, request, &answer.answer)) return answer;
  by_number_[made->pair->number()] = made.get();
  *pair = made->pair;
  answer.reply = made->reply;
  incoming_[key] = std::move(made);
  busy_.store(true, std::memory_order_relaxed);
  return answer;
}

std::unique_ptr<Incoming> Receiver::make_incoming(uint64_t nonce, const ConnectRequest& request,
                                                  const Endpoint& endpoint,
                                                  std::shared_ptr<ibv_srq> srq) {
  const Device& device = *resources_.device;
  auto made = std::make_unique<Incoming>();
  made->nonce = nonce;
  made->request = request;
  made->target = endpoint.identity;
  made->jfc = endpoint.jfc;
  made->eid = endpoint.eid;
  made->bond = endpoint.bond;
  if (device.info().has_immediates()) {
    made->mailbox = std::make_unique<MailboxSlots>(device, cfg_.depth);
    made->reply.mailbox = made->mailbox->address();
  }
  if (proof_ != nullptr) made->reply.mailbox = {proof_->piece.addr, *proof_->region.rkey(), 0};
  made->pair = std::make_shared<QueuePair>(device, IBV_QPT_RC, pump_, std::move(srq),
                                           QueuePairLimits{}, resources_.origin, 0,
                                           // Its sender finds out, and closes it.
                                           [] {});
  if (!device.info().iwarp()) {
    made->pair->receive_from(request.end, {.min_rnr_timer = cfg_.min_rnr_timer});
  }
  made->reply.end = made->pair->address();
  return made;
}

ConnectAnswer Receiver::accept_datagrams() {
  ForeignScope scope(lock_);
  if (!in_state(URMA_JFR_STATE_READY)) return {Answer::kNoSuchObject};
  busy_.store(true, std::memory_order_relaxed);
  return {Answer::kAccepted, datagrams_->reply()};
}

// Connections make their own ends.
void Receiver::open_ways(const Endpoint& endpoint) {
  if (!is_datagram()) return;
  auto target = std::make_unique<Incoming>();
  target->target = endpoint.identity;
  target->jfc = endpoint.jfc;
  target->eid = endpoint.eid;
  fill_common(target.get());
  ForeignScope scope(lock_);
  incoming_[{endpoint.identity.jetty ? 1 : 0, endpoint.identity.id}] = std::move(target);
}

void Receiver::take_all() {
  Poll nobody;
  while (progress(&nobody)) {
  }
}

bool Receiver::found_too_long(uint64_t nonce, uint64_t connection) {
  ForeignScope scope(lock_);
  // There may have been no poll for a while.
  take_all();
  const auto known = incoming_.find({nonce, connection});
  return known != incoming_.end() && known->second->too_long;
}

void Receiver::disconnected(uint64_t nonce, uint64_t connection) {
  {
    ForeignScope scope(lock_);
    const auto known = incoming_.find({nonce, connection});
    if (known == incoming_.end()) return;
    end_incoming(known->second.get());
  }
  resources_.transport->serve_receives();
}

std::optional<uint64_t> Receiver::settle(uint64_t nonce, uint64_t connection) {
  uint64_t received = 0;
  {
    ForeignScope scope(lock_);
    const auto known = incoming_.find({nonce, connection});
    if (known == incoming_.end() || known->second->ended) return std::nullopt;
    Incoming* incoming = known->second.get();
    // Nothing more arrives; take out what has.
    incoming->pair->fail();
    take_all();
    if (next_ != have_) return std::nullopt;
    received = incoming->received;
    end_incoming(incoming);
  }
  resources_.transport->serve_receives();
  return received;
}

// It brings no more messages. Earlier ones are still looked at, see serve().
void Receiver::end_incoming(Incoming* incoming) {
  if (std::exchange(incoming->ended, true)) return;
  incoming->pair->fail();
  ended_.push_back(incoming);
}

bool Receiver::serve() {
  std::vector<std::unique_ptr<Incoming>> gone;
  bool more = false;
  {
    ForeignScope scope(lock_);
    // All of them: the device has reported it.
    if (limit_reached_.exchange(false, std::memory_order_relaxed)) reach_limits(0);
    if (!busy_.load(std::memory_order_relaxed)) return false;
    const size_t ended = ended_.size();
    Poll nobody;
    more = progress(&nobody);
    if (more || (ended == 0 && closed_.empty())) return more;
    held_up_ = next_ != have_;
    if (held_up_) return false;
    gone.swap(closed_);
    for (size_t i = 0; i < ended; ++i) {
      recent_ = {};
      by_number_.erase(ended_[i]->pair->number());
      const auto entry = incoming_.find({ended_[i]->nonce, ended_[i]->request.connection});
      gone.push_back(std::move(entry->second));
      incoming_.erase(entry);
    }
    ended_.erase(ended_.begin(), ended_.begin() + static_cast<ptrdiff_t>(ended));
  }
  for (const auto& incoming : gone) {
    incoming->pair->close();
    if (!incoming->unbound) continue;
    resources_.connector->turn_away(incoming->nonce, incoming->request, DisconnectReason::kUnbound,
                                    incoming->received);
  }
  return false;
}

void Receiver::set_bond(Bond* bond, const Bond& peer) {
  bool unbound = false;
  {
    ForeignScope scope(lock_);
    *bond = peer;
    if (peer.has_value()) return;
    for (const auto& [key, incoming] : incoming_) {
      if (incoming->bond != bond || incoming->ended) continue;
      incoming->unbound = unbound = true;
      end_incoming(incoming.get());
    }
  }
  if (unbound) serve_later();
}

void Receiver::serve_later() {
  resources_.transport->service().post(
      [transport = resources_.transport] { transport->serve_receives(); });
}

// Tells the sender, and returns the device's resources.
void Receiver::close_incoming(Incoming* incoming) {
  if (incoming->pair == nullptr) return;
  by_number_.erase(incoming->pair->number());
  if (next_ == have_) incoming->pair->close();
  if ((incoming->ended && !incoming->unbound) || incoming->broken) return;
  const DisconnectReason reason =
      incoming->unbound ? DisconnectReason::kUnbound : DisconnectReason::kClosed;
  resources_.transport->service().post(
      [connector = resources_.connector, nonce = incoming->nonce, request = incoming->request,
       reason,
       received = incoming->received] { connector->turn_away(nonce, request, reason, received); });
}

void Receiver::close_ways(uint64_t user_data) {
  ForeignScope scope(lock_);
  // Messages that have arrived are received; no more can arrive.
  for (const auto& [key, incoming] : incoming_) {
    if (incoming->target.user_data == user_data && incoming->pair != nullptr) {
      incoming->pair->fail();
    }
  }
  take_all();
  recent_ = {};
  for (auto entry = incoming_.begin(); entry != incoming_.end();) {
    Incoming* incoming = entry->second.get();
    if (incoming->target.user_data != user_data) {
      ++entry;
      continue;
    }
    close_incoming(incoming);
    std::erase(ended_, incoming);
    // Unread messages are known by the number of their queue pair, which another one must not get
    // before they are done.
    if (next_ != have_ && incoming->pair != nullptr) {
      incoming->unbound = false;  // its sender is told
      closed_.push_back(std::move(entry->second));
      held_up_ = true;
    }
    entry = incoming_.erase(entry);
  }
}

void Receiver::close_all() {
  for (const auto& [key, incoming] : incoming_) {
    if (incoming->pair != nullptr) incoming->pair->fail();
  }
  take_all();
  have_ = next_ = 0;
  for (auto& [key, incoming] : incoming_) close_incoming(incoming.get());
  closed_.clear();
  close_queue();
  // Receives flushed by the end of the queue pairs stay posted here.
  while (pump_->poll(completions_.data(), kBatch) != 0) {
  }
  have_ = next_ = 0;
  datagrams_broken_ = false;
  recent_ = {};
  ended_.clear();
  by_number_.clear();
  // The targets of datagrams live as long as their endpoints.
  if (!is_datagram()) incoming_.clear();
}

void Receiver::device_failed() {
  set_state(URMA_JFR_STATE_ERROR);
  subject_->raise(URMA_EVENT_JFR_ERR);
}

void Receiver::check_completions() {
  if (pump_->lost() && !in_state(URMA_JFR_STATE_ERROR)) device_failed();
}

void Receiver::open() {
  pump_->require();
  open_queue();
  arm_limit();
}

uint32_t Receiver::list_posted() {
  table_.list(&flushed_);
  return table_.size();
}

void Receiver::drop_oldest() {
  table_.free(flushed_.back());
  flushed_.pop_back();
  ++consumed_;
}

// The device counts messages that nobody has polled yet; polled ones are counted here.
void Receiver::arm_limit() {
  if (limit_ == 0 || srq_ == nullptr) return;
  ibv_srq_attr attr = {};
  attr.srq_limit = limit_;
  const int error = resources_.device->api().modify_srq(srq_.get(), &attr, IBV_SRQ_LIMIT);
  if (error != 0) {
    URMA_LOG(INFO, "JFR {:#x}: the device cannot watch the limit (errno {}); polls do",
             identity_.id, error);
  }
}

uint64_t Receiver::posted() {
  ForeignScope scope(lock_);
  return table_.taken();
}

uint64_t Receiver::consumed() {
  ForeignScope scope(lock_);
  return consumed_;
}

}  // namespace urma::verbs
