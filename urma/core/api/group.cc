// SPDX-License-Identifier: MIT
//
// Jetty groups. Core keeps jetty_list, jetty_cnt and list_mutex; the rest of a group is the
// provider's. jetty_cnt counts a member from before its provider makes it until after the provider
// ended it; meanwhile its place in the list is NULL, so the list never shows an incomplete jetty.
#include <cstdlib>
#include <cstring>

#include "urma/core/api/export.h"
#include "urma/core/api/lifecycle.h"
#include "urma_api.h"

namespace urma::core {
namespace {

// No line is written while it is held: a log callback may call for the group.
class ListLock {
 public:
  explicit ListLock(urma_jetty_grp_t& group) : mutex_(group.list_mutex) {
    pthread_mutex_lock(&mutex_);
  }
  ListLock(const ListLock&) = delete;
  ListLock& operator=(const ListLock&) = delete;
  ~ListLock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t& mutex_;
};

// Never 0 and never above URMA_MAX_JETTY_IN_JETTY_GRP: the device was checked when the group was
// made.
uint32_t max_members(const urma_jetty_grp_t& group) {
  const urma_device_cap_t* caps = caps_of(group.urma_ctx);
  return caps == nullptr ? URMA_MAX_JETTY_IN_JETTY_GRP : caps->max_jetty_in_jetty_grp;
}

uint32_t members_of(urma_jetty_grp_t& group) {
  ListLock lock(group);
  return group.jetty_cnt;
}

void replace(urma_jetty_grp_t& group, urma_jetty_t* from, urma_jetty_t* to) {
  ListLock lock(group);
  for (uint32_t i = 0; i < URMA_MAX_JETTY_IN_JETTY_GRP; ++i) {
    if (group.jetty_list[i] == from) {
      group.jetty_list[i] = to;
      return;
    }
  }
}

}  // namespace

urma_status_t acquire(const char* call, urma_jetty_grp_t* group) {
  if (group == nullptr) return URMA_SUCCESS;
  const uint32_t most = max_members(*group);
  uint32_t members;
  {
    ListLock lock(*group);
    members = group->jetty_cnt;
    if (members < most) {
      ++group->jetty_cnt;
      return URMA_SUCCESS;
    }
  }
  URMA_LOG_LIMITED(ERR, "{}: group {} is full with {} jetties; delete one or use another group",
                   call, group->cfg.name, members);
  return URMA_ENOPERM;
}

void attach(urma_jetty_grp_t* group, urma_jetty_t* jetty) {
  if (group != nullptr) replace(*group, nullptr, jetty);
}

void detach(urma_jetty_grp_t* group, urma_jetty_t* jetty) {
  if (group != nullptr) replace(*group, jetty, nullptr);
}

void release(urma_jetty_grp_t* group) {
  if (group == nullptr) return;
  ListLock lock(*group);
  --group->jetty_cnt;
}

namespace {

bool check_group_cfg(const char* call, const urma_context_t* ctx, const urma_jetty_grp_cfg_t& cfg) {
  if (strnlen(cfg.name, sizeof cfg.name) == sizeof cfg.name) {
    URMA_LOG_LIMITED(ERR, "{}: the name is not zero-terminated within {} bytes; shorten it", call,
                     sizeof cfg.name);
    return false;
  }
  const urma_device_cap_t* caps = caps_of(ctx);
  if (caps == nullptr || (caps->max_jetty_in_jetty_grp != 0 &&
                          caps->max_jetty_in_jetty_grp <= URMA_MAX_JETTY_IN_JETTY_GRP)) {
    return true;
  }
  URMA_LOG_LIMITED(ERR,
                   "{}: max_jetty_in_jetty_grp of device {} is {}, not 1 to {}; use a device "
                   "with groups",
                   call, ctx->dev->name, caps->max_jetty_in_jetty_grp, URMA_MAX_JETTY_IN_JETTY_GRP);
  return false;
}

}  // namespace
}  // namespace urma::core

using namespace urma::core;  // NOLINT(build/namespaces)

URMA_EXPORT urma_jetty_grp_t* urma_create_jetty_grp(urma_context_t* ctx,
                                                    urma_jetty_grp_cfg_t* cfg) {
  return pointer_entry(__func__, [&](const char* call) -> urma_jetty_grp_t* {
    auto* op = slot<&urma_ops_t::create_jetty_grp>(call, ctx);
    if (op == nullptr || !given(call, "cfg", cfg) || !check_group_cfg(call, ctx, *cfg)) {
      return refused();
    }
    auto** list = static_cast<urma_jetty_t**>(
        std::calloc(URMA_MAX_JETTY_IN_JETTY_GRP, sizeof(urma_jetty_t*)));
    if (list == nullptr) return refused(ENOMEM);
    Rollback undo([list] { std::free(list); });
    urma_jetty_grp_t* group = op(ctx, cfg);
    if (group == nullptr) return nullptr;
    undo.dismiss();
    group->urma_ctx = ctx;
    if (group->cfg.name[0] == '\0') {
      // The provider filled in nothing, or the group has no name; the id is the provider's either
      // way.
      const uint32_t id = group->cfg.id != 0 ? group->cfg.id : cfg->id;
      group->cfg = *cfg;
      group->cfg.id = id;
    }
    group->jetty_cnt = 0;
    group->jetty_list = list;
    pthread_mutex_init(&group->list_mutex, nullptr);
    init_events(*group);
    group->async_events_acked = 0;
    object_made(ctx, Living::kGroup);
    return group;
  });
}

URMA_EXPORT urma_status_t urma_delete_jetty_grp(urma_jetty_grp_t* jetty_grp) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (slot<&urma_ops_t::delete_jetty_grp>(call, jetty_grp) == nullptr) return URMA_EINVAL;
    if (const uint32_t members = members_of(*jetty_grp); members != 0) {
      URMA_LOG_LIMITED(ERR, "{}: group {} has {} jetties; delete them first", call,
                       jetty_grp->cfg.name, members);
      return URMA_ENOPERM;
    }
    urma_jetty_t** list = jetty_grp->jetty_list;
    const urma_status_t status =
        end_child<&urma_ops_t::delete_jetty_grp, Living::kGroup>(call, jetty_grp);
    if (status == URMA_SUCCESS) std::free(list);
    return status;
  });
}
