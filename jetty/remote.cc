// SPDX-License-Identifier: MIT
#include "jetty/remote.h"

#include "jetty/transport.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {

const char* answer_text(Answer answer) {
  switch (answer) {
    case Answer::kAccepted:
      return "accepted";
    case Answer::kRefusedVersion:
      return "the owner runs another version of this library, or one for another architecture";
    case Answer::kRefusedUser:
      return "the owner belongs to another user";
    case Answer::kNoResources:
      return "the owner is out of memory or descriptors";
    case Answer::kMalformed:
      return "the owner found the request malformed";
    case Answer::kNoSuchObject:
      return "the owner has no such object, or it is not READY";
    case Answer::kWrongToken:
      return "the token value is wrong";
    case Answer::kWrongMode:
      return "the transport mode is not the owner's";
    case Answer::kNoAccess:
      return "the segment does not allow it";
    case Answer::kMisaligned:
      return "the address is not aligned to its width";
    case Answer::kOtherDevice:
      return "both sides need the same kind of device, RoCE, InfiniBand or iWARP, and the "
             "owner's is another";
    case Answer::kUnreachable:
      return "its owner is gone or does not answer";
    case Answer::kNoResourcesHere:
      return "this process lacks memory or descriptors to ask its owner";
  }
  return "unknown answer";
}

const char* target_name(uint32_t target_type) {
  if (target_type == URMA_JETTY_GROUP) return "group";
  return target_type == URMA_JFR ? "JFR" : "jetty";
}

uint64_t QueueSerials::take(const Key& key, uint64_t fresh) {
  const MutexLock lock(mutex_);
  Use& use = uses_.try_emplace(key, Use{fresh, 0}).first->second;
  ++use.imports;
  return use.serial;
}

void QueueSerials::give_back(const Key& key) {
  const MutexLock lock(mutex_);
  const auto use = uses_.find(key);
  if (use != uses_.end() && --use->second.imports == 0) uses_.erase(use);
}

void RemoteQueue::end_import() {
  if (imported.exchange(false)) transport->queue_serials().give_back(key());
}

uint64_t ImportedSegment::ask(const Wanted& wanted) {
  const MutexLock lock(mutex_);
  if (is_asking()) return asked_;
  add_ref();  // dropped when the answer has come
  try {
    transport_->service().post([this, wanted] { ask_owner(wanted); });
  } catch (...) {
    drop_ref();
    throw;
  }
  asked_range_ = wanted;
  return ++asked_;
}

bool ImportedSegment::asked_for(const Wanted& wanted) const {
  const MutexLock lock(mutex_);
  return asked_range_ == wanted;
}

bool ImportedSegment::ended(uint64_t attempt, urma_cr_status_t* status) const {
  const MutexLock lock(mutex_);
  if (ended_ < attempt) return false;
  *status = last_status_;
  return true;
}

Answer ImportedSegment::last_answer() const {
  const MutexLock lock(mutex_);
  return last_answer_;
}

void ImportedSegment::attempt_ended(Answer answer, urma_cr_status_t status) {
  last_answer_ = answer;
  last_status_ = status;
  ended_ = asked_;
}

void ImportedSegment::log_refusal(const Wanted& wanted, Answer answer) const {
  URMA_LOG_LIMITED(WARNING, "segment at va {:#x} of token id {:#x} cannot be used: {}", wanted.va,
                   seg.token_id, answer_text(answer));
}

void ImportedSegment::enter_list(urma_context_t* ctx) {
  urma_ctx = ctx;
  device_ = ctx == nullptr ? "" : ctx->dev->name;
  serial_ = transport_->next_serial();
  transport_->imports().add(serial_, this);
}

void ImportedSegment::drop_older_soon() {
  add_ref();  // dropped when they have gone
  try {
    transport_->service().post([this] {
      guarded(URMA_LOG_SITE, [this] { drop_older(); });
      drop_ref();
    });
  } catch (const std::exception&) {
    // They go with those of the next time.
    drop_ref();
  }
}

void ImportedSegment::await_queues() { transport_->await_queues(); }

void ImportedSegment::leave_list() { transport_->imports().remove(serial_); }

urma_seg_t describe_memory(const urma_eid_t& owner, uint64_t addr, uint64_t bytes,
                           uint32_t token_id) {
  urma_seg_t described = {};
  described.ubva.eid = owner;
  described.ubva.va = addr;
  described.len = bytes;
  described.token_id = token_id;
  return described;
}

bool possible(const SegmentGrant& given) {
  return given.ref.index < kMaxSegments && given.len != 0 && given.base <= UINT64_MAX - given.len;
}

urma_cr_status_t status_of(Answer answer) {
  switch (answer) {
    case Answer::kAccepted:
      return URMA_CR_SUCCESS;
    case Answer::kUnreachable:
    case Answer::kRefusedVersion:
    case Answer::kRefusedUser:
    case Answer::kOtherDevice:
      return URMA_CR_ACK_TIMEOUT_ERR;
    case Answer::kNoResources:
      return URMA_CR_REM_OPERATION_ERR;
    case Answer::kNoResourcesHere:
      return URMA_CR_LOC_OPERATION_ERR;
    case Answer::kMalformed:
    case Answer::kMisaligned:
      return URMA_CR_REM_UNSUPPORTED_REQ_ERR;
    default:
      return URMA_CR_REM_ACCESS_ABORT_ERR;
  }
}

}  // namespace urma
