// SPDX-License-Identifier: MIT
//
// A jetty: its parts, its state and its peer.
#include <algorithm>
#include <utility>

#include "jetty/context.h"
#include "jetty/notifier.h"
#include "jetty/queues.h"
#include "jetty/transport.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {
namespace {

CompletionQueue* receive_jfc_of(const urma_jetty_cfg_t& cfg) {
  urma_jfc_t* jfc = cfg.shared.jfc != nullptr ? cfg.shared.jfc : cfg.shared.jfr->jfr_cfg.jfc;
  return static_cast<CompletionQueue*>(jfc);
}

urma_ext_queue_t describe_jetty(const urma_context_t& ctx, uint32_t id,
                                const urma_jetty_cfg_t& cfg) {
  urma_ext_queue_t queue = describe(ctx, URMA_EXT_QUEUE_JETTY, id, cfg.jfs_cfg);
  queue.jfr_id = cfg.shared.jfr->jfr_id.id;
  queue.recv_jfc_id = receive_jfc_of(cfg)->jfc_id.id;
  return queue;
}

}  // namespace

Jetty::Jetty(Context* ctx, const urma_jetty_cfg_t& cfg)
    : urma_jetty_t{}, context_(ctx), subject_(&ctx->events(), this) {
  urma_ctx = ctx;
  jetty_cfg = cfg;
}

Jetty::Body::Body(Context* context, Jetty* jetty, const urma_jetty_cfg_t& cfg)
    : share(static_cast<Jfr*>(cfg.shared.jfr)),
      id(context, IdKind::kJetty, cfg.id),
      held(static_cast<CompletionQueue*>(cfg.jfs_cfg.jfc)),
      sender(context->transport().make_sender(cfg.jfs_cfg,
                                              {id.get(), true, reinterpret_cast<uint64_t>(jetty)},
                                              context->full_id(id.get()))),
      send_completions(static_cast<CompletionQueue*>(cfg.jfs_cfg.jfc), sender->queue().collector()),
      receive_completions(receive_jfc_of(cfg), static_cast<Jfr*>(cfg.shared.jfr)->receiver()),
      records(&receive_jfc_of(cfg)->ring(), reinterpret_cast<uint64_t>(jetty)),
      described{{id.get(), true, reinterpret_cast<uint64_t>(jetty)},
                context->full_id(id.get()).eid,
                cfg.jfs_cfg.trans_mode,
                cfg.shared.jfr->jfr_cfg.flag.bs.token_policy,
                cfg.shared.jfr->jfr_cfg.token_value,
                static_cast<Jfr*>(cfg.shared.jfr)->receiver(),
                receive_jfc_of(cfg),
                cfg.jfs_cfg.trans_mode == URMA_TM_RC ? &bond : nullptr,
                cfg.jetty_grp != nullptr ? cfg.jetty_grp->jetty_grp_id.id : 0},
      known(std::in_place, &context->transport(), IdKind::kJetty, described),
      limit(described.receiver, &jetty->subject_, 0),
      listed(&context->transport().queues(), describe_jetty(*context, id.get(), cfg),
             [this](urma_ext_queue_t* queue) { sender->report(queue); }) {}

urma_status_t Jetty::activate() {
  urma_jetty_cfg_t cfg = jetty_cfg;
  cfg.jfs_cfg = context_->effective(jetty_cfg.jfs_cfg);
  require_open("jetty", "jfs_cfg.jfc", cfg.jfs_cfg.jfc);
  if (static_cast<Jfr*>(cfg.shared.jfr)->receiver() == nullptr) {
    fail(URMA_EINVAL, "jetty: shared.jfr is not active; activate it first");
  }
  require_open("jetty", "the JFC of its receives", receive_jfc_of(cfg));
  if (cfg.jetty_grp != nullptr && cfg.jetty_grp->urma_ctx != context_) {
    fail(URMA_EINVAL, "jetty: jetty_grp is of another context; use one of this context");
  }
  body_.emplace(context_, this, cfg);
  live_ = body_->sender.get();
  subject_.begin();
  jetty_cfg = cfg;
  jetty_id = live_->id();
  return URMA_SUCCESS;
}

urma_status_t Jetty::deactivate() {
  {
    const MutexLock lock(mutex_);
    if (bound_ != nullptr) {
      URMA_LOG_LIMITED(ERR, "jetty {:#x} is bound to {:#x}; call urma_unbind_jetty first",
                       jetty_id.id, bound_->id.id);
      return URMA_ENOPERM;
    }
  }
  const bool non_blocking = jetty_cfg.flag.bs.non_blocking != 0;
  if (!may_end(&subject_, "jetty", jetty_id.id, non_blocking)) return URMA_EAGAIN;
  if (ever_bound_) context_->transport().unwatch_peer(&watcher_);
  live_ = nullptr;
  body_->sender->finish();
  body_.reset();
  jetty_id = {};
  return URMA_SUCCESS;
}

urma_status_t Jetty::modify(urma_jetty_attr_t* attr) {
  if (live_ == nullptr) return refuse_inactive("modify_jetty");
  if (!check_mask("modify_jetty", attr->mask, JETTY_STATE, JETTY_STATE)) return URMA_EINVAL;
  const MutexLock lock(mutex_);
  if (!check_change("modify_jetty", live_->state(), attr->state) || !check_limit(*attr)) {
    return URMA_EINVAL;
  }
  set_state(attr->state);
  if ((attr->mask & JETTY_RX_THRESHOLD) != 0) {
    receiver()->set_limit_of(&subject_, attr->rx_threshold);
  }
  if (attr->state == URMA_JETTY_STATE_READY && bound_ != nullptr) watch_peer();
  return URMA_SUCCESS;
}

// False, with a log line, if the mask names an invalid threshold.
bool Jetty::check_limit(const urma_jetty_attr_t& attr) {
  if ((attr.mask & JETTY_RX_THRESHOLD) == 0) return true;
  const uint32_t depth = jetty_cfg.shared.jfr->jfr_cfg.depth;
  if (attr.rx_threshold > depth) {
    URMA_LOG_LIMITED(ERR,
                     "modify_jetty: rx_threshold {} exceeds the depth of its JFR, {}; lower it",
                     attr.rx_threshold, depth);
    return false;
  }
  // Zero asks for nothing, which every receiver can do.
  if (attr.rx_threshold == 0 || receiver()->limits_jetties()) return true;
  URMA_LOG_LIMITED(ERR,
                   "modify_jetty: {} does not support rx_threshold of a jetty; use that of its JFR "
                   "(urma_modify_jfr)",
                   context_->dev->name);
  return false;
}

// Peers reach it only while it can take their messages.
void Jetty::set_state(urma_jetty_state_t state) {
  const bool reachable = state == URMA_JETTY_STATE_READY || state == URMA_JETTY_STATE_SUSPENDED;
  // Steps that can fail come before those that cannot be undone.
  if (reachable && !body_->known.has_value()) {
    body_->known.emplace(&context_->transport(), IdKind::kJetty, body_->described);
  }
  // First, so that what it has sent to itself is flushed like everything else.
  live_->set_state(state);
  if (!reachable) body_->known.reset();
  if (state == URMA_JETTY_STATE_RESET) {
    body_->described.jfc->ring().purge(body_->described.identity.user_data);
  }
}

urma_status_t Jetty::query(urma_jetty_cfg_t* cfg, urma_jetty_attr_t* attr) {
  *cfg = jetty_cfg;
  *attr = {};
  if (live_ == nullptr) return URMA_SUCCESS;
  attr->rx_threshold = receiver()->limit_of(&subject_);
  attr->state = live_->state();
  return URMA_SUCCESS;
}

int Jetty::flush(int count, urma_cr_t* cr) {
  return live_ != nullptr ? live_->hand_back(count, cr) : 0;
}

urma_status_t Jetty::bind(RemoteQueue* target, const std::shared_ptr<Results>& results,
                          bool* anew) {
  if (live_ == nullptr) return refuse_inactive("bind_jetty");
  const MutexLock lock(mutex_);
  // The caller has looked too; another thread may have bound it since.
  if (bound_ != nullptr && bound_ != target) {
    URMA_LOG_LIMITED(ERR, "bind_jetty: jetty {:#x} is bound to {:#x} already; unbind it first",
                     jetty_id.id, bound_->id.id);
    return URMA_EEXIST;
  }
  if (results != nullptr && std::find(told_.begin(), told_.end(), results) == told_.end()) {
    told_.push_back(results);
  }
  if (bound_ == target) return URMA_SUCCESS;
  const urma_jetty_t* nobody = nullptr;
  if (!target->bound.compare_exchange_strong(nobody, this)) {
    URMA_LOG_LIMITED(ERR, "bind_jetty: target {:#x} is bound to another jetty; import it once more",
                     target->id.id);
    return URMA_EINVAL;
  }
  bound_ = target;
  // A background import may end by itself while the jetty is bound.
  target->add_ref();
  target->tp.tpn = target->channel.number();
  ever_bound_ = true;
  try {
    live_->bind(target);
    receiver()->set_bond(&body_->bond, target->id);
    watch_peer();
  } catch (...) {
    guarded(URMA_LOG_SITE, [this] { receiver()->set_bond(&body_->bond, std::nullopt); });
    guarded(URMA_LOG_SITE, [this] { live_->unbind(); });
    forget_peer();
    throw;
  }
  if (anew != nullptr) *anew = true;
  return URMA_SUCCESS;
}

void Jetty::forget_peer() noexcept {
  bound_->tp.tpn = UINT32_MAX;
  bound_->bound.store(nullptr);
  std::exchange(bound_, nullptr)->drop_ref();
  told_.clear();
}

void Jetty::connect_ahead() noexcept {
  guarded(URMA_LOG_SITE, [this] {
    const MutexLock lock(mutex_);
    if (bound_ != nullptr) live_->connect_ahead(bound_);
  });
}

void Jetty::watch_peer() {
  context_->transport().watch_peer(&watcher_, IdKind::kJetty, bound_->id.eid, bound_->id.id,
                                   bound_->serial);
}

urma_status_t Jetty::unbind() {
  std::vector<std::shared_ptr<Results>> told;
  {
    const MutexLock lock(mutex_);
    told = told_;
  }
  // Before another bind could stand that their results would be applied to. Unlocked, since a
  // result that is being acted upon needs the lock.
  for (const auto& results : told) results->undo(this);
  return disconnect();
}

urma_status_t Jetty::disconnect() {
  uint64_t target;
  {
    const MutexLock lock(mutex_);
    if (bound_ == nullptr) {
      URMA_LOG_LIMITED(ERR, "unbind_jetty: jetty {:#x} is not bound", jetty_id.id);
      return URMA_EINVAL;
    }
    receiver()->set_bond(&body_->bond, std::nullopt);
    live_->unbind();
    target = bound_->serial;
    forget_peer();
  }
  context_->transport().unwatch_peer(&watcher_, target);
  return URMA_SUCCESS;
}

void Jetty::peer_gone(uint64_t target) {
  const MutexLock lock(mutex_);
  if (bound_ == nullptr || bound_->serial != target) return;
  // Otherwise the program itself stopped it.
  if (is_stopped(live_->state())) return;
  URMA_LOG(WARNING, "jetty {:#x}: the process of its peer {:#x} is gone; the jetty is in ERROR now",
           jetty_id.id, bound_->id.id);
  set_state(URMA_JETTY_STATE_ERROR);
  subject_.raise(URMA_EVENT_JETTY_ERR);
}

void Jetty::break_down() {
  const MutexLock lock(mutex_);
  if (live_ == nullptr || is_stopped(live_->state())) return;
  URMA_LOG(WARNING, "jetty {:#x} has failed and is in ERROR now", jetty_id.id);
  set_state(URMA_JETTY_STATE_ERROR);
  subject_.raise(URMA_EVENT_JETTY_ERR);
}

}  // namespace urma
