// SPDX-License-Identifier: MIT
#include "urma/providers/bond/ids.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "jetty/network.h"
#include "urma/base/error.h"
#include "urma/providers/shm/protocol.h"

namespace urma::bond {
namespace {

// Of the file: blocks, then the ids of each kind that are not handed out of a block.
constexpr uint32_t bit_of_block(uint32_t block) { return block; }
constexpr uint32_t bit_of_id(IdKind kind, uint32_t id) {
  return kBlocks + static_cast<uint32_t>(kind) * (kMaxChosenId + 1) + id;
}

// Behind the bits: which users its process admits.
constexpr off_t kUsersAt = 64 << 10, kMostUsers = 64 << 10;
static_assert(bit_of_id(IdKind::kToken, kMaxChosenId) / 8 < kUsersAt);

// How many blocks are tried for an id.
constexpr uint32_t kMostRefused = 64;

// Others look for these, or see them as the sender of a message. Ids of JFCs do not leave the
// directory.
bool is_known_elsewhere(IdKind kind) { return kind == IdKind::kJfs || is_asked_for(kind); }

// False also behind its end.
bool has_bit(int file, uint32_t bit) {
  uint8_t byte = 0;
  return ::pread(file, &byte, 1, bit / 8) == 1 && (byte >> bit % 8 & 1) != 0;
}

}  // namespace

Ids::Ids(Runtime* runtime, const urma_eid_t& eid, PortNames* names)
    : runtime_(runtime),
      eid_(eid),
      names_(names),
      eid_index_(static_cast<uint32_t>(runtime->all_eids().size() - 1)),
      tokens_(kMaxTokens) {}

Ids::~Ids() { stop(); }

// Removed with the sockets of the process, however it ends. Processes of another version or
// architecture would refuse each other by shared memory, and find no files of each other.
std::string Ids::file_of(uint32_t slot, const urma_eid_t& eid) const {
  const std::string name = urma::format("bond{}-{}", shm::kProtocolVersion, hex_of(eid));
  return runtime_->socket_name(slot, name.c_str());
}

bool Ids::start(uint32_t number) {
  // What an earlier start has left that the caller could not use.
  stop();
  try {
    make_file();
    if (number == 0) {
      number = runtime_->alloc_id(IdKind::kJfc);
    } else {
      runtime_->reserve_id(IdKind::kJfc, eid_index_, number);
    }
    number_ = number;
    show(bit_of_id(IdKind::kToken, number_), true);
    return true;
  } catch (const Error& error) {
    stop();
    if (error.status() == URMA_EEXIST) return false;
    throw;
  }
}

// Only this process writes to it. The name may have been guessed, and be that of a file that
// another user has made.
void Ids::make_file() {
  const std::string name = file_of(runtime_->slot(), eid_);
  const mode_t mode = runtime_->file_mode() & ~mode_t{S_IWGRP};
  ::unlinkat(runtime_->dir_fd(), name.c_str(), 0);
  file_.reset(::openat(runtime_->dir_fd(), name.c_str(),
                       O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  const std::string users = runtime_->peer_users();
  // The program's umask may have removed bits.
  if (!file_.valid() || ::fchmod(file_.get(), mode) != 0 ||
      ::pwrite(file_.get(), users.data(), users.size(), kUsersAt) !=
          static_cast<ssize_t>(users.size())) {
    fail_errno(URMA_FAIL, urma::format("making {}/{}", runtime_->path(), name));
  }
}

void Ids::stop() {
  if (file_.valid()) ::unlinkat(runtime_->dir_fd(), file_of(runtime_->slot(), eid_).c_str(), 0);
  file_.reset();
  if (number_ != 0) runtime_->free_id(IdKind::kJfc, eid_index_, number_);
  number_ = 0;
}

void Ids::show(uint32_t bit, bool served) {
  uint8_t byte = 0;
  // Behind its end there is nothing to read.
  if (::pread(file_.get(), &byte, 1, bit / 8) < 0) byte = 0;
  const auto mask = static_cast<uint8_t>(1U << bit % 8);
  byte = served ? byte | mask : byte & static_cast<uint8_t>(~mask);
  if (::pwrite(file_.get(), &byte, 1, bit / 8) == 1 || !served) return;
  fail_errno(URMA_ENOMEM,
             urma::format("writing to {}/{}", runtime_->path(), file_of(runtime_->slot(), eid_)));
}

uint32_t Ids::take(IdKind kind, uint32_t chosen) {
  if (kind == IdKind::kToken) {
    const auto index = tokens_.take();
    if (!index) fail(URMA_ENOMEM, "all {} token ids are in use; free some", kMaxTokens);
    return number_ << 16 | *index;
  }
  const MutexLock lock(mutex_);
  if (chosen == 0) return alloc(kind);
  choose(kind, chosen);
  return chosen;
}

// Those that a process of another directory has, on this host, stay taken until there is another.
// That is not for long, nor for many: others of this directory need ids, too.
uint32_t Ids::alloc(IdKind kind) {
  struct Unusable {
    ~Unusable() {
      for (const uint32_t id : list) ids->runtime_->free_id(kind, ids->eid_index_, id);
    }
    Ids* ids;
    IdKind kind;
    std::vector<uint32_t> list;
  } unusable = {this, kind, {}};
  std::set<uint32_t> refused;
  while (refused.size() < kMostRefused) {
    const uint32_t id = runtime_->alloc_id(kind);
    unusable.list.push_back(id);
    if (refused.contains(block_of(id))) continue;
    if (!is_known_elsewhere(kind) || serve(kind, id)) {
      unusable.list.pop_back();
      return id;
    }
    if (!blocks_.contains(block_of(id))) refused.insert(block_of(id));
  }
  fail(URMA_ENOMEM,
       "the network has no ids left: those of {} blocks, or their ports, are taken by processes of "
       "other runtime directories of this host; delete some objects, or give more ports by "
       "URMA_TCP_PORT",
       kMostRefused);
}

bool Ids::serve(IdKind kind, uint32_t id) {
  const uint32_t block = block_of(id);
  if (!blocks_.contains(block) && !claim(block)) return false;
  if (names_ != nullptr && names_->reserved_elsewhere(kind, id)) {
    drop_unused(block);
    return false;
  }
  ++blocks_[block];
  return true;
}

// False if a process of another directory has it.
bool Ids::claim(uint32_t block) {
  if (names_ != nullptr && !names_->claim(block)) return false;
  try {
    show(bit_of_block(block), true);
  } catch (...) {
    if (names_ != nullptr) names_->release(block);
    throw;
  }
  const uint32_t before = last_block_;
  blocks_[block] = 0;
  last_block_ = block;
  drop_unused(before);
  return true;
}

// The last one stays, so that peers learn from this process, and at once, that an id is gone.
void Ids::drop_unused(uint32_t block) {
  const auto unused = blocks_.find(block);
  if (unused == blocks_.end() || unused->second != 0 || block == last_block_) return;
  show(bit_of_block(block), false);
  if (names_ != nullptr) names_->release(block);
  blocks_.erase(unused);
}

void Ids::choose(IdKind kind, uint32_t id) {
  runtime_->reserve_id(kind, eid_index_, id);
  try {
    if (!is_known_elsewhere(kind)) return;
    if (names_ != nullptr) reserve_name(kind, id);
    chosen_.emplace(kind, id);
    show(bit_of_id(kind, id), true);
  } catch (...) {
    if (chosen_.erase({kind, id}) != 0 && names_ != nullptr) names_->unreserve(kind, 0, id);
    runtime_->free_id(kind, eid_index_, id);
    throw;
  }
}

void Ids::reserve_name(IdKind kind, uint32_t id) {
  names_->reserve(kind, 0, id);
  try {
    // Another process may hand it out.
    if (blocks_.contains(block_of(id)) || !names_->is_claimed(block_of(id))) return;
    fail(URMA_EEXIST, "id {} is reserved by a running process of this host; choose another", id);
  } catch (...) {
    names_->unreserve(kind, 0, id);
    throw;
  }
}

void Ids::free(IdKind kind, uint32_t id) {
  if (kind == IdKind::kToken) return tokens_.give_back(id & 0xffff);
  const MutexLock lock(mutex_);
  if (is_known_elsewhere(kind)) dismiss(kind, id);
  runtime_->free_id(kind, eid_index_, id);
}

void Ids::dismiss(IdKind kind, uint32_t id) {
  if (chosen_.erase({kind, id}) != 0) {
    show(bit_of_id(kind, id), false);
    if (names_ != nullptr) names_->unreserve(kind, 0, id);
    return;
  }
  const auto block = blocks_.find(block_of(id));
  if (block == blocks_.end()) return;
  --block->second;
  drop_unused(block->first);
}

std::optional<uint32_t> Ids::owner_slot(IdKind kind, const urma_eid_t& eid, uint32_t id) const {
  const bool token = kind == IdKind::kToken;
  const uint32_t number = token ? id >> 16 : id;
  const auto slot =
      runtime_->owner_slot(token ? IdKind::kJfc : kind, runtime_->all_eids().back(), number);
  if (!slot.has_value()) return std::nullopt;
  const Fd file(::openat(runtime_->dir_fd(), file_of(*slot, eid).c_str(),
                         O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) {
    // The choice of a way stands: it must not depend on a shortage.
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
      fail_errno(URMA_FAIL, urma::format("asking {} who has id {:#x}", runtime_->path(), id));
    }
    return std::nullopt;
  }
  // Only if neither would refuse the other. What a stranger has written is not read.
  struct stat info;
  if (::fstat(file.get(), &info) != 0 || !runtime_->admits(info.st_uid)) return std::nullopt;
  std::string users(std::clamp<off_t>(info.st_size - kUsersAt, 0, kMostUsers), 0);
  if (::pread(file.get(), users.data(), users.size(), kUsersAt) < 0 ||
      !runtime_->is_admitted_by(info.st_uid, users)) {
    return std::nullopt;
  }
  const bool served = has_bit(file.get(), bit_of_id(kind, number)) ||
                      (!token && has_bit(file.get(), bit_of_block(block_of(number))));
  return served ? slot : std::nullopt;
}

}  // namespace urma::bond
