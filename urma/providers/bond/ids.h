// SPDX-License-Identifier: MIT
//
// Ids that hold in the runtime directory and on the network at once, and who of the directory owns
// one.
#ifndef URMA_PROVIDERS_BOND_IDS_H_
#define URMA_PROVIDERS_BOND_IDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "jetty/port_names.h"
#include "urma/base/fd.h"
#include "urma/base/id_pool.h"
#include "urma/base/mutex.h"
#include "urma/base/runtime.h"

namespace urma::bond {

// In the directory, an id is held for the EID of aggregated devices, whatever EID its owner has: so
// chosen ids differ among the processes of a directory. A file there, whose name has the EID of its
// process, has a bit for each id that it serves: a block may be held in the directory for other
// devices, while a process of another directory has it on the network. Token ids are numbered
// within that of their process, which the directory knows as an id of a JFC: it is the port of the
// process, as over the network. Thread-safe.
class Ids {
 public:
  // `names` are those of the network; NULL: there is none.
  Ids(Runtime* runtime, const urma_eid_t& eid, PortNames* names);
  ~Ids();
  Ids(const Ids&) = delete;
  Ids& operator=(const Ids&) = delete;

  // Before the first id is taken: the process has this number, or any if it is 0. False if another
  // process of the directory has it.
  bool start(uint32_t number);
  void stop();

  // As Transport's.
  uint32_t take(IdKind kind, uint32_t chosen);
  void free(IdKind kind, uint32_t id);
  // The slot of the living process of this directory that has this EID and owns the id, if any.
  // Throws Error if there is no descriptor left to find out.
  std::optional<uint32_t> owner_slot(IdKind kind, const urma_eid_t& eid, uint32_t id) const;

 private:
  static constexpr uint32_t kMaxTokens = 65535;

  std::string file_of(uint32_t slot, const urma_eid_t& eid) const;
  void make_file();
  void show(uint32_t bit, bool served);
  uint32_t alloc(IdKind kind) URMA_REQUIRES(mutex_);
  void choose(IdKind kind, uint32_t id) URMA_REQUIRES(mutex_);
  void reserve_name(IdKind kind, uint32_t id) URMA_REQUIRES(mutex_);
  bool serve(IdKind kind, uint32_t id) URMA_REQUIRES(mutex_);
  bool claim(uint32_t block) URMA_REQUIRES(mutex_);
  void drop_unused(uint32_t block) URMA_REQUIRES(mutex_);
  void dismiss(IdKind kind, uint32_t id) URMA_REQUIRES(mutex_);

  Runtime* const runtime_;
  const urma_eid_t eid_;
  PortNames* const names_;
  const uint32_t eid_index_;  // of the EID of aggregated devices
  IdPool tokens_;
  Mutex mutex_;
  // Set before any id is taken.
  uint32_t number_ = 0;
  Fd file_;
  std::map<uint32_t, uint32_t> blocks_ URMA_GUARDED_BY(mutex_);  // ids in use of each claimed one
  uint32_t last_block_ URMA_GUARDED_BY(mutex_) = 0;              // stays claimed
  std::set<std::pair<IdKind, uint32_t>> chosen_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma::bond

#endif  // URMA_PROVIDERS_BOND_IDS_H_
