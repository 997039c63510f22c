// SPDX-License-Identifier: MIT
//
// The process's part of the runtime directory, as modules see it: its slot, its ids, the EID table.
// Processes that share the directory share the EIDs and find each other by (EID, id).
#ifndef URMA_BASE_RUNTIME_H_
#define URMA_BASE_RUNTIME_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "urma_types.h"

namespace urma {

enum class IdKind : uint32_t { kJfc, kJfs, kJfr, kJetty, kGroup, kToken };
inline constexpr uint32_t kIdKinds = 6;

// The greatest id of a queue or group: programs compare ids with max_jetty, and index arrays by
// them. Token ids are above it: slot << 16 | index.
inline constexpr uint32_t kMaxChosenId = 65535;

class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual int dir_fd() const = 0;  // open on the runtime directory
  virtual const std::string& path() const = 0;
  // The mode of sockets and files made in it.
  virtual mode_t file_mode() const = 0;
  // Whether a process of this user may be a peer.
  virtual bool admits(uid_t user) const = 0;
  // The users that it admits besides its own and root, for other processes to read.
  virtual std::string peer_users() const = 0;
  // Whether a process of this user, with those peer_users(), admits this process, and can open what
  // it makes in the directory. The text may be anything.
  virtual bool is_admitted_by(uid_t user, std::string_view peer_users) const = 0;
  virtual uint32_t slot() const = 0;   // 1..65535, held by flock while the process lives
  virtual uint32_t uasid() const = 0;  // 24 bits, not zero
  virtual uint64_t nonce() const = 0;  // random, one per start of the library
  // Of devices; the index is the eid_index.
  virtual std::span<const urma_eid_t> eids() const = 0;
  // The same, then the one of aggregated devices.
  virtual std::span<const urma_eid_t> all_eids() const = 0;

  // An id that no living object of this kind has, in any process that shares the directory; throws
  // Error(URMA_ENOMEM) if none is left. Freed ids are reused as late as possible, so that a stale
  // id names no object.
  virtual uint32_t alloc_id(IdKind kind) = 0;
  // Reserves an id of 1..kMaxChosenId for this process and EID; throws Error(URMA_EEXIST) if it is
  // taken, or another process may hand it out. Not for kToken.
  virtual void reserve_id(IdKind kind, uint32_t eid_index, uint32_t id) = 0;
  // Frees an id of either of the two above.
  virtual void free_id(IdKind kind, uint32_t eid_index, uint32_t id) = 0;

  // The slot of the process that owns (EID, id); nothing if no living process has it.
  virtual std::optional<uint32_t> owner_slot(IdKind kind, const urma_eid_t& eid, uint32_t id) = 0;

  // Name in dir_fd() of the socket that the process in `slot` serves for `provider`.
  virtual std::string socket_name(uint32_t slot, const char* provider) const = 0;
};

}  // namespace urma

#endif  // URMA_BASE_RUNTIME_H_
