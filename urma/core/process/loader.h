// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_LOADER_H_
#define URMA_CORE_PROCESS_LOADER_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "urma/base/host.h"
#include "urma/base/mutex.h"
#include "urma_ext.h"

namespace urma::core {

// Absolute path of the file that this code was loaded from. First called when the library is
// loaded: the dynamic linker may return a path relative to the working directory at that time.
const std::string& library_path();

// The provider modules, and the providers that registered themselves.
class Loader {
 public:
  // Opens every module found, and calls our own. Logs and skips failures.
  void load(const urma_host* table);
  void unload();
  // The files that the last load() skipped, with the reasons.
  std::vector<urma_ext_provider_t> skipped() const;

  // Providers of foreign modules, and of the program itself. They outlive unload() unless their
  // module is really unloaded: a constructor does not run again in a module that stays.
  std::vector<urma_provider_ops_t*> foreign_providers() const;
  void add_foreign(urma_provider_ops_t* ops);
  void remove_foreign(urma_provider_ops_t* ops);

 private:
  using FileId = std::pair<dev_t, ino_t>;
  struct Module {
    std::string path;
    FileId file;
    void* handle;
  };
  struct Foreign {
    urma_provider_ops_t* ops;
    std::optional<FileId> module;  // none: registered outside of load()
  };

  void load_dir(const std::string& dir, const urma_host* table);
  void load_module(const std::string& path, const urma_host* table);
  // The second without a log line.
  void skip(const std::string& path, const std::string& reason);
  void remember(const std::string& path, const std::string& reason);
  bool has_foreign_of(const FileId& file) const;

  std::vector<Module> modules_;
  mutable Mutex foreign_mutex_;
  std::vector<Foreign> foreign_ URMA_GUARDED_BY(foreign_mutex_);
  std::optional<FileId> loading_ URMA_GUARDED_BY(foreign_mutex_);
  mutable Mutex skipped_mutex_;
  std::vector<urma_ext_provider_t> skipped_ URMA_GUARDED_BY(skipped_mutex_);
};

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_LOADER_H_
