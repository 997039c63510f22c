// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_PEER_USERS_H_
#define URMA_CORE_PROCESS_PEER_USERS_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace urma::core {

// The users whose processes may be peers of this one: its own user and root always, and those in
// URMA_SHM_PEERS.
class PeerUsers {
 public:
  // Users by name or number, separated by commas; "*": all. Throws Error(URMA_EINVAL) for an
  // unknown user.
  explicit PeerUsers(std::string_view text);

  bool contains(uid_t user) const;
  // Whether any user is named.
  bool wide() const { return all_ || !users_.empty(); }
  // For other processes: the user namespace, then the users' numbers or "*", each between commas.
  std::string text() const;
  // Whether a process of this user, with that text(), admits this process. It may be anything.
  static bool is_admitted_by(uid_t user, std::string_view text);

 private:
  bool all_ = false;
  std::vector<uid_t> users_;
};

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_PEER_USERS_H_
