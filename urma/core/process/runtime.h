// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_RUNTIME_H_
#define URMA_CORE_PROCESS_RUNTIME_H_

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "urma/base/id_blocks.h"
#include "urma/base/id_pool.h"
#include "urma/base/own_fd.h"
#include "urma/base/runtime.h"
#include "urma/base/service.h"
#include "urma/core/process/files.h"
#include "urma/core/process/id_file.h"
#include "urma/core/process/janitor.h"
#include "urma/core/process/peer_users.h"
#include "urma/core/process/runtime_dir.h"

namespace urma::core {

// This process's part of the runtime directory. To be made and destroyed on the service thread;
// destroying it removes all that it made.
class ProcessRuntime final : public Runtime {
 public:
  // uasid 0: chosen at random. Throws Error(URMA_EEXIST) if the requested one is taken.
  ProcessRuntime(Service& service, const Settings& settings, uint32_t uasid);
  ~ProcessRuntime() override;

  int dir_fd() const override { return dir_.fd.get(); }
  const std::string& path() const override { return dir_.path; }
  mode_t file_mode() const override { return core::file_mode(dir_.fd.get()); }
  bool admits(uid_t user) const override { return peers_.contains(user); }
  std::string peer_users() const override { return peers_.text(); }
  bool is_admitted_by(uid_t user, std::string_view peer_users) const override {
    const bool opens = user == ::geteuid() || (file_mode() & S_IRGRP) != 0;
    return opens && PeerUsers::is_admitted_by(user, peer_users);
  }
  uint32_t slot() const override { return slot_.number; }
  uint32_t uasid() const override { return uasid_; }
  uint64_t nonce() const override { return nonce_; }
  std::span<const urma_eid_t> eids() const override { return all_eids().first(eids_.size() - 1); }
  std::span<const urma_eid_t> all_eids() const override { return eids_; }

  // On the service thread, like everything here.
  Janitor& janitor() { return janitor_; }

  uint32_t alloc_id(IdKind kind) override;
  void reserve_id(IdKind kind, uint32_t eid_index, uint32_t id) override;
  void free_id(IdKind kind, uint32_t eid_index, uint32_t id) override;
  std::optional<uint32_t> owner_slot(IdKind kind, const urma_eid_t& eid, uint32_t id) override;
  std::string socket_name(uint32_t slot, const char* provider) const override;

 private:
  // A locked file of the directory, removed at the end.
  struct Held {
    Held(const RuntimeDir& dir, std::string name, OwnFd fd);
    Held(Held&&) = default;
    ~Held();
    int dir;
    std::string name;
    OwnFd fd;
  };
  struct Slot {
    uint32_t number;
    Held file;
  };

  static Slot take_slot(const RuntimeDir& dir);
  std::string temporary_name();
  uint32_t reserve_uasid(uint32_t wished);
  void reserve_uasid_number(uint32_t number);

  // In order of creation; the slot is removed last and stays locked until then.
  const PeerUsers peers_;
  RuntimeDir dir_;
  Slot slot_;
  std::atomic<uint64_t> temporary_names_{0};
  const uint64_t nonce_;
  const std::vector<urma_eid_t> eids_;
  std::shared_ptr<void> uasid_name_;  // unique on this host
  std::optional<Held> uasid_file_;    // for processes of this directory
  uint32_t uasid_;
  IdFile id_file_;
  IdBlocks ids_;
  IdPool tokens_;
  Janitor janitor_;
};

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_RUNTIME_H_
