// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_PEER_USERS_H_
#define URMA_CORE_PROCESS_PEER_USERS_H_

#include <sys/types.h>

#include <string_view>
#include <vector>

namespace urma::core {

// Whose processes may be peers of this one: those of its own user and root's always, and those
// that URMA_SHM_PEERS names.
class PeerUsers {
 public:
  // Users by name or number, with commas between them; "*" for all. Throws Error(URMA_EINVAL) for
  // one that there is not.
  explicit PeerUsers(std::string_view text);

  bool contains(uid_t user) const;
  // Whether anybody is named.
  bool wide() const { return all_ || !users_.empty(); }

 private:
  bool all_ = false;
  std::vector<uid_t> users_;
};

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_PEER_USERS_H_
