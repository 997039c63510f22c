// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/remote_region.h"

#include <algorithm>

#include "urma/base/log.h"

namespace urma::verbs {
namespace {

// Of one import. They live as long as it does; an owner that registers anew now and then needs few.
constexpr size_t kMaxGrants = 4096;

}  // namespace

RemoteRegion::RemoteRegion(urma::Transport* transport, Connector* connector, urma_context_t* ctx,
                           const urma_seg_t& imported, urma_token_t token)
    : ImportedSegment(transport, imported, token), transport_(transport), connector_(connector) {
  enter_list(ctx);
}

RemoteRegion::~RemoteRegion() { leave_list(); }

void RemoteRegion::doubt(const KeyGrant* refused) {
  // Relaxed: publishes nothing. A newer grant stays.
  const void* in_force = refused;
  grant_slot.compare_exchange_strong(in_force, nullptr, std::memory_order_relaxed);
}

void RemoteRegion::ask_owner(const Wanted& wanted) {
  connector_->ask_for_segment(
      {seg.ubva.eid, wanted.va, wanted.len, seg.token_id, token().token},
      [this, wanted](const SegmentAnswer& answer) { finish(wanted, answer); });
}

void RemoteRegion::finish(const Wanted& wanted, const SegmentAnswer& answer) {
  {
    const MutexLock lock(mutex_);
    urma_cr_status_t status = status_of(answer.answer);
    if (answer.answer == Answer::kAccepted) {
      const SegmentReply& reply = answer.reply;
      const KeyGrant answered = {{reply.ref, reply.base, reply.len, reply.access, /*pages=*/0},
                                 reply.rkey};
      // A repeated grant takes no new place: the list stays short though an owner is asked often.
      const auto same = std::find_if(grants_.begin(), grants_.end(), [&](const auto& known) {
        return known->segment.base == reply.base && known->segment.len == reply.len &&
               known->segment.access == reply.access && known->rkey == reply.rkey;
      });
      const KeyGrant* kept = same != grants_.end() ? same->get() : nullptr;
      if (kept == nullptr && grants_.size() < kMaxGrants) {
        grants_.push_back(std::make_unique<const KeyGrant>(answered));
        kept = grants_.back().get();
      }
      if (kept == nullptr) {
        status = URMA_CR_REM_OPERATION_ERR;
        URMA_LOG_LIMITED(WARNING,
                         "segment at va {:#x} of token id {:#x} has had {} keys; import it again",
                         uint64_t{seg.ubva.va}, seg.token_id, grants_.size());
      }
      // SYNC(key-grant): release pairs with the acquire in grant().
      grant_slot.store(kept, std::memory_order_release);
    } else {
      URMA_LOG_LIMITED(WARNING, "segment at va {:#x} of token id {:#x} cannot be used: {}",
                       wanted.va, seg.token_id, answer_text(answer.answer));
    }
    attempt_ended(answer.answer, status);
  }
  transport_->serve_senders();
  drop_ref();
}

}  // namespace urma::verbs
