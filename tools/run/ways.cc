// SPDX-License-Identifier: MIT
#include "tools/run/ways.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tools/run/failure.h"
#include "tools/run/mounts.h"
#include "urma_api.h"

namespace run {
namespace {

constexpr char kPreloaded[] = "urma/urma_run.so";

void write_text(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  const bool done =
      fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int code = errno;
  if (fd >= 0) ::close(fd);
  errno = code;
  check(done, std::string("writing ") + path);
}

bool has_capabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return true;
  return (data[0].effective | data[1].effective) != 0;
}

void leave_mount_namespace() { check(::unshare(CLONE_NEWNS) == 0, "making a mount namespace"); }

// User and group keep their numbers, so that peers outside see the same user.
void leave_user_namespace() {
  // They have no effect outside of the new namespace.
  if (has_capabilities()) throw Failure("this process has capabilities that it would lose");
  const std::string user = std::to_string(::geteuid()), group = std::to_string(::getegid());
  check(::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, "making a user namespace");
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", user + " " + user + " 1");
  write_text("/proc/self/gid_map", group + " " + group + " 1");
}

// The library to preload lies beside the providers' modules.
std::string preloaded_library() {
  namespace fs = std::filesystem;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&urma_init), &info) == 0) {
    throw Failure("cannot find the file of liburma.so.0");
  }
  std::error_code error;
  fs::path path = fs::absolute(info.dli_fname, error).parent_path() / kPreloaded;
  if (!fs::exists(path, error)) {
    path = fs::canonical(info.dli_fname, error).parent_path() / kPreloaded;
  }
  check(::access(path.c_str(), R_OK) == 0, "reading " + path.string());
  if (path.string().find_first_of(" :") != std::string::npos) {
    throw Failure("LD_PRELOAD cannot name " + path.string() + ": install it under another path");
  }
  return path.string();
}

// After existing entries: a sanitizer's library must be the first.
void preload(const std::string& view) {
  const char* before = std::getenv("LD_PRELOAD");
  const std::string list = before == nullptr || *before == '\0' ? "" : before + std::string(":");
  ::setenv("LD_PRELOAD", (list + preloaded_library()).c_str(), 1);
  ::setenv("URMA_RUN_VIEW", view.c_str(), 1);
}

}  // namespace

const char* name_of(Way way) {
  switch (way) {
    case Way::kMount:
      return "mount";
    case Way::kUserns:
      return "userns";
    default:
      return "preload";
  }
}

const char* about(Way way) {
  switch (way) {
    case Way::kMount:
      return "a mount in a private namespace";
    case Way::kUserns:
      return "a mount in a user namespace";
    default:
      return "a preloaded library";
  }
}

void enter(Way way, const std::string& view) {
  if (way == Way::kPreload) return preload(view);
  if (way == Way::kMount) leave_mount_namespace();
  if (way == Way::kUserns) leave_user_namespace();
  show_by_mounts(view);
}

std::string why_not(Way way, const std::string& view) {
  int fds[2];
  check(::pipe2(fds, O_CLOEXEC) == 0, "making a pipe");
  const pid_t child = ::fork();
  check(child >= 0, "making a process");
  if (child == 0) {
    try {
      enter(way, view);
    } catch (const Failure& failure) {
      const std::string why = failure.what();
      (void)!::write(fds[1], why.data(), why.size());
      ::_exit(1);
    }
    ::_exit(0);
  }
  ::close(fds[1]);
  char text[512];
  const ssize_t length = ::read(fds[0], text, sizeof text);
  ::close(fds[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (length > 0) return {text, static_cast<size_t>(length)};
  return status == 0 ? "" : "the attempt was killed";
}

}  // namespace run
