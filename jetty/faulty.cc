// SPDX-License-Identifier: MIT
#include "jetty/faulty.h"

#include <utility>

#include "urma/base/clock.h"

namespace urma {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;

}  // namespace

Misfortune::Verdict Misfortune::of(const SendEntry& entry, CompletionQueue* jfc,
                                   urma_cr_status_t* status) {
  if (!judged_) {
    fault_ = faults_->of_request(entry.kind);
    judged_ = true;
    if (fault_ && fault_->kind == FaultKind::kDelay) {
      not_before_ns_ = monotonic_ns() + fault_->ms * kNsPerMs;
    }
  }
  if (faults_->device_failed()) {
    *status = URMA_CR_LOC_OPERATION_ERR;
    return Verdict::kEnd;
  }
  if (faults_->port_down()) {
    *status = URMA_CR_ACK_TIMEOUT_ERR;
    return Verdict::kEnd;
  }
  if (!fault_) return Verdict::kExecute;
  switch (fault_->kind) {
    case FaultKind::kDelay:
      return monotonic_ns() < not_before_ns_ ? Verdict::kWait : Verdict::kExecute;
    case FaultKind::kDrop:
      *status = URMA_CR_ACK_TIMEOUT_ERR;
      return std::exchange(struck_, true) ? Verdict::kEnd : Verdict::kEndWithConnection;
    case FaultKind::kRnr:
      *status = URMA_CR_RNR_RETRY_CNT_EXC_ERR;
      return Verdict::kEnd;
    case FaultKind::kToken:
      *status = URMA_CR_REM_ACCESS_ABORT_ERR;
      return Verdict::kEnd;
    case FaultKind::kJfc:
      jfc->overflowed();
      return Verdict::kExecute;
    default:
      return Verdict::kExecute;
  }
}

namespace internal {

void judge_receives(Jfr* jfr, const urma_jfr_wr_t* first, const urma_jfr_wr_t* end) noexcept {
  Faults* faults = static_cast<Context*>(jfr->urma_ctx)->faults();
  bool fails = false;
  for (; first != end; first = first->next) fails |= faults->fails_receiver();
  if (fails) fail_now(jfr);
}

}  // namespace internal

}  // namespace urma
