// SPDX-License-Identifier: MIT
//
// The extensions for memory of devices.
#include <cerrno>

#include "urma/base/random.h"
#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/api/registration.h"
#include "urma/core/process/core.h"
#include "urma_api.h"
#include "urma_ext.h"

using namespace urma::core;  // NOLINT(build/namespaces)

namespace {

// NULL, with one log line, if the context is invalid or its device has no memory (errno
// EOPNOTSUPP).
const urma::DeviceMemoryCalls* memory_of(const char* call, const urma_context_t* ctx) {
  if (!open_gate(call, ctx)) return nullptr;
  const auto* const memory = device_table().memory_of(ctx->dev);
  if (memory == nullptr) {
    URMA_LOG_LIMITED(ERR, "{}: device {} has no memory of its own; use one of the rocm provider",
                     call, ctx->dev->name);
    errno = EOPNOTSUPP;
  }
  return memory;
}

// The segment of a handle, with the rights of peers.
urma_seg_cfg_t behind_token(urma_token_t token, const void* address, uint64_t bytes,
                            uint32_t access) {
  urma_seg_cfg_t cfg = {};
  cfg.va = reinterpret_cast<uint64_t>(address);
  cfg.len = bytes;
  cfg.token_value = token;
  cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
  cfg.flag.bs.access = access;
  return cfg;
}

// Imports the segment of a handle. NULL if that fails.
template <typename Handle>
urma_target_seg_t* import_handle(urma_context_t* ctx, const Handle& handle, uint32_t access) {
  urma_seg_t described = handle.seg;
  urma_token_t token = handle.token;
  urma_import_seg_flag_t flag = {};
  flag.bs.access = access;
  return urma_import_seg(ctx, &described, &token, 0, flag);
}

// Ends the import of the segment of a handle.
urma_status_t close_handle(const char* call, urma_target_seg_t* attached) {
  return end_child<&urma_ops_t::unimport_seg, Living::kImportedSegment>(call, attached);
}

}  // namespace

URMA_EXPORT void* urma_ext_alloc_device(urma_context_t* ctx, urma_ext_pool_t pool, uint64_t bytes) {
  return pointer_entry(__func__, [&](const char* call) -> void* {
    const auto* const memory = memory_of(call, ctx);
    if (memory == nullptr) return nullptr;
    if (bytes == 0) {
      URMA_LOG_LIMITED(ERR, "{}: 0 bytes; ask for at least 1", call);
      return refused();
    }
    return memory->allocate(ctx, pool, bytes);
  });
}

URMA_EXPORT urma_status_t urma_ext_free_device(urma_context_t* ctx, void* address) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    const auto* const memory = memory_of(call, ctx);
    if (memory == nullptr) return URMA_EINVAL;
    return address == nullptr ? URMA_SUCCESS : memory->deallocate(address);
  });
}

URMA_EXPORT urma_status_t urma_ext_query_address(urma_context_t* ctx, const void* address,
                                                 urma_ext_address_t* info) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    const auto* const memory = memory_of(call, ctx);
    if (memory == nullptr || !given(call, "address", address) || !given(call, "info", info)) {
      return URMA_EINVAL;
    }
    return memory->query(address, info);
  });
}

URMA_EXPORT urma_status_t urma_ext_create_memory_handle(urma_context_t* ctx, void* address,
                                                        uint64_t bytes,
                                                        urma_ext_memory_handle_t* handle,
                                                        urma_target_seg_t** owned) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (memory_of(call, ctx) == nullptr || !given(call, "memory", address) ||
        !given(call, "handle", handle) || !given(call, "owned", owned)) {
      return URMA_EINVAL;
    }
    *handle = {};
    handle->token = urma::random_value<urma_token_t>();
    urma_seg_cfg_t cfg = behind_token(handle->token, address, bytes,
                                      URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC);
    urma_target_seg_t* const segment = urma_register_seg(ctx, &cfg);
    if (segment == nullptr) return URMA_FAIL;
    handle->seg = segment->seg;
    *owned = segment;
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_ext_attach_memory_handle(urma_context_t* ctx,
                                                        const urma_ext_memory_handle_t* handle,
                                                        urma_target_seg_t** attached,
                                                        void** address) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    const auto* const memory = memory_of(call, ctx);
    if (memory == nullptr || !given(call, "handle", handle) || !given(call, "attached", attached) ||
        !given(call, "memory", address)) {
      return URMA_EINVAL;
    }
    urma_target_seg_t* const segment =
        import_handle(ctx, *handle, URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC);
    if (segment == nullptr) return URMA_FAIL;
    *address = memory->attached(segment);
    if (*address == nullptr) {
      URMA_LOG_LIMITED(ERR,
                       "{}: the memory at va {:#x} of its owner is not attached; it is gone, or "
                       "cannot be shared",
                       call, uint64_t{handle->seg.ubva.va});
      urma_unimport_seg(segment);
      return URMA_FAIL;
    }
    *attached = segment;
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_ext_close_memory_handle(urma_target_seg_t* attached) {
  return close_handle(__func__, attached);
}

URMA_EXPORT urma_status_t urma_ext_create_signal_handle(urma_context_t* ctx, uint64_t signal,
                                                        urma_ext_signal_handle_t* handle,
                                                        urma_target_seg_t** owned) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    const auto* const memory = memory_of(call, ctx);
    if (memory == nullptr || !given(call, "handle", handle) || !given(call, "owned", owned)) {
      return URMA_EINVAL;
    }
    if (signal == 0) {
      URMA_LOG_LIMITED(ERR, "{}: signal is 0; pass the handle of an hsa_signal_t", call);
      return URMA_EINVAL;
    }
    *handle = {};
    handle->token = urma::random_value<urma_token_t>();
    // Requests of peers may access nothing in it.
    urma_seg_cfg_t cfg = behind_token(handle->token, handle, 1, URMA_ACCESS_LOCAL_ONLY);
    urma_target_seg_t* const segment = register_checked(
        call, ctx, &cfg,
        [=](urma_seg_cfg_t* complete) { return memory->register_signal(ctx, complete, signal); });
    if (segment == nullptr) return URMA_FAIL;
    handle->seg = segment->seg;
    *owned = segment;
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_ext_attach_signal_handle(urma_context_t* ctx,
                                                        const urma_ext_signal_handle_t* handle,
                                                        urma_target_seg_t** attached,
                                                        uint64_t* signal) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    const auto* const memory = memory_of(call, ctx);
    if (memory == nullptr || !given(call, "handle", handle) || !given(call, "attached", attached) ||
        !given(call, "signal", signal)) {
      return URMA_EINVAL;
    }
    urma_target_seg_t* const segment = import_handle(ctx, *handle, 0);
    if (segment == nullptr) return URMA_FAIL;
    *signal = memory->attached_signal(segment);
    if (*signal == 0) {
      URMA_LOG_LIMITED(ERR,
                       "{}: the signal of token id {:#x} is not attached; its owner is gone, has "
                       "ended the handle, or cannot share it",
                       call, handle->seg.token_id);
      urma_unimport_seg(segment);
      return URMA_FAIL;
    }
    *attached = segment;
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_ext_close_signal_handle(urma_target_seg_t* attached) {
  return close_handle(__func__, attached);
}

URMA_EXPORT int urma_ext_query_rdma_interface(const urma_ext_rdma_interface_t** rdma) {
  if (!open_gate(__func__) || !given(__func__, "rdma", rdma)) return -EINVAL;
  if (!in_use()) report_not_started(__func__);
  *rdma = device_table().rdma_interface();
  return *rdma == nullptr ? -ENODEV : 0;
}
