// SPDX-License-Identifier: MIT
//
// What every entry point does around the call of a provider: find the operation, refuse bad
// arguments with one log line, and afterwards count references. `call` is always the name of the
// entry point.
#ifndef URMA_CORE_API_CHECKS_H_
#define URMA_CORE_API_CHECKS_H_

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "urma/base/guard.h"
#include "urma/core/process/detours.h"
#include "urma/core/process/living.h"
#include "urma_provider.h"
#include "urma_types.h"

namespace urma::core {

// -------------------------------------------------------------------------------------------------
// The gate
// -------------------------------------------------------------------------------------------------

inline const urma_context_t* context_of(const urma_context_t* ctx) { return ctx; }

template <typename Object>
const urma_context_t* context_of(const Object* object) {
  return object == nullptr ? nullptr : object->urma_ctx;
}

inline bool usable(const urma_context_t* ctx) {
  return ctx != nullptr && ctx->dev != nullptr && ctx->dev->sysfs_dev != nullptr &&
         ctx->ops != nullptr && !is_forked();
}

// Logs why the gate is shut.
[[gnu::cold]] void report_unusable(const char* call, const urma_context_t* ctx) noexcept;

// Logs that urma_init has not been called, or urma_uninit has.
[[gnu::cold]] void report_not_started(const char* call) noexcept;

// The gate of calls without a context: shut in a forked child only.
inline bool open_gate(const char* call) {
  if (!is_forked()) [[likely]]
    return true;
  report_unusable(call, nullptr);
  return false;
}

// usable(), with a log line if not.
inline bool open_gate(const char* call, const urma_context_t* ctx) {
  if (usable(ctx)) [[likely]]
    return true;
  report_unusable(call, ctx);
  return false;
}

template <auto Op>
using OpPointer = std::remove_cvref_t<decltype(std::declval<urma_ops_t&>().*Op)>;

// The operation of the context that owns `owner` (or is it), or NULL.
template <auto Op, typename Owner>
OpPointer<Op> find_slot(const Owner* owner) {
  const urma_context_t* ctx = context_of(owner);
  return usable(ctx) ? ctx->ops->*Op : nullptr;
}

// The same for an operation that the call needs.
template <auto Op, typename Owner>
OpPointer<Op> slot(const char* call, const Owner* owner) {
  OpPointer<Op> op = find_slot<Op>(owner);
  if (op == nullptr) [[unlikely]]
    report_unusable(call, context_of(owner));
  return op;
}

// -------------------------------------------------------------------------------------------------
// Results
// -------------------------------------------------------------------------------------------------

inline LogSite site_of(const char* call) { return {__FILE__, call, __LINE__}; }

// NULL with errno, for calls that return a pointer.
inline std::nullptr_t refused(int error = EINVAL) {
  errno = error;
  return nullptr;
}

// Each call runs inside one of these three guards, which also catch what checking and logging
// throw. `body` gets the name of the call. A call that returns a status leaves errno alone.
template <typename Body>
auto entry(const char* call, Body&& body) {
  const int before = errno;
  const auto result = guarded(site_of(call), [&] { return body(call); });
  if constexpr (!std::is_pointer_v<decltype(body(call))>) errno = before;
  return result;
}

// For calls that return a count, or minus a status.
template <typename Body>
int count_entry(const char* call, Body&& body) {
  return guarded_count(site_of(call), [&] { return body(call); });
}

// For calls that return a pointer. A NULL result sets errno, to EINVAL if the provider did not set
// it; success leaves errno alone.
template <typename Body>
auto pointer_entry(const char* call, Body&& body) {
  const int before = errno;
  errno = 0;
  auto* result = entry(call, body);
  if (result != nullptr) {
    errno = before;
  } else if (errno == 0) {
    errno = EINVAL;
  }
  return result;
}

// A status call that checks only the gate.
template <auto Op, typename Owner, typename... Args>
urma_status_t status_call(const char* call, const Owner* owner, Args... args) {
  auto* op = slot<Op>(call, owner);
  if (op == nullptr) return URMA_EINVAL;
  return entry(call, [&](const char*) -> urma_status_t { return op(args...); });
}

// The same for a call of the kind "count, or minus a status".
template <auto Op, typename Owner, typename... Args>
int count_call(const char* call, const Owner* owner, Args... args) {
  auto* op = slot<Op>(call, owner);
  if (op == nullptr) return -URMA_EINVAL;
  return guarded_count(site_of(call), [&] { return op(args...); });
}

// -------------------------------------------------------------------------------------------------
// Ends
// -------------------------------------------------------------------------------------------------

// Ends a child of a context. The provider frees the object, so its context is read first.
template <auto Op, Living Kind, typename Object>
urma_status_t end_child(const char* call, Object* object) {
  return entry(call, [&](const char*) -> urma_status_t {
    auto* op = slot<Op>(call, object);
    if (op == nullptr) return URMA_EINVAL;
    urma_context_t* ctx = object->urma_ctx;
    const urma_status_t status = op(object);
    if (status == URMA_SUCCESS) object_ended(ctx, Kind);
    return status;
  });
}

// Runs its function when it goes out of scope, unless dismissed.
template <typename Function>
class Rollback {
 public:
  explicit Rollback(Function function) : function_(function) {}
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  ~Rollback() {
    if (armed_) function_();
  }
  void dismiss() { armed_ = false; }

 private:
  Function function_;
  bool armed_ = true;
};

// -------------------------------------------------------------------------------------------------
// Arguments
// -------------------------------------------------------------------------------------------------

[[gnu::cold]] void report_null(const char* call, const char* name) noexcept;

// False, with a log line, if a pointer is NULL.
inline bool given(const char* call, const char* name, const void* argument) {
  if (argument != nullptr) [[likely]]
    return true;
  report_null(call, name);
  return false;
}

// Exactly one of RM, RC and UM.
bool check_mode(const char* call, const urma_transport_mode_t& mode);

// The effective order type in a mode: DEF becomes the default of the mode, or nothing if the mode
// has none.
std::optional<uint32_t> resolve_order(const urma_transport_mode_t& mode, uint32_t order_type);

// check_mode, and that the order type goes with the mode.
bool check_order(const char* call, const urma_transport_mode_t& mode, uint32_t order_type);

// Checks only that DEF has a meaning in this mode.
bool check_default_order(const char* call, const urma_transport_mode_t& mode, uint32_t order_type);

// Replaces DEF in the flag of a checked configuration.
template <typename Config>
void settle_order(Config& config) {
  const auto order = resolve_order(config.trans_mode, config.flag.bs.order_type);
  if (order) config.flag.bs.order_type = *order;
}

// UTP goes with UM alone, RTP with every other mode.
bool check_tp_type(const char* call, const urma_transport_mode_t& mode,
                   const urma_tp_type_t& tp_type);

// Whether the library has such a device, which is not read else. Shut like the gate in a child.
bool check_device(const char* call, const urma_device_t* device);

// Checks that a token is given, unless the policy is NONE.
bool check_token(const char* call, uint32_t policy, const urma_token_t* token);

// The limits of a device; NULL if they are not known: then no limit is checked.
const urma_device_cap_t* caps_of(const urma_context_t* ctx);

// A depth is 1 or more, and up to the limit `limit` of the device.
bool check_depth(const char* call, const urma_context_t* ctx, uint32_t depth,
                 uint32_t urma_device_cap_t::*limit, const char* limit_name);

// All that create and active check of a send queue and of a receive queue, except pointers.
bool check_send_cfg(const char* call, const urma_context_t* ctx, const urma_jfs_cfg_t& cfg);
bool check_receive_cfg(const char* call, const urma_context_t* ctx, const urma_jfr_cfg_t& cfg);

}  // namespace urma::core

#endif  // URMA_CORE_API_CHECKS_H_
