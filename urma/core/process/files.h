// SPDX-License-Identifier: MIT
//
// Files of the runtime directory. Each is held by flock while its owner lives; whoever gets the
// lock of one knows that its owner is gone.
#ifndef URMA_CORE_PROCESS_FILES_H_
#define URMA_CORE_PROCESS_FILES_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "urma/base/fd.h"

namespace urma::core {

// Throws Error(URMA_FAIL) with the text of errno, and with the remedy where descriptors have run
// out.
[[noreturn]] void fail_no_fd(const std::string& doing);

// Owns fd; throws as above where it is not valid.
Fd checked_fd(int fd, const std::string& doing);

// The mode of what is made in the directory: what its owner alone may use, or, in one that belongs
// to a group, all who may use that.
mode_t file_mode(int dir);

std::vector<std::string> list_names(int dir);

// Takes the lock of an open file, exclusive or (LOCK_SH) shared. False where others hold it. Throws
// Error(URMA_FAIL), with the path and what to do, where the kernel refuses for another reason: then
// nobody can be told apart from a dead process.
bool try_flock(int fd, int operation, const std::string& path);

// Locks a file whose owner is gone. Nothing where the file is missing or its owner lives.
std::optional<Fd> lock_abandoned(int dir, const std::string& name);

// True where a living process holds the file.
bool is_held(int dir, const std::string& name);

void remove_if_abandoned(int dir, const std::string& name);

// A new file under a name that only the caller uses, locked, with this content; to be given its
// real name by link_as, so that nobody ever sees it unlocked or half written.
class LockedFile {
 public:
  LockedFile(int dir, std::string temporary_name, const std::string& content);
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  ~LockedFile();

  // False where the name is taken.
  bool link_as(const std::string& name);
  // The descriptor that holds the lock.
  Fd release() { return std::move(fd_); }

 private:
  void create();

  int dir_;
  std::string temporary_name_;
  std::string content_;
  Fd fd_;
};

// Reserves a name for as long as the descriptor is open. Throws Error(URMA_EEXIST) where a living
// process holds it; `what` says it for people.
Fd reserve_name(int dir, const std::string& name, const std::string& temporary_name,
                const std::string& content, const std::string& what);

// The first bytes of a small file; nothing where it cannot be read.
std::optional<std::string> read_small_file(int dir, const std::string& name);

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_FILES_H_
