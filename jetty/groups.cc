// SPDX-License-Identifier: MIT
#include "jetty/groups.h"

#include <memory>

#include "jetty/context.h"
#include "jetty/queues.h"
#include "urma/base/error.h"

namespace urma {
namespace {

class JettyGroup : public urma_jetty_grp_t {
 public:
  JettyGroup(Context* context, const urma_jetty_grp_cfg_t& asked)
      : urma_jetty_grp_t{},
        groups_(context->transport().groups()),
        id_(context, IdKind::kGroup, asked.id) {
    urma_ctx = context;
    cfg = asked;
    cfg.id = id_.get();
    jetty_grp_id = context->full_id(id_.get());
    handle = id_.get();
    groups_.add(*this);
  }
  ~JettyGroup() { groups_.remove(*this); }
  JettyGroup(const JettyGroup&) = delete;
  JettyGroup& operator=(const JettyGroup&) = delete;

 private:
  GroupTable& groups_;
  IdLease id_;
};

}  // namespace

GroupTable::Group* GroupTable::find(const urma_eid_t& eid, uint32_t id) {
  const auto found = groups_.find({key_of(eid), id});
  return found == groups_.end() ? nullptr : &found->second;
}

const GroupTable::Group* GroupTable::find(const urma_eid_t& eid, uint32_t id) const {
  return const_cast<GroupTable*>(this)->find(eid, id);
}

void GroupTable::add(const urma_jetty_grp_t& group) {
  const auto& [eid, uasid, id] = group.jetty_grp_id;
  const MutexLock lock(mutex_);
  groups_.emplace(Key(key_of(eid), id),
                  Group{group.cfg.flag.bs.token_policy, group.cfg.token_value, {}});
}

void GroupTable::remove(const urma_jetty_grp_t& group) {
  const MutexLock lock(mutex_);
  groups_.erase({key_of(group.jetty_grp_id.eid), group.jetty_grp_id.id});
}

void GroupTable::join(const Endpoint& member) {
  if (member.group == 0) return;
  const MutexLock lock(mutex_);
  if (Group* group = find(member.eid, member.group)) group->members.push_back(member.identity.id);
}

void GroupTable::leave(const Endpoint& member) {
  if (member.group == 0) return;
  const MutexLock lock(mutex_);
  if (Group* group = find(member.eid, member.group)) {
    std::erase(group->members, member.identity.id);
  }
}

Answer GroupTable::admits(const urma_eid_t& eid, uint32_t id, uint32_t trans_mode,
                          uint32_t token) const {
  const MutexLock lock(mutex_);
  const Group* group = find(eid, id);
  if (group == nullptr) return Answer::kNoSuchObject;
  if (group->token_policy != URMA_TOKEN_NONE && group->token.token != token) {
    return Answer::kWrongToken;
  }
  return trans_mode == URMA_TM_RM ? Answer::kAccepted : Answer::kWrongMode;
}

uint32_t GroupTable::members(const urma_eid_t& eid, uint32_t id) const {
  const MutexLock lock(mutex_);
  const Group* group = find(eid, id);
  return group == nullptr ? 0 : static_cast<uint32_t>(group->members.size());
}

bool GroupTable::pick(const urma_eid_t& eid, uint32_t id, uint32_t hint, uint32_t* member,
                      uint32_t* members) const {
  const MutexLock lock(mutex_);
  const Group* group = find(eid, id);
  if (group == nullptr || group->members.empty()) return false;
  *members = static_cast<uint32_t>(group->members.size());
  *member = group->members[hint % *members];
  return true;
}

urma_jetty_grp_t* make_group(Context* context, const urma_jetty_grp_cfg_t& cfg) {
  if (cfg.policy != URMA_JETTY_GRP_POLICY_RR && cfg.policy != URMA_JETTY_GRP_POLICY_HASH_HINT) {
    fail(URMA_EINVAL, "create_jetty_grp: policy {} is not supported; use RR (0) or HASH_HINT (1)",
         static_cast<uint32_t>(cfg.policy));
  }
  if (cfg.flag.bs.token_policy > URMA_TOKEN_PLAIN_TEXT) {
    fail(URMA_EINVAL,
         "create_jetty_grp: token_policy {} is not supported; use NONE (0) or PLAIN_TEXT (1)",
         uint32_t{cfg.flag.bs.token_policy});
  }
  return std::make_unique<JettyGroup>(context, cfg).release();
}

void end_group(urma_jetty_grp_t* group) { delete static_cast<JettyGroup*>(group); }

}  // namespace urma
