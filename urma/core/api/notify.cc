// SPDX-License-Identifier: MIT
//
// Importing and binding in the background, and the notifier that reports the results.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "urma/base/mutex.h"
#include "urma/core/api/bonding.h"
#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/api/targets.h"
#include "urma_api.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)

// The imports in progress. Each holds a reference to its context until it is ended: by the program,
// or by the library if it fails or its notifier is deleted.
class PendingImports {
 public:
  using Table = std::unordered_multimap<const urma_target_jetty_t*, const urma_notifier_t*>;

  // Starts an import. The lock is held meanwhile, so that no result is taken before it is listed: a
  // log function must make no such call, see urma_register_log_func.
  template <typename Start>
  urma_target_jetty_t* start(urma_notifier_t* notifier, const urma_rjetty_t& remote, Start begin) {
    const urma::MutexLock lock(mutex_);
    // Allocate first: nothing may fail after the import.
    Table entry{{nullptr, notifier}};
    notifiers_.reserve(notifiers_.size() + 1);
    urma_target_jetty_t* target = begin();
    if (target == nullptr) return nullptr;
    adopt_target(notifier->urma_ctx, *target, remote);
    auto node = entry.extract(entry.begin());
    node.key() = target;
    notifiers_.insert(std::move(node));
    return target;
  }

  // Ends an import, listed here or not. Under the lock, so that no other import gets its address
  // before it is removed.
  template <typename End>
  urma_status_t end(const urma_target_jetty_t* target, End op) {
    const urma::MutexLock lock(mutex_);
    const urma_status_t status = op();
    if (status == URMA_SUCCESS) notifiers_.erase(target);
    return status;
  }

  // Called when the result of an import was taken.
  void forget(const urma_target_jetty_t* target, const urma_notifier_t* notifier) {
    const urma::MutexLock lock(mutex_);
    // The address of an import that failed may already be that of another one.
    const auto [first, last] = notifiers_.equal_range(target);
    const auto entry = std::find_if(
        first, last, [=](const auto& candidate) { return candidate.second == notifier; });
    if (entry != last) notifiers_.erase(entry);
  }

  // Takes out all imports of a notifier.
  Table take_all(const urma_notifier_t* notifier) {
    const urma::MutexLock lock(mutex_);
    Table taken;
    taken.reserve(notifiers_.size());
    for (auto next = notifiers_.begin(); next != notifiers_.end();) {
      const auto entry = next++;
      if (entry->second == notifier) taken.insert(notifiers_.extract(entry));
    }
    return taken;
  }
  void put_back(Table taken) {
    const urma::MutexLock lock(mutex_);
    notifiers_.merge(taken);
  }

 private:
  urma::Mutex mutex_;
  Table notifiers_ URMA_GUARDED_BY(mutex_);
};

// Never destroyed: a program may end imports while it exits.
PendingImports& pending() {
  static auto& imports = *new PendingImports;
  return imports;
}

// Applies a result to its objects.
void settle_result(const urma_notifier_t* notifier, const urma_notify_t& result) {
  if (result.type == URMA_IMPORT_JETTY_NOTIFY) {
    pending().forget(result.tjetty, notifier);
    if (result.status != URMA_SUCCESS) object_ended(notifier->urma_ctx, Living::kImportedQueue);
  } else if (result.status != URMA_SUCCESS && result.jetty != nullptr) {
    peer_of(*result.jetty).store(nullptr);
  }
}

}  // namespace

urma_status_t urma::core::end_import(urma_target_jetty_t* target,
                                     urma_status_t (*op)(urma_target_jetty_t*)) {
  urma_context_t* ctx = target->urma_ctx;
  ObjectPorts* table = object_ports(ctx);
  ObjectPorts::Pairs::node_type pair;
  if (table != nullptr) pair = table->part(target);
  const urma_status_t status = pending().end(target, [&] { return op(target); });
  if (status == URMA_SUCCESS) {
    object_ended(ctx, Living::kImportedQueue);
  } else if (!pair.empty()) {
    table->pair(std::move(pair), target);
  }
  return status;
}

URMA_EXPORT urma_notifier_t* urma_create_notifier(urma_context_t* ctx) {
  return pointer_entry(__func__, [&](const char* call) -> urma_notifier_t* {
    auto* op = slot<&urma_ops_t::create_notifier>(call, ctx);
    if (op == nullptr) return refused();
    urma_notifier_t* notifier = op(ctx);
    if (notifier == nullptr) return nullptr;
    notifier->urma_ctx = ctx;
    object_made(ctx, Living::kNotifier);
    return notifier;
  });
}

URMA_EXPORT urma_status_t urma_delete_notifier(urma_notifier_t* notifier) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    auto* op = slot<&urma_ops_t::delete_notifier>(call, notifier);
    if (op == nullptr) return URMA_EINVAL;
    urma_context_t* ctx = notifier->urma_ctx;
    // First: afterwards a new notifier with imports may have its address.
    auto ended = pending().take_all(notifier);
    const urma_status_t status = op(notifier);
    if (status != URMA_SUCCESS) {
      pending().put_back(std::move(ended));
      return status;
    }
    for (size_t i = 0; i < ended.size(); ++i) object_ended(ctx, Living::kImportedQueue);
    object_ended(ctx, Living::kNotifier);
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_target_jetty_t* urma_import_jetty_async(urma_notifier_t* notifier,
                                                         const urma_rjetty_t* rjetty,
                                                         const urma_token_t* token_value,
                                                         uint64_t user_ctx, int timeout) {
  return pointer_entry(__func__, [&](const char* call) -> urma_target_jetty_t* {
    auto* op = slot<&urma_ops_t::import_jetty_async>(call, notifier);
    if (op == nullptr || !given(call, "rjetty", rjetty) ||
        !given(call, "token_value", token_value) ||
        !check_order(call, rjetty->trans_mode, rjetty->flag.bs.order_type) ||
        !check_tp_type(call, rjetty->trans_mode, rjetty->tp_type)) {
      return refused();
    }
    return pending().start(notifier, *rjetty,
                           [&] { return op(notifier, rjetty, token_value, user_ctx, timeout); });
  });
}

URMA_EXPORT urma_status_t urma_unimport_jetty_async(urma_target_jetty_t* tjetty) {
  return unimport<&urma_ops_t::unimport_jetty_async>(__func__, tjetty);
}

URMA_EXPORT urma_status_t urma_bind_jetty_async(urma_notifier_t* notifier, urma_jetty_t* jetty,
                                                urma_target_jetty_t* tjetty, uint64_t user_ctx,
                                                int timeout) {
  auto* op = slot<&urma_ops_t::bind_jetty_async>(__func__, notifier);
  if (op == nullptr) return URMA_EINVAL;
  // The provider also notifies for a pair that is already bound.
  return bind(
      __func__, jetty, tjetty, [&] { return op(notifier, jetty, tjetty, user_ctx, timeout); },
      Again::kConnect);
}

URMA_EXPORT urma_status_t urma_unbind_jetty_async(urma_jetty_t* jetty) {
  return unbind<&urma_ops_t::unbind_jetty_async>(__func__, jetty);
}

URMA_EXPORT int urma_wait_notify(urma_notifier_t* notifier, uint32_t cnt, urma_notify_t* notify,
                                 int timeout) {
  return count_entry(__func__, [&](const char* call) -> int {
    if (!given(call, "notifier", notifier) || !given(call, "notify", notify)) {
      errno = EINVAL;
      return -1;
    }
    if (cnt == 0) return 0;
    auto* op = slot<&urma_ops_t::wait_notify>(call, notifier);
    if (op == nullptr) return -URMA_EINVAL;
    const int count = op(notifier, cnt, notify, timeout);
    if (count <= 0) return count;
    for (int i = 0; i < count; ++i) settle_result(notifier, notify[i]);
    if (auto* ack = find_slot<&urma_ops_t::ack_notify>(notifier)) {
      ack(static_cast<uint32_t>(count), notify);
    }
    return count;
  });
}

URMA_EXPORT urma_status_t urma_ack_notify(urma_context_t* ctx, uint32_t /*cnt*/,
                                          urma_notify_t* notify) {
  if (!open_gate(__func__, ctx) || !given(__func__, "notify", notify)) return URMA_EINVAL;
  return slot<&urma_ops_t::ack_notify>(__func__, ctx) == nullptr ? -URMA_EINVAL : URMA_SUCCESS;
}
