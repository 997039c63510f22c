// SPDX-License-Identifier: MIT
#include "jetty/queues.h"

#include "jetty/context.h"
#include "jetty/transport.h"
#include "urma/base/bits.h"
#include "urma/base/error.h"
#include "urma/base/log.h"

namespace urma {
namespace {

CompletionQueue* queue_of(urma_jfc_t* jfc) { return static_cast<CompletionQueue*>(jfc); }

}  // namespace

bool may_end(EventSubject* subject, const char* what, uint32_t id, bool non_blocking) {
  if (subject->end(non_blocking)) return true;
  URMA_LOG_LIMITED(ERR, "{} {:#x} has asynchronous events that were not acknowledged; ack them",
                   what, id);
  return false;
}

void require_open(const char* what, const char* name, urma_jfc_t* jfc) {
  if (queue_of(jfc)->is_open()) return;
  fail(URMA_EINVAL, "{}: {} is not active; activate it first", what, name);
}

urma_status_t refuse_inactive(const char* call) {
  URMA_LOG_LIMITED(ERR, "{}: the queue is not active; call urma_active_* first", call);
  return URMA_EINVAL;
}

bool check_mask(const char* call, uint32_t mask, uint32_t known, uint32_t needed) {
  if ((mask & known) != 0 && (mask & needed) == needed) return true;
  URMA_LOG_LIMITED(ERR, "{}: mask {:#x} is not valid; set bits of {:#x}", call, mask,
                   needed != 0 ? needed : known);
  return false;
}

bool check_change(const char* call, urma_jetty_state_t from, const urma_jetty_state_t& to) {
  if (bits_of(to) <= URMA_JETTY_STATE_ERROR && change_allowed(from, to)) return true;
  URMA_LOG_LIMITED(ERR, "{}: state {} cannot be entered from state {}; see urma_jetty_state_t",
                   call, bits_of(to), bits_of(from));
  return false;
}

IdLease::IdLease(Context* context, IdKind kind, uint32_t chosen) : context_(context), kind_(kind) {
  if (chosen > kMaxChosenId) {
    fail(URMA_EINVAL, "id {} cannot be chosen; choose one of 1 to {}, or 0 for any", chosen,
         kMaxChosenId);
  }
  id_ = context_->transport().take_id(kind, context_->own_eid(), chosen);
}

IdLease::~IdLease() { context_->transport().free_id(kind_, context_->own_eid(), id_); }

// -------------------------------------------------------------------------------------------------
// JFC
// -------------------------------------------------------------------------------------------------

Jfc::Jfc(Context* ctx, const urma_jfc_cfg_t& cfg)
    : CompletionQueue(ctx, cfg, &ctx->transport(), &ctx->events()), context_(ctx) {}

urma_status_t Jfc::activate() {
  Transport& transport = context_->transport();
  const bool chosen = (urma_jfc_opt.jfc_opt_mask.value & URMA_JFC_ID_MASK) != 0;
  id_.emplace(context_, IdKind::kJfc, chosen ? urma_jfc_opt.urma_jfc_id : 0);
  try {
    open();
    jfc_id = context_->full_id(id_->get());
    if (jfc_cfg.jfce != nullptr) {
      if (chosen) bell_id_.emplace(context_, IdKind::kJfc, 0);
      const uint32_t bell = chosen ? bell_id_->get() : id_->get();
      raise_at(static_cast<EventChannel*>(jfc_cfg.jfce), &transport.segments().bell(bell), bell);
    }
    urma_ext_queue_t described = describe(*context_, URMA_EXT_QUEUE_JFC, id_->get(), jfc_cfg);
    described.state = 1;
    listed_.emplace(&transport.queues(), described,
                    [this](urma_ext_queue_t* queue) { report(queue); });
  } catch (...) {
    // Threads that sleep on the JFCE must not find it any more.
    end_events();
    shut();
    throw;
  }
  return URMA_SUCCESS;
}

urma_status_t Jfc::deactivate() {
  if (attached()) {
    URMA_LOG_LIMITED(ERR, "jfc {:#x} is still used; delete its queues first", jfc_id.id);
    return URMA_EAGAIN;
  }
  const urma_status_t ended = end_events();
  if (ended == URMA_SUCCESS) shut();
  return ended;
}

// Closes a JFC that end_events() has silenced, or that was never opened completely.
void Jfc::shut() {
  listed_.reset();
  close();
  bell_id_.reset();
  id_.reset();
  jfc_id = {};
}

// -------------------------------------------------------------------------------------------------
// JFS
// -------------------------------------------------------------------------------------------------

Jfs::Jfs(Context* ctx, const urma_jfs_cfg_t& cfg)
    : urma_jfs_t{}, context_(ctx), subject_(&ctx->events(), this) {
  urma_ctx = ctx;
  jfs_cfg = cfg;
}

Jfs::Body::Body(Context* context, Jfs* jfs, const urma_jfs_cfg_t& cfg)
    : id(context, IdKind::kJfs,
         (jfs->urma_jfs_opt.jfs_opt_mask.value & URMA_JFS_ID_MASK) != 0
             ? jfs->urma_jfs_opt.urma_jfs_id
             : 0),
      held(queue_of(cfg.jfc)),
      sender(context->transport().make_sender(
          cfg, {id.get(), false, reinterpret_cast<uint64_t>(jfs)}, context->full_id(id.get()))),
      completions(queue_of(cfg.jfc), sender->queue().collector()),
      listed(&context->transport().queues(), describe(*context, URMA_EXT_QUEUE_JFS, id.get(), cfg),
             [this](urma_ext_queue_t* queue) { sender->report(queue); }) {}

urma_status_t Jfs::activate() {
  const urma_jfs_cfg_t cfg = context_->effective(jfs_cfg);
  require_open("jfs", "jfs_cfg.jfc", cfg.jfc);
  if (cfg.trans_mode == URMA_TM_RC) {
    fail(URMA_EINVAL, "a JFS alone cannot be bound; create a jetty for URMA_TM_RC (2)");
  }
  body_.emplace(context_, this, cfg);
  live_ = body_->sender.get();
  subject_.begin();
  jfs_cfg = cfg;
  jfs_id = live_->id();
  return URMA_SUCCESS;
}

urma_status_t Jfs::deactivate() {
  if (!may_end(&subject_, "jfs", jfs_id.id, jfs_cfg.flag.bs.non_blocking != 0)) return URMA_EAGAIN;
  live_ = nullptr;
  body_->sender->finish();
  body_.reset();
  jfs_id = {};
  return URMA_SUCCESS;
}

urma_status_t Jfs::modify(urma_jfs_attr_t* attr) {
  if (live_ == nullptr) return refuse_inactive("modify_jfs");
  if (!check_mask("modify_jfs", attr->mask, JFS_STATE, JFS_STATE)) return URMA_EINVAL;
  const MutexLock lock(mutex_);
  if (!check_change("modify_jfs", live_->state(), attr->state)) return URMA_EINVAL;
  live_->set_state(attr->state);
  return URMA_SUCCESS;
}

urma_status_t Jfs::query(urma_jfs_cfg_t* cfg, urma_jfs_attr_t* attr) {
  *cfg = jfs_cfg;
  *attr = {0, live_ != nullptr ? live_->state() : URMA_JETTY_STATE_RESET};
  return URMA_SUCCESS;
}

void Jfs::break_down() {
  const MutexLock lock(mutex_);
  if (live_ == nullptr || is_stopped(live_->state())) return;
  URMA_LOG(WARNING, "jfs {:#x} has failed and is in ERROR now", jfs_id.id);
  live_->set_state(URMA_JETTY_STATE_ERROR);
  subject_.raise(URMA_EVENT_JFS_ERR);
}

int Jfs::flush(int count, urma_cr_t* cr) {
  return live_ != nullptr ? live_->hand_back(count, cr) : 0;
}

// -------------------------------------------------------------------------------------------------
// JFR
// -------------------------------------------------------------------------------------------------

Jfr::Jfr(Context* ctx, const urma_jfr_cfg_t& cfg)
    : urma_jfr_t{}, context_(ctx), subject_(&ctx->events(), this) {
  urma_ctx = ctx;
  jfr_cfg = cfg;
}

Jfr::Body::Body(Context* context, Jfr* jfr, const urma_jfr_cfg_t& cfg)
    : id(context, IdKind::kJfr, cfg.id),
      held(queue_of(cfg.jfc)),
      receiver(context->transport().make_receiver(
          cfg, {id.get(), false, reinterpret_cast<uint64_t>(jfr)}, context->eid, &jfr->subject_)),
      completions(queue_of(cfg.jfc), receiver.get()),
      records(&queue_of(cfg.jfc)->ring(), reinterpret_cast<uint64_t>(jfr)),
      known_receiver(&context->transport(), receiver.get()),
      known(&context->transport(), IdKind::kJfr,
            {{id.get(), false, reinterpret_cast<uint64_t>(jfr)},
             context->full_id(id.get()).eid,
             cfg.trans_mode,
             cfg.flag.bs.token_policy,
             cfg.token_value,
             receiver.get(),
             queue_of(cfg.jfc),
             nullptr}),
      listed(&context->transport().queues(), describe(*context, URMA_EXT_QUEUE_JFR, id.get(), cfg),
             [this](urma_ext_queue_t* queue) { receiver->report(queue); }) {}

urma_status_t Jfr::activate() {
  urma_jfr_cfg_t cfg = context_->effective(jfr_cfg);
  require_open("jfr", "jfr_cfg.jfc", cfg.jfc);
  if ((urma_jfr_opt.jfr_opt_mask.value & URMA_JFR_ID_MASK) != 0) cfg.id = urma_jfr_opt.urma_jfr_id;
  body_.emplace(context_, this, cfg);
  live_ = body_->receiver.get();
  subject_.begin();
  asked_id_ = jfr_cfg.id;
  jfr_cfg = cfg;
  jfr_cfg.id = body_->id.get();
  jfr_id = context_->full_id(jfr_cfg.id);
  return URMA_SUCCESS;
}

urma_status_t Jfr::deactivate() {
  if (shared()) {
    URMA_LOG_LIMITED(ERR, "jfr {:#x} is shared by a jetty; delete the jetty first", jfr_id.id);
    return URMA_EAGAIN;
  }
  if (!may_end(&subject_, "jfr", jfr_id.id, jfr_cfg.flag.bs.non_blocking != 0)) return URMA_EAGAIN;
  live_ = nullptr;
  body_.reset();
  jfr_cfg.id = asked_id_;
  jfr_id = {};
  return URMA_SUCCESS;
}

urma_status_t Jfr::modify(urma_jfr_attr_t* attr) {
  constexpr uint32_t kAll = JFR_STATE | JFR_RX_THRESHOLD;
  if (live_ == nullptr) return refuse_inactive("modify_jfr");
  if (!check_mask("modify_jfr", attr->mask, kAll, 0)) return URMA_EINVAL;
  const bool limit = (attr->mask & JFR_RX_THRESHOLD) != 0;
  if (limit && attr->rx_threshold > jfr_cfg.depth) {
    URMA_LOG_LIMITED(ERR, "modify_jfr: rx_threshold {} exceeds the depth, {}; lower it",
                     attr->rx_threshold, jfr_cfg.depth);
    return URMA_EINVAL;
  }
  if ((attr->mask & JFR_STATE) != 0) {
    if (bits_of(attr->state) > URMA_JFR_STATE_ERROR) {
      URMA_LOG_LIMITED(ERR, "modify_jfr: invalid state {}; see urma_jfr_state_t",
                       bits_of(attr->state));
      return URMA_EINVAL;
    }
    live_->set_state(attr->state);
  }
  if (limit) live_->set_limit(attr->rx_threshold);
  return URMA_SUCCESS;
}

void Jfr::break_down() {
  if (live_ == nullptr || live_->state() != URMA_JFR_STATE_READY) return;
  URMA_LOG(WARNING, "jfr {:#x} has failed and is in ERROR now", jfr_id.id);
  live_->set_state(URMA_JFR_STATE_ERROR);
  subject_.raise(URMA_EVENT_JFR_ERR);
}

urma_status_t Jfr::query(urma_jfr_cfg_t* cfg, urma_jfr_attr_t* attr) {
  *cfg = jfr_cfg;
  *attr = {};
  if (live_ == nullptr) return URMA_SUCCESS;
  attr->rx_threshold = live_->limit();
  attr->state = live_->state();
  return URMA_SUCCESS;
}

}  // namespace urma
