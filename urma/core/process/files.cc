// SPDX-License-Identifier: MIT
#include "urma/core/process/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "urma/base/error.h"

namespace urma::core {
namespace {

// How often a name that seems taken is tried again. A process that checks for an owner or cleans up
// holds the lock of a dead owner's file for some microseconds.
constexpr int kTries = 50;
constexpr timespec kBetweenTries{0, 200'000};

// Read-only: closing a writable descriptor would wake all watchers of the directory.
OwnFd open_to_look(int dir, const std::string& name) {
  return OwnFd(dir, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

}  // namespace

void fail_no_fd(const std::string& doing) {
  const int code = errno;
  std::string remedy;
  if (code == EMFILE) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    remedy = urma::format("; the process may have {} descriptors (RLIMIT_NOFILE): raise the limit",
                          limit.rlim_cur);
  }
  fail(URMA_FAIL, "{}: {}{}", doing, std::strerror(code), remedy);
}

Fd checked_fd(int fd, const std::string& doing) {
  Fd made(fd);
  if (!made.valid()) fail_no_fd(doing);
  return made;
}

bool try_flock(int fd, int operation, const std::string& path) {
  if (::flock(fd, operation | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  fail(URMA_FAIL,
       "locking {}: {}; allow flock in seccomp filters, or set URMA_RUNTIME_DIR to a directory "
       "whose file system has locks",
       path, std::strerror(errno));
}

mode_t file_mode(int dir) {
  constexpr mode_t kGroupDir = S_ISGID | S_IRWXG;
  struct stat info;
  const bool shared = ::fstat(dir, &info) == 0 && (info.st_mode & kGroupDir) == kGroupDir;
  return shared ? 0660 : 0600;
}

std::vector<std::string> list_names(int dir) {
  Fd fd = checked_fd(::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                     "listing the runtime directory");
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(fd.get()), ::closedir);
  if (entries == nullptr) fail_errno(URMA_FAIL, "listing the runtime directory");
  fd.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(entries.get())) names.emplace_back(entry->d_name);
  return names;
}

bool is_still_named(int dir, const std::string& name, const OwnFd& fd) {
  struct stat opened, named;
  return ::fstat(fd.get(), &opened) == 0 &&
         ::fstatat(dir, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

std::optional<OwnFd> lock_abandoned(int dir, const std::string& name) {
  OwnFd fd = open_to_look(dir, name);
  if (!fd.valid() || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  if (!is_still_named(dir, name, fd)) return std::nullopt;
  return fd;
}

bool is_held(int dir, const std::string& name) {
  const OwnFd fd = open_to_look(dir, name);
  return fd.valid() && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void remove_if_abandoned(int dir, const std::string& name) {
  // Locked until it is removed, so that no new owner can take it in between.
  if (const auto lock = lock_abandoned(dir, name)) ::unlinkat(dir, name.c_str(), 0);
}

LockedFile::LockedFile(int dir, std::string temporary_name, const std::string& content)
    : dir_(dir), temporary_name_(std::move(temporary_name)), content_(content) {
  try {
    create();
  } catch (...) {
    ::unlinkat(dir_, temporary_name_.c_str(), 0);
    throw;
  }
}

LockedFile::~LockedFile() { ::unlinkat(dir_, temporary_name_.c_str(), 0); }

void LockedFile::create() {
  const auto doing = urma::format("making {} in the runtime directory", temporary_name_);
  const mode_t mode = file_mode(dir_);
  for (int i = 0; i < kTries; ++i) {
    fd_ = OwnFd(dir_, temporary_name_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                mode);
    if (!fd_.valid()) fail_no_fd(doing);
    // A process that cleans up may remove it before it is locked; then it is made again.
    if (!try_flock(fd_.get(), LOCK_EX, temporary_name_) ||
        !is_still_named(dir_, temporary_name_, fd_)) {
      ::nanosleep(&kBetweenTries, nullptr);
      continue;
    }
    // The program's umask may have removed bits.
    ::fchmod(fd_.get(), mode);
    if (::write(fd_.get(), content_.data(), content_.size()) !=
        static_cast<ssize_t>(content_.size())) {
      fail_errno(URMA_FAIL, doing);
    }
    return;
  }
  fail(URMA_FAIL, "{}: another process keeps it locked", doing);
}

bool LockedFile::link_as(const std::string& name) {
  if (::linkat(dir_, temporary_name_.c_str(), dir_, name.c_str(), 0) == 0) return true;
  if (errno != EEXIST)
    fail_errno(URMA_FAIL, urma::format("making {} in the runtime directory", name));
  return false;
}

OwnFd reserve_name(int dir, const std::string& name, const std::string& temporary_name,
                   const std::string& content, const std::string& what) {
  LockedFile file(dir, temporary_name, content);
  for (int i = 0; i < kTries; ++i) {
    if (file.link_as(name)) return file.release();
    remove_if_abandoned(dir, name);
    if (file.link_as(name)) return file.release();
    ::nanosleep(&kBetweenTries, nullptr);
  }
  fail(URMA_EEXIST, "{} is taken by a living process", what);
}

std::optional<std::string> read_small_file(int dir, const std::string& name) {
  const OwnFd fd = open_to_look(dir, name);
  char text[4096];
  const ssize_t length = fd.valid() ? ::read(fd.get(), text, sizeof text) : -1;
  if (length < 0) return std::nullopt;
  return std::string(text, static_cast<size_t>(length));
}

}  // namespace urma::core
