// SPDX-License-Identifier: MIT
//
// Jetty groups of this process: the sender names a hint, and the owner picks the member.
#ifndef JETTY_GROUPS_H_
#define JETTY_GROUPS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "jetty/network.h"
#include "jetty/receiver.h"
#include "jetty/remote.h"
#include "urma/base/mutex.h"
#include "urma_types.h"

namespace urma {

class Context;

// Any thread.
class GroupTable {
 public:
  void add(const urma_jetty_grp_t& group);
  void remove(const urma_jetty_grp_t& group);
  // Does nothing for an endpoint without a group. Members are numbered from 0 in the order in which
  // they join.
  void join(const Endpoint& member);
  void leave(const Endpoint& member);

  // Whether a peer may send to the group.
  Answer admits(const urma_eid_t& eid, uint32_t id, uint32_t trans_mode, uint32_t token) const;
  // The number of members.
  uint32_t members(const urma_eid_t& eid, uint32_t id) const;
  // The member that a hint selects, and the number of members. False if there is none.
  bool pick(const urma_eid_t& eid, uint32_t id, uint32_t hint, uint32_t* member,
            uint32_t* members) const;

 private:
  struct Group {
    uint32_t token_policy;
    urma_token_t token;
    std::vector<uint32_t> members;  // their ids
  };

  using Key = std::pair<EidKey, uint32_t>;
  Group* find(const urma_eid_t& eid, uint32_t id) URMA_REQUIRES(mutex_);
  const Group* find(const urma_eid_t& eid, uint32_t id) const URMA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<Key, Group> groups_ URMA_GUARDED_BY(mutex_);
};

// Throws Error.
urma_jetty_grp_t* make_group(Context* context, const urma_jetty_grp_cfg_t& cfg);
void end_group(urma_jetty_grp_t* group);

}  // namespace urma

#endif  // JETTY_GROUPS_H_
