// SPDX-License-Identifier: MIT
#include "urma/providers/local/queues.h"

#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/providers/local/transport.h"

namespace urma::local {
namespace {

urma_jetty_id_t full_id(const Transport& transport, const urma_context_t& ctx, uint32_t id) {
  return {transport.eid(ctx.eid_index), ctx.uasid, id};
}

CompletionQueue* queue_of(urma_jfc_t* jfc) { return static_cast<CompletionQueue*>(jfc); }

}  // namespace

IdLease::IdLease(Runtime* runtime, IdKind kind, uint32_t eid_index, uint32_t chosen)
    : runtime_(runtime), kind_(kind), eid_index_(eid_index), id_(chosen) {
  if (chosen > kMaxChosenId) {
    fail(URMA_EINVAL, "id {} cannot be chosen; choose one of 1 to {}, or 0 for any", chosen,
         kMaxChosenId);
  }
  if (chosen == 0) {
    id_ = runtime_->alloc_id(kind);
  } else {
    runtime_->reserve_id(kind, eid_index, chosen);
  }
}

IdLease::~IdLease() { runtime_->free_id(kind_, eid_index_, id_); }

EndpointLease::EndpointLease(Transport* transport, IdKind kind, const Endpoint& endpoint)
    : transport_(transport), kind_(kind), endpoint_(endpoint) {
  transport_->add_endpoint(kind_, endpoint_);
}

EndpointLease::~EndpointLease() {
  transport_->remove_endpoint(kind_, endpoint_);
  // Only now does nothing come after: no record of a queue is polled once it is deleted.
  endpoint_.jfc->ring().purge(endpoint_.identity.user_data);
}

ReceiverLease::ReceiverLease(Transport* transport, Receiver* receiver)
    : transport_(transport), receiver_(receiver) {
  transport_->add_receiver(receiver_);
}

ReceiverLease::~ReceiverLease() { transport_->remove_receiver(receiver_); }

Jfc::Jfc(Transport* transport, urma_context_t* ctx, const urma_jfc_cfg_t& cfg)
    : CompletionQueue(ctx, cfg, {}, transport),
      id_(&transport->runtime(), IdKind::kJfc, ctx->eid_index, 0) {
  jfc_id = full_id(*transport, *ctx, id_.get());
  if (cfg.jfce == nullptr) return;
  raise_at(static_cast<EventChannel*>(cfg.jfce), &transport->segments().bell(id_.get()));
}

Jfs::Jfs(Transport* transport, urma_context_t* ctx, const urma_jfs_cfg_t& cfg)
    : urma_jfs_t{},
      id_(&transport->runtime(), IdKind::kJfs, ctx->eid_index, 0),
      sender_(transport, cfg, {id_.get(), false, reinterpret_cast<uint64_t>(this)},
              full_id(*transport, *ctx, id_.get())),
      completions_(queue_of(cfg.jfc), &sender_.queue()) {
  urma_ctx = ctx;
  jfs_cfg = cfg;
  jfs_id = sender_.id();
}

Jfr::Jfr(Transport* transport, urma_context_t* ctx, const urma_jfr_cfg_t& cfg)
    : urma_jfr_t{},
      id_(&transport->runtime(), IdKind::kJfr, ctx->eid_index, cfg.id),
      receiver_(cfg, &transport->segments(), &transport->copy(), transport),
      known_receiver_(transport, &receiver_),
      known_(transport, IdKind::kJfr,
             {{id_.get(), false, reinterpret_cast<uint64_t>(this)},
              transport->eid(ctx->eid_index),
              cfg.trans_mode,
              cfg.flag.bs.token_policy,
              cfg.token_value,
              &receiver_,
              queue_of(cfg.jfc),
              nullptr}),
      completions_(queue_of(cfg.jfc), &receiver_) {
  urma_ctx = ctx;
  jfr_cfg = cfg;
  jfr_cfg.id = id_.get();
  jfr_id = full_id(*transport, *ctx, id_.get());
}

Jetty::Jetty(Transport* transport, urma_context_t* ctx, const urma_jetty_cfg_t& cfg)
    : urma_jetty_t{},
      share_(cfg.shared.jfr),
      id_(&transport->runtime(), IdKind::kJetty, ctx->eid_index, cfg.id),
      sender_(transport, cfg.jfs_cfg, {id_.get(), true, reinterpret_cast<uint64_t>(this)},
              full_id(*transport, *ctx, id_.get())),
      receive_jfc_(
          queue_of(cfg.shared.jfc != nullptr ? cfg.shared.jfc : cfg.shared.jfr->jfr_cfg.jfc)),
      known_(transport, IdKind::kJetty,
             {{id_.get(), true, reinterpret_cast<uint64_t>(this)},
              transport->eid(ctx->eid_index),
              cfg.jfs_cfg.trans_mode,
              cfg.shared.jfr->jfr_cfg.flag.bs.token_policy,
              cfg.shared.jfr->jfr_cfg.token_value,
              &static_cast<Jfr*>(cfg.shared.jfr)->receiver(),
              receive_jfc_,
              cfg.jfs_cfg.trans_mode == URMA_TM_RC ? &bond_ : nullptr}),
      send_completions_(queue_of(cfg.jfs_cfg.jfc), &sender_.queue()),
      receive_completions_(receive_jfc_, &static_cast<Jfr*>(cfg.shared.jfr)->receiver()) {
  urma_ctx = ctx;
  jetty_cfg = cfg;
  jetty_id = sender_.id();
}

urma_status_t Jetty::bind(RemoteQueue* target) {
  std::lock_guard lock(binding_);
  if (bound_ == target) return URMA_SUCCESS;
  if (bound_ != nullptr) {
    URMA_LOG_LIMITED(ERR, "bind_jetty: jetty {:#x} is bound to {:#x} already; unbind it first",
                     jetty_id.id, bound_->id.id);
    return URMA_EEXIST;
  }
  const urma_jetty_t* nobody = nullptr;
  if (!target->bound.compare_exchange_strong(nobody, this)) {
    URMA_LOG_LIMITED(ERR, "bind_jetty: target {:#x} is bound to another jetty; import it once more",
                     target->id.id);
    return URMA_EINVAL;
  }
  bound_ = target;
  target->tp.tpn = target->id.id;
  sender_.bind(target);
  jfr().receiver().set_bond(&bond_, target->id);
  return URMA_SUCCESS;
}

urma_status_t Jetty::unbind() {
  std::lock_guard lock(binding_);
  if (bound_ == nullptr) {
    URMA_LOG_LIMITED(ERR, "unbind_jetty: jetty {:#x} is not bound", jetty_id.id);
    return URMA_EINVAL;
  }
  jfr().receiver().set_bond(&bond_, std::nullopt);
  sender_.unbind();
  bound_->tp.tpn = UINT32_MAX;
  bound_->bound.store(nullptr);
  bound_ = nullptr;
  return URMA_SUCCESS;
}

}  // namespace urma::local
