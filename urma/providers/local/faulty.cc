// SPDX-License-Identifier: MIT
#include "urma/providers/local/faulty.h"

#include "jetty/context.h"
#include "jetty/ops.h"
#include "jetty/queues.h"
#include "urma/base/clock.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/local/receiver.h"
#include "urma/providers/local/transport.h"

namespace urma::local {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;

template <typename Object>
void fail_guarded(Object* object) noexcept {
  guarded(URMA_LOG_SITE, [object] { object->break_down(); });
}

template <typename Object, typename Handle>
urma_status_t post_send(Handle* handle, urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  auto* object = static_cast<Object*>(handle);
  auto* sender = static_cast<FaultySender*>(object->sending_half());
  if (sender == nullptr) return reject_inactive(handle, wr, bad_wr);
  bool fails = false;
  const urma_status_t status = sender->post(wr, bad_wr, &fails);
  // The caller uses the queue, so it stands.
  if (fails) fail_guarded(object);
  return status;
}

template <typename Object>
Faults* faults_of(const Object& object) {
  return static_cast<Transport&>(static_cast<Context*>(object.urma_ctx)->transport()).faults();
}

Jfr* receives_of(Jfr* jfr) { return jfr; }
Jfr* receives_of(Jetty* jetty) { return static_cast<Jfr*>(jetty->jetty_cfg.shared.jfr); }

template <typename Object, typename Handle>
urma_status_t post_receive(Handle* handle, urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept {
  auto* object = static_cast<Object*>(handle);
  auto* receiver = static_cast<Receiver*>(object->receiving_half());
  if (receiver == nullptr) return reject_inactive(handle, wr, bad_wr);
  const urma_status_t status = receiver->post(wr, bad_wr);
  Jfr* jfr = receives_of(object);
  const urma_jfr_wr_t* end = status == URMA_SUCCESS ? nullptr : *bad_wr;
  bool fails = false;
  for (; wr != end; wr = wr->next) fails |= faults_of(*object)->fails_receiver();
  if (fails) fail_guarded(jfr);
  return status;
}

}  // namespace

urma_status_t FaultySender::post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr, bool* fails) noexcept {
  lock().enter();
  urma_status_t status = URMA_SUCCESS;
  for (; wr != nullptr; wr = wr->next) {
    TargetPath* path = nullptr;
    status = take_in(*wr, &path);
    if (path != nullptr) go_on(path);
    if (status != URMA_SUCCESS) {
      queue().count_refused();
      *bad_wr = wr;
      break;
    }
    queue().count_post();
    *fails |= faults_->fails_queue(kind_of(wr->opcode));
  }
  return finish_post(status);
}

void FaultyPath::give_up_first() {
  judged_ = false;
  QueuePath::give_up_first();
}

void FaultyPath::flush() {
  judged_ = false;
  QueuePath::flush();
}

QueuePath::Step FaultyPath::execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  if (!judged_) {
    fault_ = faults_->of_request(entry->kind);
    judged_ = true;
    if (fault_ && fault_->kind == FaultKind::kDelay) {
      not_before_ns_ = monotonic_ns() + fault_->ms * kNsPerMs;
    }
  }
  const Step step = befall(entry, budget, status);
  if (step != Step::kWait) judged_ = false;
  return step;
}

QueuePath::Step FaultyPath::befall(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) {
  if (faults_->device_failed()) {
    *status = URMA_CR_LOC_OPERATION_ERR;
    return Step::kDone;
  }
  if (faults_->port_down()) {
    *status = URMA_CR_ACK_TIMEOUT_ERR;
    return Step::kDone;
  }
  if (!fault_) return QueuePath::execute(entry, budget, status);
  switch (fault_->kind) {
    case FaultKind::kDelay:
      if (monotonic_ns() < not_before_ns_) return Step::kWait;
      break;
    case FaultKind::kDrop:
      break_connection();
      *status = URMA_CR_ACK_TIMEOUT_ERR;
      return Step::kDone;
    case FaultKind::kRnr:
      *status = URMA_CR_RNR_RETRY_CNT_EXC_ERR;
      return Step::kDone;
    case FaultKind::kToken:
      *status = URMA_CR_REM_ACCESS_ABORT_ERR;
      return Step::kDone;
    case FaultKind::kJfc:
      static_cast<CompletionQueue*>(sender()->config().jfc)->overflowed();
      break;
    default:
      break;
  }
  return QueuePath::execute(entry, budget, status);
}

// As if the peer's process had ended: everything that is under way to it ends. The next request
// connects anew.
void FaultyPath::break_connection() {
  Transport* transport = &sender()->transport();
  transport->service().post(
      [transport, ended = transport->ended(), kind = id_kind(target()->type), id = target()->id] {
        if (*ended) return;
        guarded(URMA_LOG_SITE, [&] {
          const std::shared_ptr<Link> link = transport->link_to(kind, id.eid, id.id);
          if (link != nullptr) link->hang_up();
        });
      });
}

void add_faulty_post_ops(urma_ops_t* ops) {
  ops->post_jfs_wr = post_send<Jfs, urma_jfs_t>;
  ops->post_jetty_send_wr = post_send<Jetty, urma_jetty_t>;
  ops->post_jfr_wr = post_receive<Jfr, urma_jfr_t>;
  ops->post_jetty_recv_wr = post_receive<Jetty, urma_jetty_t>;
}

}  // namespace urma::local
