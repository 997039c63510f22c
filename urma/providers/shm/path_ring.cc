// SPDX-License-Identifier: MIT
//
// The rings of a way to one target: how the owner is asked to take them, and to give them back.
#include <algorithm>
#include <utility>

#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/base/random.h"
#include "urma/providers/shm/path.h"
#include "urma/providers/shm/sender.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {
namespace {

// If a ring has room for fewer messages of a size than this, their sender waits for each answer.
// Once kFoundFullToGrow of them found no room, a ring kGrowth times as large replaces it.
constexpr uint32_t kFewMessages = 16;
constexpr uint32_t kFoundFullToGrow = 32;
constexpr uint32_t kGrowth = 4;

// On the service thread: the owner has mapped the ring. Seals it, and takes the bell of the answer.
Answer take_ring(RingOpening* opening, const OpenRingAnswer& answer, Attached& fds) {
  Answer refused = Answer::kNoResources;
  try {
    if (!opening->ring.memory().end_mapping()) fail(URMA_FAIL, "its owner can punch holes into it");
    opening->bell = opening->link->wakeups().accept(answer.receiver_jfc, opening->link->region(),
                                                    fds.empty() ? Fd() : std::move(fds[0]));
    return Answer::kAccepted;
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a ring is given back: {}", error.what());
    refused = answer_of(error, refused);
  }
  Request request = {};
  request.type = RequestType::kCloseRing;
  request.close_ring = {opening->number, 0};
  opening->link->notify(request);
  return refused;
}

// On the service thread. On any failure, the opening ends.
void ask_for_ring(Transport* transport, const std::shared_ptr<RingOpening>& opening,
                  Request request, EventChannel* channel, uint32_t jfc_id) {
  transport->opening_begins();
  const auto end = [transport, opening](const Reply& reply, Attached& fds) {
    const bool accepted = reply.answer == Answer::kAccepted;
    const Answer answer = accepted ? take_ring(opening.get(), reply.open_ring, fds) : reply.answer;
    opening->ring.close_fd();
    opening->members = std::min<uint32_t>(reply.open_ring.members, URMA_MAX_JETTY_IN_JETTY_GRP);
    opening->end(answer);
    transport->opening_ends();
    transport->serve_senders();
  };
  Answer unasked = Answer::kUnreachable;
  try {
    const OpenRingRequest& asked = request.open_ring;
    opening->link =
        transport->link_to(id_kind(asked.target_type), asked.target_eid, asked.target_id);
    if (opening->link == nullptr) {
      transport->log_absence(target_name(asked.target_type), asked.target_id);
    } else {
      transport->for_watches([&](PeerWatches* each) {
        each->look_now(id_kind(asked.target_type), asked.target_eid, asked.target_id);
      });
    }
    if (opening->link != nullptr && !opening->link->gone()) {
      const std::shared_ptr<const Wakeup> wakeup =
          opening->link->wakeups().offer(channel, jfc_id, &request.open_ring.sender_jfc);
      std::vector<int> fds = {opening->ring.memory().fd()};
      if (wakeup != nullptr) fds.push_back(wakeup->there.get());
      // The wake-up stays open until the answer.
      return opening->link->request(
          request, fds, [end, wakeup](const Reply& reply, Attached& with) { end(reply, with); });
    }
    if (opening->link != nullptr) unasked = opening->link->ended_with();
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "opening a ring to id {:#x}: {}", request.open_ring.target_id,
                     error.what());
    unasked = Answer::kNoResourcesHere;
  }
  Attached none;
  end(Reply{0, unasked, {}}, none);
}

// What has failed is asked again.
template <typename Ask>
void ask_unless_it_fails(RingOpening& opening, const Ask& ask) {
  const urma_status_t asked = guarded(URMA_LOG_SITE, [&] {
    ask();
    return URMA_SUCCESS;
  });
  if (asked != URMA_SUCCESS) opening.asked_back.store(false, std::memory_order_relaxed);
}

}  // namespace

// Takes the owner's answer about a ring. True if it refuses one that is empty.
bool QueuePath::take_answer() {
  if (ring_ != nullptr || opening_ == nullptr || !opening_->has_ended()) return false;
  if (opening_->answer == Answer::kAccepted) {
    ring_ = &opening_->ring;
    URMA_LOG(DEBUG, "queue {:#x} sends to {} {:#x} through a ring of {} bytes", sender_->id().id,
             target_name(target()->type), target()->id.id, ring_->bytes());
    target()->members.store(opening_->members, std::memory_order_relaxed);
    // Nothing could wake the receiver when these messages were published.
    if (!ring_->idle()) wake_where_awaited(true);
    return false;
  }
  if (ring_idle()) return true;
  fail_all(refusal());
  return false;
}

// With one log line.
urma_cr_status_t QueuePath::refusal() {
  URMA_LOG_LIMITED(WARNING, "queue {:#x} cannot send to {} {:#x}: {}", sender_->id().id,
                   target_name(target()->type), target()->id.id, answer_text(opening_->answer));
  ring_lost(opening_->answer == Answer::kUnreachable);
  return outcome_of(opening_->answer);
}

// Prepares the ring for a message. Does not wait for the handshake: published messages arrive even
// if this queue ends now.
bool QueuePath::prepare_ring() {
  if (closing_ || !change_rings()) return false;
  if (opening_ == nullptr) opening_ = request_ring(sender_->transport().ring_bytes());
  return true;
}

// False while the larger ring has to wait until the other one is empty: messages stay in order.
bool QueuePath::change_rings() {
  if (larger_ == nullptr || !larger_->has_ended()) return true;
  if (larger_->answer != Answer::kAccepted || larger_->link->gone()) {
    larger_.reset();
    return true;
  }
  if (!ring_idle()) {
    // What has room in the other one lies there at once, as all messages do.
    if (!found_full_) return true;
    opening_->ring.want_answers();
    return false;
  }
  const std::shared_ptr<RingOpening> larger = std::move(larger_);
  drop_ring();
  opening_ = larger;
  ring_ = &opening_->ring;
  return true;
}

// Asks for the larger ring, once for each smaller one. Not for a group, which might choose another
// member for it.
void QueuePath::note_full(uint32_t payload) {
  const uint32_t larger = sender_->transport().ring_bytes() * kGrowth;
  if (std::exchange(found_full_, true) || ring_ == nullptr || larger > kMaxRingBytes ||
      slots_for(payload) * kSlotBytes * kFewMessages <= ring_->bytes() ||
      target()->type == URMA_JETTY_GROUP) {
    return;
  }
  if (++found_full_count_ != kFoundFullToGrow) return;
  try {
    larger_ = request_ring(larger);
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(WARNING, "queue {:#x} continues with a ring of {} bytes: {}", sender_->id().id,
                     ring_->bytes(), error.what());
  }
}

QueuePath::Step QueuePath::open_ring(urma_cr_status_t* status) {
  if (!prepare_ring()) return Step::kWait;
  // Looked at once, since the answer may come in between. Messages that the refusal has ended have
  // ended the opening too: the next one asks anew.
  const bool refused = take_answer();
  if (ring_ != nullptr) return Step::kInFlight;
  if (!refused) return Step::kWait;
  *status = refusal();
  opening_.reset();
  return Step::kDone;
}

std::shared_ptr<RingOpening> QueuePath::request_ring(uint32_t bytes) {
  Transport& transport = sender_->transport();
  auto opening = std::make_shared<RingOpening>(bytes, transport.ring_bytes());
  opening->number = static_cast<uint32_t>(transport.next_serial());
  opening->key = random_value<uint64_t>();
  Request request = {};
  request.type = RequestType::kOpenRing;
  request.open_ring = {target()->id.eid,
                       opening->key,
                       sender_->id(),
                       target()->id.id,
                       static_cast<uint32_t>(target()->type),
                       static_cast<uint32_t>(sender_->config().trans_mode),
                       target()->token.token,
                       opening->number,
                       opening->ring.bytes(),
                       sender_->config().rnr_retry,
                       hint(),
                       {}};
  const auto* jfc = static_cast<const CompletionQueue*>(sender_->config().jfc);
  transport.service().post(
      [&transport, opening, request, channel = jfc->channel(), jfc_id = jfc->bell_index()] {
        ask_for_ring(&transport, opening, request, channel, jfc_id);
      });
  return opening;
}

// Fails nothing where no memory is left: an owner that was not asked keeps an idle ring until its
// link ends; one that is to give a ring back is asked again by press().
void QueuePath::ask_to_close(const std::shared_ptr<RingOpening>& opening, bool lends) {
  const auto ask = [opening, lends] {
    // An opening in progress ends on the service thread too, so its link is set.
    if (opening->link == nullptr || opening->link->gone()) return;
    Request request = {};
    request.type = RequestType::kCloseRing;
    request.close_ring = {opening->number, lends ? 1U : 0U};
    if (!lends) return opening->link->notify(request);
    // An owner that does not answer in time is given up, and with it what is in the ring.
    ask_unless_it_fails(*opening, [&] {
      opening->link->request(request, {}, [opening](const Reply&, Attached&) {
        opening->asked_back.store(false, std::memory_order_relaxed);
      });
    });
  };
  // Relaxed, as in its answer: only another question waits for that.
  opening->asked_back.store(lends, std::memory_order_relaxed);
  ask_unless_it_fails(*opening, [&] { sender_->transport().service().post(ask); });
}

void QueuePath::drop_ring() {
  if (opening_ == nullptr) return;
  URMA_LOG(DEBUG, "the ring of queue {:#x} to {} {:#x} closes", sender_->id().id,
           target_name(target()->type), target()->id.id);
  ask_to_close(opening_, /*lends=*/false);
  if (larger_ != nullptr) ask_to_close(std::exchange(larger_, nullptr), /*lends=*/false);
  opening_.reset();
  ring_ = nullptr;
  waiting_for_.reset();
  closing_ = false;
  found_full_count_ = 0;
}

}  // namespace urma::shm
