// SPDX-License-Identifier: MIT
#include "tools/run/mounts.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <memory>
#include <vector>

#include "tools/run/failure.h"

namespace run {
namespace {

constexpr unsigned long kFlags = MS_NOSUID | MS_NOEXEC;

// Enters a folder, and finally goes back: by path, since that may lead into a new mount, else to
// the original folder.
class WorkingFolder {
 public:
  explicit WorkingFolder(const std::string& path)
      : before_(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)), path_(::getcwd(nullptr, 0)) {
    check(::chdir(path.c_str()) == 0, "going to " + path);
  }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;
  ~WorkingFolder() {
    if (path_ == nullptr || ::chdir(path_.get()) != 0) (void)!::fchdir(before_);
    ::close(before_);
  }

 private:
  struct Free {
    void operator()(char* text) const { ::free(text); }
  };
  int before_;
  std::unique_ptr<char, Free> path_;
};

std::vector<std::string> entries_here() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("."), ::closedir);
  check(folder != nullptr, "listing a folder");
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

void bind(const std::string& from, const std::string& to) {
  check(::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0,
        "mounting " + from + " as " + to);
}

void copy_link(const std::string& from, const std::string& to) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(from.c_str(), target, sizeof target - 1);
  check(length >= 0, "reading the link " + from);
  target[length] = '\0';
  check(::symlink(target, to.c_str()) == 0, "making the link " + to);
}

// Makes an entry of this folder visible again under a mount that covers it.
void uncover(const std::string& name, const std::string& folder) {
  const std::string to = folder + "/" + name;
  struct stat info;
  if (::lstat(name.c_str(), &info) != 0) return;  // gone by now
  if (S_ISLNK(info.st_mode)) return copy_link(name, to);
  const bool made = S_ISDIR(info.st_mode) ? ::mkdir(to.c_str(), 0755) == 0
                                          : ::mknod(to.c_str(), S_IFREG | 0644, 0) == 0;
  check(made, "making " + to);
  bind(name, to);
}

// A folder where nobody can create entries, such as /sys/class, is covered by a copy in memory,
// whose entries lead to those below.
void cover(const std::string& folder, const std::string& addition) {
  // Relative links keep leading below the cover.
  const WorkingFolder below(folder);
  const auto names = entries_here();
  check(::mount("urma_run", folder.c_str(), "tmpfs", kFlags, "mode=0755") == 0,
        "mounting a tmpfs on " + folder);
  for (const std::string& name : names) {
    if (name != addition) uncover(name, folder);
  }
  const std::string added = folder + "/" + addition;
  check(::mkdir(added.c_str(), 0755) == 0, "making " + added);
}

void show(const std::string& from, const std::string& folder, const std::string& name) {
  const std::string place = folder + "/" + name;
  struct stat info;
  const bool there = ::stat(place.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  if (!there) cover(folder, name);
  bind(from, place);
}

}  // namespace

void show_by_mounts(const std::string& view) {
  // Slave: later mounts outside appear here too, but none from here outside.
  check(::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0,
        "making the mounts private");
  const mode_t mask = ::umask(0);
  show(view + "/ubcore", "/sys/class", "ubcore");
  show(view + "/uburma", "/dev", "uburma");
  ::umask(mask);
  // Read-only, like the one below. One that is not covered has other flags.
  (void)::mount(nullptr, "/sys/class", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kFlags, nullptr);
}

}  // namespace run
