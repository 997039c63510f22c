// SPDX-License-Identifier: MIT
#include "urma/core/process/config_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "urma/base/error.h"
#include "urma/base/fd.h"

namespace urma::core {
namespace {

constexpr size_t kMaxBytes = 65536;
constexpr std::string_view kBlanks = " \t\r";

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Why an open file is not read; "" if it is.
std::string why_not(int fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return urma::format("{}: {}", path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return urma::format("{} is not read: it is not a regular file", path);
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    return urma::format("{} is not read: it belongs to user {}; give it to root or to user {}",
                        path, info.st_uid, ::geteuid());
  }
  if ((info.st_mode & S_IWOTH) != 0) {
    return urma::format("{} is not read: every user may write to it; run \"chmod o-w {}\"", path,
                        path);
  }
  if (static_cast<size_t>(info.st_size) > kMaxBytes) {
    return urma::format("{} is not read: {} bytes exceed {}; shorten it", path, info.st_size,
                        kMaxBytes);
  }
  return "";
}

std::string read_all(int fd) {
  std::string text(kMaxBytes, '\0');
  size_t length = 0;
  while (length < text.size()) {
    const ssize_t count = ::read(fd, text.data() + length, text.size() - length);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    length += static_cast<size_t>(count);
  }
  text.resize(length);
  return text;
}

void read_line(std::string_view line, const std::string& place, ConfigFile* file) {
  line = trim(line);
  if (line.empty() || line.front() == '#') return;
  const auto equals = line.find('=');
  const auto name = trim(line.substr(0, equals));
  if (equals == std::string_view::npos || name.empty()) {
    file->complaints.push_back(urma::format("{} is ignored: write NAME=value", place));
    return;
  }
  file->lines.push_back({std::string(name), std::string(trim(line.substr(equals + 1))), place});
}

}  // namespace

std::string user_config_path() {
  const char* config = ::secure_getenv("XDG_CONFIG_HOME");
  if (config != nullptr && config[0] == '/') return urma::format("{}/urma.conf", config);
  const char* home = ::secure_getenv("HOME");
  if (home != nullptr && home[0] == '/') return urma::format("{}/.config/urma.conf", home);
  return "";
}

ConfigFile read_config_file(const std::string& path) {
  ConfigFile file;
  if (path.empty()) return file;
  // Does not wait for the other end if it is a pipe.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) {
    if (errno != ENOENT && errno != ENOTDIR) {
      file.complaints.push_back(urma::format("{} is not read: {}", path, std::strerror(errno)));
    }
    return file;
  }
  if (auto reason = why_not(fd.get(), path); !reason.empty()) {
    file.complaints.push_back(std::move(reason));
    return file;
  }
  const std::string text = read_all(fd.get());
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const auto end = std::min(rest.find('\n'), rest.size());
    read_line(rest.substr(0, end), urma::format("{}:{}", path, number), &file);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return file;
}

}  // namespace urma::core
