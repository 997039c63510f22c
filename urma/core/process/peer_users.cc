// SPDX-License-Identifier: MIT
#include "urma/core/process/peer_users.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "urma/base/error.h"

namespace urma::core {
namespace {

// The longest entry of a user that is read.
constexpr size_t kEntryBytes = 16 << 10;

uid_t user_of(std::string_view text) {
  uid_t user = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, user);
  // The highest number means no user.
  if (error == std::errc() && stop == end && user != static_cast<uid_t>(-1)) return user;
  std::vector<char> entry(kEntryBytes);
  passwd info;
  passwd* found = nullptr;
  ::getpwnam_r(std::string(text).c_str(), &info, entry.data(), entry.size(), &found);
  if (found == nullptr) {
    fail(URMA_EINVAL, "unknown user '{:.32}'; allowed: names and numbers of users, or *", text);
  }
  return found->pw_uid;
}

}  // namespace

PeerUsers::PeerUsers(std::string_view text) {
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    if (word == "*") {
      all_ = true;
    } else {
      users_.push_back(user_of(word));
    }
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
}

std::string PeerUsers::text() const {
  if (all_) return "*";
  std::string text = ",";
  for (const uid_t user : users_) text += std::to_string(user) + ",";
  return text;
}

bool PeerUsers::is_admitted_by(uid_t user, std::string_view text) {
  const uid_t own = ::geteuid();
  return own == user || own == 0 || text == "*" ||
         text.find("," + std::to_string(own) + ",") != std::string_view::npos;
}

bool PeerUsers::contains(uid_t user) const {
  return all_ || user == ::geteuid() || user == 0 ||
         std::find(users_.begin(), users_.end(), user) != users_.end();
}

}  // namespace urma::core
