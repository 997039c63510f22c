// SPDX-License-Identifier: MIT
#include "urma/core/process/device_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/core/process/files.h"

namespace urma::core {
namespace {

// A process that cleans up locks the folder for one rename, which waits only for a busy disk.
constexpr int kTries = 2000;
constexpr timespec kBetweenTries{0, 1'000'000};
constexpr mode_t kGroupFolder = 02770;

// Belongs to the group of the parent folder if that is shared.
void make_folder(const std::string& path) {
  struct stat around;
  const auto parent = std::filesystem::path(path).parent_path();
  const bool shared =
      ::stat(parent.c_str(), &around) == 0 && (around.st_mode & 07777) == kGroupFolder;
  const mode_t mode = shared ? kGroupFolder : 0700;
  if (::mkdir(path.c_str(), mode) == 0) {
    // The program's umask may have removed bits.
    ::chmod(path.c_str(), mode);
  } else if (errno != EEXIST) {
    fail_errno(URMA_FAIL, urma::format("making {}", path));
  }
}

bool is_empty(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_empty(path, error);
}

void write_file(const std::string& path, const AttributeFile& file) {
  const Fd fd =
      checked_fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600),
                 urma::format("making {}", path));
  const auto written = ::write(fd.get(), file.text.data(), file.text.size());
  if (written != static_cast<ssize_t>(file.text.size())) {
    fail_errno(URMA_FAIL, urma::format("writing {}", path));
  }
  ::fchmod(fd.get(), file.writable ? 0644 : 0444);
}

void read_port(const std::string& file, uint32_t port, PortControl* control) {
  auto state = read_small_file(AT_FDCWD, file);
  if (!state) return;
  if (!state->empty() && state->back() == '\n') state->pop_back();
  if (*state == "1" || *state == "4") {
    control->set_port(port, *state == "4");
  } else if (!state->empty()) {
    URMA_LOG_LIMITED(WARNING, "{}: '{:.32}' is not a state; write 1 (down) or 4 (active)", file,
                     *state);
  }
}

}  // namespace

DeviceFiles::DeviceFiles(Janitor& janitor, const std::string& runtime_path, uint32_t slot,
                         const std::vector<ShownDevice>& devices)
    : janitor_(janitor),
      path_(runtime_path + "/class"),
      // A name of the slot, so that others remove it if this process is killed.
      away_(urma::format("{}/{}.class", runtime_path, slot)),
      slot_(slot) {
  for (int i = 0; !try_hold(); ++i) {
    if (i == kTries) fail(URMA_FAIL, "{} stays locked by a process that is ending", path_);
    ::nanosleep(&kBetweenTries, nullptr);
  }
  make_folder(path_ + "/ubcore");
  for (const ShownDevice& device : devices) write_device(device);
  watch(devices);
}

// Holds the folder. False if another process is just moving it away. What is in a folder that no
// other process holds is stale: then a new one is made.
bool DeviceFiles::try_hold() {
  open_folder();
  if (try_flock(held_.get(), LOCK_EX, path_) && is_still_named(AT_FDCWD, path_, held_) &&
      !is_empty(path_)) {
    remove_folder();
    open_folder();
  }
  return try_flock(held_.get(), LOCK_SH, path_) && is_still_named(AT_FDCWD, path_, held_);
}

void DeviceFiles::open_folder() {
  make_folder(path_);
  held_ = OwnFd(AT_FDCWD, path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (!held_.valid()) fail_no_fd(urma::format("opening {}", path_));
}

// With the folder locked. Others wait until it has another name, and not until its files are
// removed: on a busy disk that can take seconds.
void DeviceFiles::remove_folder() {
  std::error_code ignored;
  std::filesystem::rename(path_, away_, ignored);
  std::filesystem::remove_all(away_, ignored);
}

DeviceFiles::~DeviceFiles() {
  for (const int watched : watched_) janitor_.unwatch(watched);
  guarded(URMA_LOG_SITE, [this] {
    if (::flock(held_.get(), LOCK_EX | LOCK_NB) == 0 && is_still_named(AT_FDCWD, path_, held_))
      remove_folder();
  });
}

// It gets its name when it is complete, so that no process sees half of it.
void DeviceFiles::write_device(const ShownDevice& device) {
  const auto place = urma::format("{}/ubcore/{}", path_, device.name);
  std::error_code error;
  if (std::filesystem::exists(place, error)) return;
  const auto made = urma::format("{}/.{}-{}", path_, slot_, device.name);
  std::filesystem::remove_all(made, error);
  make_folder(made);
  for (const AttributeFile& file : device.files) {
    for (size_t slash = file.name.find('/'); slash != std::string::npos;
         slash = file.name.find('/', slash + 1)) {
      make_folder(urma::format("{}/{}", made, file.name.substr(0, slash)));
    }
    write_file(urma::format("{}/{}", made, file.name), file);
  }
  // Another process may have been faster.
  if (::rename(made.c_str(), place.c_str()) != 0) std::filesystem::remove_all(made, error);
}

void DeviceFiles::watch(const std::vector<ShownDevice>& devices) {
  for (const ShownDevice& device : devices) {
    for (uint32_t i = 0; device.control != nullptr && i < device.ports; ++i) {
      const auto folder = urma::format("{}/ubcore/{}/port{}", path_, device.name, i);
      const auto read = [file = folder + "/state", i, control = device.control] {
        guarded(URMA_LOG_SITE, [&] { read_port(file, i, control); });
      };
      const int watched = janitor_.watch(folder, read);
      if (watched < 0) {
        URMA_LOG(INFO, "{} cannot be watched ({}): what is written there has no effect here",
                 folder, std::strerror(errno));
        continue;
      }
      watched_.push_back(watched);
      // A state written earlier also applies to this process.
      read();
    }
  }
}

}  // namespace urma::core
