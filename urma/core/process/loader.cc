// SPDX-License-Identifier: MIT
#include "urma/core/process/loader.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "urma/base/log.h"
#include "urma/base/text.h"

namespace urma::core {
namespace {

namespace fs = std::filesystem;

constexpr char kModulePrefix[] = "liburma";
constexpr char kDefaultModule[] = "/liburma-shm.so";
constexpr char kBondModule[] = "/liburma-bond.so";

std::string find_library_path() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&library_path), &info) == 0) return "";
  std::error_code error;
  return fs::absolute(info.dli_fname, error).string();
}

bool is_dir(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::vector<std::string> module_dirs() {
  std::vector<std::string> dirs;
  std::istringstream extra(host()->settings->text("URMA_PROVIDER_PATH"));
  for (std::string dir; std::getline(extra, dir, ':');) {
    if (!dir.empty()) dirs.push_back(dir);
  }
  fs::path own = fs::path(library_path()).parent_path() / "urma";
  if (!is_dir(own)) {
    std::error_code error;
    own = fs::canonical(library_path(), error).parent_path() / "urma";
  }
  dirs.push_back(own.string());
  return dirs;
}

// True if dlclose left the file loaded, or the program loaded it too.
bool is_loaded(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  ::dlclose(handle);
  return true;
}

// Other files beside the modules (build leftovers, notes) are skipped silently.
bool is_elf_file(const std::string& path) {
  char magic[4] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic, sizeof(magic)) && std::memcmp(magic, "\177ELF", sizeof(magic)) == 0;
}

// Whether dlopen failed because another library is missing: its text names that library, not the
// module.
bool lacks_library(const std::string& path, const std::string& reason) {
  return reason.find("cannot open shared object file") != std::string::npos &&
         reason.rfind(path, 0) != 0;
}

}  // namespace

const std::string& library_path() {
  static const auto& path = *new std::string(find_library_path());
  return path;
}

void Loader::load(const urma_host* table) {
  {
    const MutexLock lock(skipped_mutex_);
    skipped_.clear();
  }
  for (const auto& dir : module_dirs()) load_dir(dir, table);
}

void Loader::load_dir(const std::string& dir, const urma_host* table) {
  std::vector<std::string> paths;
  std::error_code error;
  auto entry = fs::directory_iterator(dir, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().filename().string().rfind(kModulePrefix, 0) == 0) {
      paths.push_back(entry->path().string());
    }
  }
  if (error) URMA_LOG(INFO, "no provider modules in {}: {}", dir, error.message());
  // Same order everywhere, and the default provider first, for programs that open the first device.
  std::sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
    return std::pair(!a.ends_with(kDefaultModule), a) < std::pair(!b.ends_with(kDefaultModule), b);
  });
  const bool bonded = host()->settings->text("URMA_BOND") != "none";
  for (const auto& path : paths) {
    // It holds the code of two other modules: nothing of it is in a process that does not want it.
    if (!bonded && path.ends_with(kBondModule)) continue;
    const auto real = fs::canonical(path, error);
    if (error) {
      skip(path, error.message());
    } else if (!fs::is_regular_file(real, error)) {
      continue;
    } else if (!is_elf_file(real.string())) {
      URMA_LOG(INFO, "{} is not a provider module: not an ELF file", path);
      if (path.ends_with(".so")) remember(path, "not an ELF file");
    } else {
      load_module(real.string(), table);
    }
  }
}

void Loader::load_module(const std::string& path, const urma_host* table) {
  struct stat info, own;
  if (::stat(path.c_str(), &info) != 0) return;
  const FileId file{info.st_dev, info.st_ino};
  // The directory of providers may be that of the library itself.
  if (::stat(library_path().c_str(), &own) == 0 && file == FileId{own.st_dev, own.st_ino}) return;
  for (const auto& module : modules_) {
    if (module.file == file) return;
  }

  {
    const MutexLock lock(foreign_mutex_);
    loading_ = file;
  }
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  {
    const MutexLock lock(foreign_mutex_);
    loading_.reset();
  }
  if (handle == nullptr) {
    const std::string reason = ::dlerror();
    if (!lacks_library(path, reason)) return skip(path, reason);
    // Not every machine has the libraries of every provider.
    URMA_LOG(INFO, "provider module {} is not used: {}", path, reason);
    return remember(path, reason);
  }
  const auto entry = reinterpret_cast<urma_module_entry_fn*>(::dlsym(handle, kModuleEntry));
  const bool usable = entry != nullptr ? entry(kUrmaHostVersion, table) == 0 : has_foreign_of(file);
  if (!usable) {
    skip(path, entry != nullptr ? "it is made for another version of the library"
                                : "it registers no provider");
    ::dlclose(handle);
    return;
  }
  modules_.push_back({path, file, handle});
}

void Loader::skip(const std::string& path, const std::string& reason) {
  URMA_LOG(WARNING, "provider module {} is skipped: {}", path, reason);
  remember(path, reason);
}

void Loader::remember(const std::string& path, const std::string& reason) {
  urma_ext_provider_t skipped = {};
  copy_text(skipped.name, fs::path(path).filename().string());
  copy_text(skipped.path, path);
  copy_text(skipped.reason, reason);
  const MutexLock lock(skipped_mutex_);
  skipped_.push_back(skipped);
}

std::vector<urma_ext_provider_t> Loader::skipped() const {
  const MutexLock lock(skipped_mutex_);
  return skipped_;
}

void Loader::unload() {
  for (auto module = modules_.rbegin(); module != modules_.rend(); ++module) {
    ::dlclose(module->handle);
    if (is_loaded(module->path)) continue;
    const MutexLock lock(foreign_mutex_);
    std::erase_if(foreign_, [&](const auto& foreign) { return foreign.module == module->file; });
  }
  modules_.clear();
}

bool Loader::has_foreign_of(const FileId& file) const {
  const MutexLock lock(foreign_mutex_);
  return std::any_of(foreign_.begin(), foreign_.end(),
                     [&](const auto& foreign) { return foreign.module == file; });
}

std::vector<urma_provider_ops_t*> Loader::foreign_providers() const {
  const MutexLock lock(foreign_mutex_);
  std::vector<urma_provider_ops_t*> providers;
  for (const auto& foreign : foreign_) providers.push_back(foreign.ops);
  return providers;
}

void Loader::add_foreign(urma_provider_ops_t* ops) {
  const MutexLock lock(foreign_mutex_);
  const auto known = std::find_if(foreign_.begin(), foreign_.end(),
                                  [&](const auto& foreign) { return foreign.ops == ops; });
  if (known == foreign_.end()) foreign_.push_back({ops, loading_});
}

void Loader::remove_foreign(urma_provider_ops_t* ops) {
  const MutexLock lock(foreign_mutex_);
  std::erase_if(foreign_, [&](const auto& foreign) { return foreign.ops == ops; });
}

}  // namespace urma::core
