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

// Its name, which is the same for all processes in it.
std::string user_namespace() {
  char name[64];
  const ssize_t length = ::readlink("/proc/self/ns/user", name, sizeof(name));
  return std::string(name, length < 0 ? 0 : static_cast<size_t>(length));
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
  std::string text = user_namespace() + ",";
  if (all_) text += "*,";
  for (const uid_t user : users_) text += std::to_string(user) + ",";
  return text;
}

bool PeerUsers::is_admitted_by(uid_t user, std::string_view text) {
  const uid_t own = ::geteuid();
  const auto has = [&](const std::string& word) {
    return text.find("," + word + ",") != std::string_view::npos;
  };
  if (own == user || has("*")) return true;
  // In another namespace the numbers, root's too, mean other users.
  return text.starts_with(user_namespace() + ",") && (own == 0 || has(std::to_string(own)));
}

bool PeerUsers::contains(uid_t user) const {
  return all_ || user == ::geteuid() || user == 0 ||
         std::find(users_.begin(), users_.end(), user) != users_.end();
}

}  // namespace urma::core
