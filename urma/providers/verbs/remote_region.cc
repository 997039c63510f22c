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
    : GrantedSegment(transport, imported, token), transport_(transport), connector_(connector) {
  enter_list(ctx);
}

void RemoteRegion::ask_owner(const Wanted& wanted) {
  connector_->ask(seg.ubva.eid, IdKind::kToken, seg.token_id,
                  SegmentRequest{seg.ubva.eid, wanted.va, wanted.len, seg.token_id, token().token},
                  [this, wanted](const Reply& reply, const PeerRef&) { finish(wanted, reply); });
}

// A repeated grant takes no new place: the list stays short though an owner is asked often.
const KeyGrant* RemoteRegion::find_same(const KeyGrant& answered) const {
  const auto same = std::find_if(grants().begin(), grants().end(), [&](const auto& granted) {
    return granted->segment.says_the_same(answered.segment) && granted->rkey == answered.rkey;
  });
  return same == grants().end() ? nullptr : same->get();
}

void RemoteRegion::finish(const Wanted& wanted, const Reply& reply) {
  {
    const MutexLock lock(mutex_);
    urma_cr_status_t status = status_of(reply.answer);
    KeyGrant answered = {};
    if (const auto* body = std::get_if<SegmentReply>(&reply.body)) {
      answered = {{body->ref, body->base, body->len, body->access, /*pages=*/0}, body->rkey};
    }
    if (reply.answer != Answer::kAccepted) {
      log_refusal(wanted, reply.answer);
    } else if (const KeyGrant* same = find_same(answered); same != nullptr) {
      put_in_force(same);
    } else if (grants().size() < kMaxGrants) {
      publish(std::make_unique<const KeyGrant>(answered));
    } else {
      put_in_force(nullptr);
      status = URMA_CR_REM_OPERATION_ERR;
      URMA_LOG_LIMITED(WARNING,
                       "segment at va {:#x} of token id {:#x} has had {} keys; import it again",
                       uint64_t{seg.ubva.va}, seg.token_id, grants().size());
    }
    attempt_ended(reply.answer, status);
  }
  transport_->serve_senders();
  drop_ref();
}

}  // namespace urma::verbs
