// SPDX-License-Identifier: MIT
//
// The glue between slots of urma_ops_t (C function pointers) and C++ methods.
#ifndef URMA_BASE_GLUE_H_
#define URMA_BASE_GLUE_H_

#include "urma/base/guard.h"

namespace urma {

// Slot<&Context::create_jfce, urma_context_t>::call: a C function whose first argument is the
// public struct that stands at offset 0 of the method's class.
template <auto Method, typename Handle>
struct Slot;

template <typename Class, typename Result, typename... Args, Result (Class::*Method)(Args...),
          typename Handle>
struct Slot<Method, Handle> {
  static Result call(Handle* handle, Args... args) noexcept {
    static constexpr LogSite kSite = URMA_LOG_SITE;
    return guarded(kSite, [&] { return (static_cast<Class*>(handle)->*Method)(args...); });
  }
};

// The same for methods that return a count, or minus a status.
template <auto Method, typename Handle>
struct CountSlot;

template <typename Class, typename... Args, int (Class::*Method)(Args...), typename Handle>
struct CountSlot<Method, Handle> {
  static int call(Handle* handle, Args... args) noexcept {
    static constexpr LogSite kSite = URMA_LOG_SITE;
    return guarded_count(kSite, [&] { return (static_cast<Class*>(handle)->*Method)(args...); });
  }
};

}  // namespace urma

#endif  // URMA_BASE_GLUE_H_
