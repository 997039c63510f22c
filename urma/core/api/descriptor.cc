// SPDX-License-Identifier: MIT
//
// Descriptors: what a program sends to its peer so that the peer can import a jetty or a segment.
// On an aggregated device the provider makes them, since each stands for several jetties or
// segments. It gets user_ctl with in = {the object, its size, opcode 9 or 10} and out = {a zeroed
// buffer, kMaxDescriptor}, writes the descriptor, and sets out.len to its length.
#include <cstdlib>
#include <cstring>

#include "urma/core/api/checks.h"
#include "urma/core/api/descriptors.h"
#include "urma/core/api/export.h"
#include "urma/core/process/aliases.h"
#include "urma_api.h"
#include "urma_ubagg.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)

constexpr uint32_t kMaxDescriptor = 4096;

bool is_aggregated(const urma_context_t* ctx) { return is_aggregated_name(ctx->dev->name); }

// The descriptor of a plain device is a struct with nothing after it.
template <typename Descriptor>
urma_status_t copy_out(const Descriptor& descriptor, Descriptor** result, uint32_t* length) {
  auto* copy = static_cast<Descriptor*>(std::malloc(sizeof descriptor));
  if (copy == nullptr) return URMA_ENOMEM;
  std::memcpy(copy, &descriptor, sizeof descriptor);
  *result = copy;
  *length = sizeof descriptor;
  return URMA_SUCCESS;
}

template <typename Object, typename Descriptor>
urma_status_t ask_provider(const char* call, Object* object, uint32_t opcode, Descriptor** result,
                           uint32_t* length) {
  auto* op = slot<&urma_ops_t::user_ctl>(call, object);
  if (op == nullptr) return URMA_FAIL;
  void* buffer = std::calloc(1, kMaxDescriptor);
  if (buffer == nullptr) return URMA_ENOMEM;
  Rollback undo([buffer] { std::free(buffer); });
  urma_user_ctl_in_t in = {reinterpret_cast<uint64_t>(object), sizeof *object, opcode};
  urma_user_ctl_out_t out = {reinterpret_cast<uint64_t>(buffer), kMaxDescriptor, 0};
  const int answer = op(object->urma_ctx, &in, &out);
  if (answer != 0 || out.len < sizeof(Descriptor) || out.len > kMaxDescriptor) {
    URMA_LOG_LIMITED(ERR,
                     "{}: the provider answered {} with {} bytes to command {}; at least {} "
                     "were needed",
                     call, answer, out.len, opcode, sizeof(Descriptor));
    return URMA_FAIL;
  }
  undo.dismiss();
  *result = static_cast<Descriptor*>(buffer);
  *length = out.len;
  return URMA_SUCCESS;
}

}  // namespace

urma_rjetty_t urma::core::describe(const urma_jetty_t& jetty) {
  const urma_jetty_cfg_t& config = jetty.jetty_cfg;
  urma_rjetty_t descriptor;
  std::memset(&descriptor, 0, sizeof descriptor);
  descriptor.jetty_id = jetty.jetty_id;
  descriptor.trans_mode = config.jfs_cfg.trans_mode;
  if (config.jetty_grp != nullptr) descriptor.policy = config.jetty_grp->cfg.policy;
  descriptor.type = URMA_JETTY;
  descriptor.flag.bs.token_policy = config.shared.jfr->jfr_cfg.flag.bs.token_policy;
  descriptor.flag.bs.order_type = config.jfs_cfg.flag.bs.order_type;
  return descriptor;
}

URMA_EXPORT urma_status_t urma_get_rjetty(urma_jetty_t* jetty, urma_rjetty_t** rjetty,
                                          uint32_t* length) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call, context_of(jetty)) || !given(call, "rjetty", rjetty) ||
        !given(call, "length", length)) {
      return URMA_EINVAL;
    }
    const urma_jetty_cfg_t& config = jetty->jetty_cfg;
    const bool shares = config.flag.bs.share_jfr == URMA_SHARE_JFR;
    if (!given(call, "shared.jfr of the jetty", shares ? config.shared.jfr : nullptr)) {
      return URMA_EINVAL;
    }
    *rjetty = nullptr;
    return is_aggregated(jetty->urma_ctx)
               ? ask_provider("urma_get_rjetty", jetty, BONDP_USER_CTL_OPCODE_GET_RJETTY, rjetty,
                              length)
               : copy_out(describe(*jetty), rjetty, length);
  });
}

URMA_EXPORT void urma_put_rjetty(urma_rjetty_t* rjetty) { std::free(rjetty); }

URMA_EXPORT urma_status_t urma_get_seg_ctx(urma_target_seg_t* tseg, urma_seg_t** seg,
                                           uint32_t* size) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call, context_of(tseg)) || !given(call, "seg", seg) ||
        !given(call, "size", size)) {
      return URMA_EINVAL;
    }
    *seg = nullptr;
    return is_aggregated(tseg->urma_ctx)
               ? ask_provider("urma_get_seg_ctx", tseg, BONDP_USER_CTL_OPCODE_GET_SEG_CTX, seg,
                              size)
               : copy_out(tseg->seg, seg, size);
  });
}

URMA_EXPORT void urma_put_seg_ctx(urma_seg_t* seg) { std::free(seg); }
