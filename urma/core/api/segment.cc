// SPDX-License-Identifier: MIT
//
// The calls on token ids and segments.
#include <cerrno>
#include <functional>

#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/api/registration.h"
#include "urma/core/process/core.h"
#include "urma_api.h"
#include "urma_ext.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)

bool check_access(const char* call, uint32_t access) {
  const bool local_only = (access & URMA_ACCESS_LOCAL_ONLY) != 0;
  const bool read = (access & URMA_ACCESS_READ) != 0;
  const bool write = (access & URMA_ACCESS_WRITE) != 0;
  const bool atomic = (access & URMA_ACCESS_ATOMIC) != 0;
  const bool known = (access & ~uint32_t{URMA_ACCESS_LOCAL_ONLY | URMA_ACCESS_READ |
                                         URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC}) == 0;
  const bool together =
      local_only ? !read && !write && !atomic : (!write || read) && (!atomic || (read && write));
  const bool possible = known && together;
  if (!possible) {
    URMA_LOG_LIMITED(ERR,
                     "{}: access {:#x} is not possible; LOCAL_ONLY (1) excludes others, WRITE (4) "
                     "needs READ (2), ATOMIC (8) needs READ and WRITE, other bits have no meaning",
                     call, access);
  }
  return possible;
}

bool check_seg_cfg(const char* call, const urma_context_t* ctx, const urma_seg_cfg_t& cfg) {
  if (cfg.va == 0) {
    URMA_LOG_LIMITED(ERR, "{}: va is 0; pass the address of the memory", call);
    return false;
  }
  const bool valid = cfg.flag.bs.token_id_valid == URMA_TOKEN_ID_VALID;
  if (ctx->dev->type == URMA_TRANSPORT_UB && valid != (cfg.token_id != nullptr)) {
    URMA_LOG_LIMITED(ERR, "{}: token_id_valid is {} though token_id is {}; set both or neither",
                     call, valid ? 1 : 0, valid ? "NULL" : "given");
    return false;
  }
  return check_access(call, cfg.flag.bs.access);
}

urma_token_id_t* adopt_token(urma_context_t* ctx, urma_token_id_t* token_id,
                             urma_token_id_flag_t flag) {
  token_id->urma_ctx = ctx;
  token_id->flag = flag;
  token_id->ref.atomic_cnt = 0;
  return token_id;
}

// The bits of urma_reg_seg_flag_t and urma_seg_attr_t have the same places. user_token_id then
// tells who owns the token id; has_user_info stays as the provider set it.
urma_seg_attr_t attr_of_registration(urma_reg_seg_flag_t flag, urma_seg_attr_t provider) {
  urma_seg_attr_t attr;
  attr.value = flag.value;
  attr.bs.has_user_info = provider.bs.has_user_info;
  attr.bs.reserved = provider.bs.reserved;
  attr.bs.dsva = URMA_DSVA_DISABLE;
  return attr;
}

// Fills in what programs may read of a segment registered with this flag. The provider may have set
// its address itself.
void fill_registration(urma_context_t* ctx, urma_reg_seg_flag_t asked, const urma_seg_cfg_t& cfg,
                       urma_target_seg_t& tseg) {
  tseg.urma_ctx = ctx;
  tseg.token_id = cfg.token_id;
  tseg.user_ctx = cfg.user_ctx;
  tseg.seg.attr = attr_of_registration(asked, tseg.seg.attr);
  if (tseg.seg.ubva.va == 0) {
    tseg.seg.ubva.eid = ctx->eid;
    tseg.seg.ubva.uasid = ctx->uasid;
    tseg.seg.ubva.va = cfg.va;
    tseg.seg.len = cfg.len;
    if (cfg.token_id != nullptr) tseg.seg.token_id = cfg.token_id->token_id;
  }
}

urma_target_seg_t* register_under(urma_context_t* ctx, urma_seg_cfg_t& cfg,
                                  urma_token_id_t* token_id, const Register& do_register) {
  urma_seg_cfg_t provider_cfg = cfg;
  provider_cfg.token_id = token_id;
  provider_cfg.flag.bs.token_id_valid =
      token_id == nullptr ? URMA_TOKEN_ID_INVALID : URMA_TOKEN_ID_VALID;
  urma_target_seg_t* tseg = do_register(&provider_cfg);
  if (tseg == nullptr) return nullptr;
  fill_registration(ctx, cfg.flag, provider_cfg, *tseg);
  if (token_id != nullptr) add_ref(token_id->ref);
  object_made(ctx, Living::kSegment);
  return tseg;
}

// A token id that lives as long as its one segment. It belongs to the segment, so it is not a child
// of the context.
urma_target_seg_t* register_under_private(const char* call, urma_context_t* ctx,
                                          urma_seg_cfg_t& cfg, const Register& do_register) {
  auto* alloc = slot<&urma_ops_t::alloc_token_id>(call, ctx);
  auto* free = slot<&urma_ops_t::free_token_id>(call, ctx);
  if (alloc == nullptr || free == nullptr) return nullptr;
  urma_token_id_t* token_id = alloc(ctx);
  if (token_id == nullptr) return nullptr;
  adopt_token(ctx, token_id, {});
  Rollback undo([=] {
    const int why = errno;
    free(token_id);
    errno = why;
  });
  urma_target_seg_t* tseg = register_under(ctx, cfg, token_id, do_register);
  if (tseg != nullptr) undo.dismiss();
  return tseg;
}

void free_private_token(urma_token_id_t* token_id) {
  auto* free = slot<&urma_ops_t::free_token_id>("urma_unregister_seg", token_id);
  const urma_status_t status = free == nullptr ? URMA_EINVAL : free(token_id);
  if (status != URMA_SUCCESS) {
    URMA_LOG_LIMITED(ERR,
                     "urma_unregister_seg: the provider did not free the private token id of "
                     "the segment, status {}; it stays behind",
                     status);
  }
}

}  // namespace

urma_target_seg_t* urma::core::register_checked(const char* call, urma_context_t* ctx,
                                                urma_seg_cfg_t* seg_cfg,
                                                const Register& do_register) {
  if (!given(call, "seg_cfg", seg_cfg) || !check_seg_cfg(call, ctx, *seg_cfg)) return refused();
  const bool given_token = seg_cfg->flag.bs.token_id_valid == URMA_TOKEN_ID_VALID;
  return ctx->dev->type == URMA_TRANSPORT_UB && !given_token
             ? register_under_private(call, ctx, *seg_cfg, do_register)
             : register_under(ctx, *seg_cfg, given_token ? seg_cfg->token_id : nullptr,
                              do_register);
}

// -------------------------------------------------------------------------------------------------
// Token ids
// -------------------------------------------------------------------------------------------------

URMA_EXPORT urma_token_id_t* urma_alloc_token_id(urma_context_t* ctx) {
  return pointer_entry(__func__, [&](const char* call) -> urma_token_id_t* {
    auto* op = slot<&urma_ops_t::alloc_token_id>(call, ctx);
    if (op == nullptr) return refused();
    urma_token_id_t* token_id = op(ctx);
    if (token_id == nullptr) return nullptr;
    object_made(ctx, Living::kTokenId);
    return adopt_token(ctx, token_id, {});
  });
}

URMA_EXPORT urma_token_id_t* urma_alloc_token_id_ex(urma_context_t* ctx,
                                                    urma_token_id_flag_t flag) {
  return pointer_entry(__func__, [&](const char* call) -> urma_token_id_t* {
    auto* op = slot<&urma_ops_t::alloc_token_id_ex>(call, ctx);
    if (op == nullptr) return refused();
    const urma_device_cap_t* caps = caps_of(ctx);
    if (flag.bs.multi_seg == 1 && caps != nullptr && caps->feature.bs.muti_seg_per_token_id == 0) {
      URMA_LOG_LIMITED(ERR,
                       "urma_alloc_token_id_ex: multi_seg 1 needs the feature "
                       "muti_seg_per_token_id, which device {} lacks; use 0",
                       ctx->dev->name);
      return refused();
    }
    urma_token_id_t* token_id = op(ctx, flag);
    if (token_id == nullptr) return nullptr;
    object_made(ctx, Living::kTokenId);
    return adopt_token(ctx, token_id, flag);
  });
}

URMA_EXPORT urma_status_t urma_free_token_id(urma_token_id_t* token_id) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call, context_of(token_id))) return URMA_EINVAL;
    if (refs(token_id->ref) != 0) {
      URMA_LOG_LIMITED(ERR, "{}: {} segments still use token id {:#x}; unregister them first", call,
                       refs(token_id->ref), token_id->token_id);
      return URMA_EINVAL;
    }
    return end_child<&urma_ops_t::free_token_id, Living::kTokenId>(call, token_id);
  });
}

// -------------------------------------------------------------------------------------------------
// Segments
// -------------------------------------------------------------------------------------------------

URMA_EXPORT urma_target_seg_t* urma_register_seg(urma_context_t* ctx, urma_seg_cfg_t* seg_cfg) {
  return pointer_entry(__func__, [&](const char* call) -> urma_target_seg_t* {
    auto* op = slot<&urma_ops_t::register_seg>(call, ctx);
    if (op == nullptr) return refused();
    return register_checked(call, ctx, seg_cfg, [=](urma_seg_cfg_t* cfg) { return op(ctx, cfg); });
  });
}

URMA_EXPORT urma_target_seg_t* urma_ext_register_dmabuf(urma_context_t* ctx,
                                                        urma_seg_cfg_t* seg_cfg, int fd,
                                                        uint64_t offset) {
  return pointer_entry(__func__, [&](const char* call) -> urma_target_seg_t* {
    if (!open_gate(call, ctx)) return refused();
    if (fd < 0) {
      URMA_LOG_LIMITED(ERR, "{}: fd {} is not a descriptor; export the memory as a dma-buf", call,
                       fd);
      return refused();
    }
    const auto op = device_table().dmabufs_of(ctx->dev);
    if (op == nullptr) {
      URMA_LOG_LIMITED(ERR,
                       "{}: device {} takes no dma-bufs; copy through memory of this process, or "
                       "use an RDMA device (urma_admin show --whole says: dmabuf)",
                       call, ctx->dev->name);
      return refused(EOPNOTSUPP);
    }
    return register_checked(call, ctx, seg_cfg,
                            [=](urma_seg_cfg_t* cfg) { return op(ctx, cfg, fd, offset); });
  });
}

URMA_EXPORT urma_status_t urma_unregister_seg(urma_target_seg_t* target_seg) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    auto* op = slot<&urma_ops_t::unregister_seg>(call, target_seg);
    if (op == nullptr) return URMA_EINVAL;
    urma_context_t* ctx = target_seg->urma_ctx;
    urma_token_id_t* token_id = target_seg->token_id;
    const bool own_token = ctx->dev->type == URMA_TRANSPORT_UB && token_id != nullptr &&
                           target_seg->seg.attr.bs.user_token_id == URMA_TOKEN_ID_INVALID;
    if (op(target_seg) != URMA_SUCCESS) return URMA_FAIL;
    if (token_id != nullptr) drop_ref(token_id->ref);
    if (own_token) free_private_token(token_id);
    object_ended(ctx, Living::kSegment);
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_target_seg_t* urma_import_seg(urma_context_t* ctx, urma_seg_t* seg,
                                               urma_token_t* token_value, uint64_t addr,
                                               urma_import_seg_flag_t flag) {
  return pointer_entry(__func__, [&](const char* call) -> urma_target_seg_t* {
    auto* op = slot<&urma_ops_t::import_seg>(call, ctx);
    if (op == nullptr || !given(call, "seg", seg) ||
        !check_token(call, seg->attr.bs.token_policy, token_value)) {
      return refused();
    }
    urma_target_seg_t* tseg = op(ctx, seg, token_value, addr, flag);
    if (tseg == nullptr) return nullptr;
    tseg->urma_ctx = ctx;
    tseg->token_id = nullptr;
    // Only if the provider filled in nothing: its threads may read what it filled in.
    if (tseg->seg.ubva.va == 0 && tseg->seg.token_id == 0) tseg->seg = *seg;
    object_made(ctx, Living::kImportedSegment);
    return tseg;
  });
}

URMA_EXPORT urma_status_t urma_unimport_seg(urma_target_seg_t* tseg) {
  return end_child<&urma_ops_t::unimport_seg, Living::kImportedSegment>(__func__, tseg);
}
