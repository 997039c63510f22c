// SPDX-License-Identifier: MIT
#include "urma/providers/local/remote.h"

#include "urma/base/log.h"
#include "urma/providers/local/transport.h"

namespace urma::local {

urma_cr_status_t status_of(Answer answer) {
  switch (answer) {
    case Answer::kAccepted:
      return URMA_CR_SUCCESS;
    case Answer::kUnreachable:
    case Answer::kRefusedVersion:
    case Answer::kRefusedUser:
      return URMA_CR_ACK_TIMEOUT_ERR;
    case Answer::kNoResources:
      return URMA_CR_REM_OPERATION_ERR;
    case Answer::kMalformed:
    case Answer::kMisaligned:
      return URMA_CR_REM_UNSUPPORTED_REQ_ERR;
    default:
      return URMA_CR_REM_ACCESS_ABORT_ERR;
  }
}

RemoteSegment::RemoteSegment(Transport* transport, urma_context_t* ctx, const urma_seg_t& imported,
                             urma_token_t token)
    : SegmentHandle{}, transport_(transport), token_(token) {
  registered = false;
  seg = imported;
  urma_ctx = ctx;
}

std::shared_ptr<const Grant> RemoteSegment::grant() const {
  std::lock_guard lock(mutex_);
  return grant_;
}

uint64_t RemoteSegment::ask() {
  std::lock_guard lock(mutex_);
  if (asked_ > ended_) return asked_;
  add_ref();  // dropped by finish()
  try {
    transport_->service().post([this] { ask_owner(); });
  } catch (...) {
    drop_ref();
    throw;
  }
  return ++asked_;
}

void RemoteSegment::ask_owner() {
  std::shared_ptr<Link> link;
  try {
    link = transport_->link_to(IdKind::kToken, seg.ubva.eid, seg.token_id);
    if (link != nullptr) {
      Request request = {};
      request.type = RequestType::kImportSegment;
      request.import_segment = {seg.ubva.eid, seg.ubva.va, seg.len, seg.token_id, token_.token};
      link->request(request, -1, [this, link](const Reply& reply) { finish(link, reply); });
      return;
    }
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "asking for the segment of token id {:#x}: {}", seg.token_id,
                     error.what());
  }
  finish(nullptr, Reply{0, Answer::kUnreachable, {}});
}

bool RemoteSegment::ended(uint64_t attempt, urma_cr_status_t* status) const {
  std::lock_guard lock(mutex_);
  *status = last_status_;
  return ended_ >= attempt;
}

void RemoteSegment::finish(std::shared_ptr<Link> link, const Reply& reply) {
  const bool granted =
      reply.answer == Answer::kAccepted && reply.import_segment.index < kMaxSegments;
  if (!granted) log_refusal(reply.answer);
  {
    std::lock_guard lock(mutex_);
    if (granted) {
      const ImportSegmentAnswer& given = reply.import_segment;
      grant_ = std::make_shared<Grant>(Grant{
          std::move(link), {{given.index, given.generation}, given.base, given.len, given.access}});
      last_status_ = URMA_CR_SUCCESS;
    } else {
      last_status_ =
          reply.answer == Answer::kAccepted ? URMA_CR_REM_OPERATION_ERR : status_of(reply.answer);
    }
    ended_ = asked_;
  }
  drop_ref();
}

void RemoteSegment::log_refusal(Answer answer) const {
  URMA_LOG_LIMITED(WARNING, "segment at va {:#x} of token id {:#x} cannot be used: {}",
                   uint64_t{seg.ubva.va}, seg.token_id, answer_text(answer));
}

}  // namespace urma::local
