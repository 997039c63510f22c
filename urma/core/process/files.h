// SPDX-License-Identifier: MIT
//
// Files of the runtime directory. Each is locked by flock while its owner lives; a process that
// gets the lock knows that the owner has ended.
#ifndef URMA_CORE_PROCESS_FILES_H_
#define URMA_CORE_PROCESS_FILES_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "urma/base/fd.h"
#include "urma/base/own_fd.h"

namespace urma::core {

// Throws Error(URMA_FAIL) with the text of errno, and with a remedy if there are no descriptors
// left.
[[noreturn]] void fail_no_fd(const std::string& doing);

// Owns fd; throws as above if it is not valid.
Fd checked_fd(int fd, const std::string& doing);

// The mode of files made in the directory: for their owner only, or, in a group's directory, for
// the group.
mode_t file_mode(int dir);

std::vector<std::string> list_names(int dir);

// False if the file was unlinked or replaced since it was opened.
bool is_still_named(int dir, const std::string& name, const OwnFd& fd);

// Takes the lock of an open file, exclusive or (LOCK_SH) shared. False if others hold it. Throws
// Error(URMA_FAIL), with the path and a remedy, if the kernel refuses for another reason: then a
// living process cannot be told from a dead one.
bool try_flock(int fd, int operation, const std::string& path);

// Locks a file whose owner has ended. Nothing if the file is missing or its owner lives.
std::optional<OwnFd> lock_abandoned(int dir, const std::string& name);

// True if a living process holds the file.
bool is_held(int dir, const std::string& name);

void remove_if_abandoned(int dir, const std::string& name);

// A new file under a name that only the caller uses, locked, with this content; link_as gives it
// its real name, so that no process sees it unlocked or half written.
class LockedFile {
 public:
  LockedFile(int dir, std::string temporary_name, const std::string& content);
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  ~LockedFile();

  // False if the name is taken.
  bool link_as(const std::string& name);
  // The descriptor that holds the lock.
  OwnFd release() { return std::move(fd_); }

 private:
  void create();

  int dir_;
  std::string temporary_name_;
  std::string content_;
  OwnFd fd_;
};

// Reserves a name while the descriptor is open. Throws Error(URMA_EEXIST) if a living process holds
// it; `what` names it in the text.
OwnFd reserve_name(int dir, const std::string& name, const std::string& temporary_name,
                   const std::string& content, const std::string& what);

// The first bytes of a small file; nothing if it cannot be read.
std::optional<std::string> read_small_file(int dir, const std::string& name);

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_FILES_H_
