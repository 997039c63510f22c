// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/remote_region.h"

#include <algorithm>

#include "urma/base/log.h"

namespace urma::verbs {
namespace {

// Of one import. They stay as long as it does; an owner that registers anew now and then has few.
constexpr size_t kMaxGrants = 4096;

}  // namespace

RemoteRegion::RemoteRegion(Transport* transport, Connector* connector, urma_context_t* ctx,
                           const urma_seg_t& imported, urma_token_t token)
    : ImportedSegment(imported, token),
      transport_(transport),
      connector_(connector),
      serial_(transport->next_serial()),
      device_(ctx == nullptr ? "" : ctx->dev->name) {
  registered = false;
  urma_ctx = ctx;
  transport_->imports().add(serial_, this);
}

RemoteRegion::~RemoteRegion() { transport_->imports().remove(serial_); }

void RemoteRegion::doubt(const KeyGrant* refused) {
  // Relaxed: nothing is published. Where a newer one has come, that one stays.
  grant.compare_exchange_strong(refused, nullptr, std::memory_order_relaxed);
}

uint64_t RemoteRegion::ask(const Wanted& wanted) {
  const MutexLock lock(mutex_);
  if (asked_ > ended_) return asked_;
  add_ref();  // dropped by finish()
  try {
    transport_->service().post([this, wanted] {
      connector_->ask_for_segment(
          {seg.ubva.eid, wanted.va, wanted.len, seg.token_id, token().token},
          [this, wanted](const SegmentAnswer& answer) { finish(wanted, answer); });
    });
  } catch (...) {
    drop_ref();
    throw;
  }
  wanted_ = wanted;
  return ++asked_;
}

bool RemoteRegion::asked_for(const Wanted& wanted) const {
  const MutexLock lock(mutex_);
  return wanted_ == wanted;
}

void RemoteRegion::finish(const Wanted& wanted, const SegmentAnswer& answer) {
  {
    const MutexLock lock(mutex_);
    last_status_ = status_of(answer.answer);
    ended_ = asked_;
    if (answer.answer == Answer::kAccepted) {
      const KeyGrant answered = {answer.reply.base, answer.reply.len, answer.reply.access,
                                 answer.reply.rkey};
      // One that comes again needs no place again: an owner that is asked often stays small.
      const auto same = std::find_if(grants_.begin(), grants_.end(), [&](const auto& known) {
        return known->base == answered.base && known->len == answered.len &&
               known->access == answered.access && known->rkey == answered.rkey;
      });
      const KeyGrant* kept = same != grants_.end() ? same->get() : nullptr;
      if (kept == nullptr && grants_.size() < kMaxGrants) {
        grants_.push_back(std::make_unique<const KeyGrant>(answered));
        kept = grants_.back().get();
      }
      if (kept == nullptr) {
        last_status_ = URMA_CR_REM_OPERATION_ERR;
        URMA_LOG_LIMITED(WARNING,
                         "segment at va {:#x} of token id {:#x} has had {} keys; import it anew",
                         uint64_t{seg.ubva.va}, seg.token_id, grants_.size());
      }
      // SYNC(key-grant): release pairs with the acquire in granted().
      grant.store(kept, std::memory_order_release);
    } else {
      URMA_LOG_LIMITED(WARNING, "segment at va {:#x} of token id {:#x} cannot be used: {}",
                       wanted.va, seg.token_id, answer_text(answer.answer));
    }
  }
  transport_->serve_senders();
  drop_ref();
}

bool RemoteRegion::ended(uint64_t attempt, urma_cr_status_t* status) const {
  const MutexLock lock(mutex_);
  if (ended_ < attempt) return false;
  *status = last_status_;
  return true;
}

}  // namespace urma::verbs
