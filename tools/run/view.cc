// SPDX-License-Identifier: MIT
#include "tools/run/view.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "tools/run/failure.h"
#include "tools/run/library.h"
#include "tools/run/runtime.h"
#include "urma_provider.h"

namespace run {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

// The device with files whose attributes the one of this name shares.
std::string device_behind(urma_device_t* named, const std::vector<std::string>& with_files) {
  const auto eids = eids_of(named);
  for (const std::string& name : with_files) {
    std::string copy = name;
    const auto there = eids_of(urma_get_device_by_name(copy.data()));
    if (!eids.empty() && !there.empty() && std::memcmp(&eids[0], &there[0], sizeof eids[0]) == 0) {
      return name;
    }
  }
  return device_to_extend();
}

void write_line(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text << '\n';
  fs::permissions(path, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
}

}  // namespace

View::View() : live_(runtime_directory() + "/class/ubcore") {
  check(::access(live_.c_str(), R_OK) == 0, "reading " + live_);
  path_ = runtime_directory() + "/class/.run-XXXXXX";
  check(::mkdtemp(path_.data()) != nullptr, "making " + path_);
  try {
    fill();
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    throw Failure(error.what());
  }
}

View::~View() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void View::fill() {
  ::chmod(path_.c_str(), 0755);
  auto names = names_in(live_);
  const size_t with_files = names.size();
  for (const urma_device_t* device : own_devices()) {
    if (std::find(names.begin(), names.end(), device->name) == names.end()) {
      names.push_back(device->name);
    }
  }
  const fs::path attributes = path_ + "/ubcore", nodes = path_ + "/uburma";
  if (names.size() == with_files) {
    fs::create_directory_symlink(live_, attributes);
  } else {
    fs::create_directory(attributes);
    for (size_t i = 0; i < with_files; ++i) {
      fs::create_directory_symlink(live_ + "/" + names[i], attributes / names[i]);
    }
    for (size_t i = with_files; i < names.size(); ++i) add_named(names[i]);
  }
  // They can be opened, and reject every command: there is no kernel module.
  fs::create_directory(nodes);
  for (const std::string& name : names) fs::create_symlink("/dev/null", nodes / name);
}

// A further name has the files of its device, except those that contain the name.
void View::add_named(const std::string& name) {
  std::string copy = name;
  urma_device_t* device = urma_get_device_by_name(copy.data());
  std::string behind = device_behind(device, names_in(live_));
  const fs::path from = fs::path(live_) / behind, to = fs::path(path_) / "ubcore" / name;
  fs::create_directory(to);
  for (const std::string& file : names_in(from)) {
    if (file != "ubdev" && file != "driver_name") fs::create_symlink(from / file, to / file);
  }
  write_line(to / "ubdev", name);
  // Not the name of its provider, which would take the folder for that of a kernel device.
  const urma_device_t* base = urma_get_device_by_name(behind.data());
  const std::string driver = device->ops->name;
  write_line(to / "driver_name", base != nullptr && driver == base->ops->name ? "alias" : driver);
}

}  // namespace run
