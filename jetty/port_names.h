// SPDX-License-Identifier: MIT
//
// The owners of ids on a machine, for providers whose devices have addresses. An id is a name that
// one process holds. Those that others ask for come with one of a few ports that follow from the
// id, and their owner listens there: so an EID and an id lead to the process.
#ifndef JETTY_PORT_NAMES_H_
#define JETTY_PORT_NAMES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "jetty/eid_table.h"
#include "urma/base/id_blocks.h"
#include "urma/base/id_pool.h"
#include "urma/base/mutex.h"
#include "urma_types.h"

namespace urma {

struct PortRange {
  uint16_t first;
  uint16_t last;

  uint32_t size() const { return uint32_t{last} - first + 1; }
};

// An id has this many ports, so that several processes of a machine can serve ids that share one.
// The ports of a block's first id are the block's: as many blocks share them as there are ports,
// and no others, so that each block may belong to another process.
inline constexpr uint32_t kPortsOfId = 8;
uint16_t port_of(const PortRange& range, uint32_t id, uint32_t index);

// Whether others look for ids of this kind.
bool is_asked_for(IdKind kind);

// Holds names and listens at ports. PortNames calls it with its lock held, except is_claimed(): it
// must not wait for the service thread.
class PortHost {
 public:
  virtual ~PortHost() = default;
  // Holds the name while the pointer lives; NULL if another holds it. Throws Error.
  virtual std::shared_ptr<void> claim(const std::string& name) = 0;
  // Whether anybody holds it. Throws Error.
  virtual bool is_claimed(const std::string& name) = 0;
  // False if another socket has the port.
  virtual bool listen_also(uint16_t port) = 0;
  virtual void stop_listening(uint16_t port) = 0;
};

// No name stands for "a process has chosen an id of this block"; instead each side first takes its
// own, then checks the other: one that chooses an id checks its block, and the owner of a block
// checks each id before handing it out. Thread-safe.
class PortNames final : public IdClaims {
 public:
  // Blocks are of all `eids`, which outlive it, and `block_suffix` ends their names.
  PortNames(PortHost* host, const EidTable& eids, const PortRange& range, std::string block_suffix);

  std::span<const urma_eid_t> eids() const { return eids_.all(); }
  const PortRange& range() const { return range_; }
  // Whether it has the id, of a kind that others ask for.
  bool serves(const urma_eid_t& eid, IdKind kind, uint32_t id) const;
  bool is_own(const urma_eid_t& eid) const { return eids_.has(eid); }
  // Whether any process of this machine, including this one, has claimed the block.
  bool is_claimed(uint32_t block) const { return host_->is_claimed(name_of(block)); }

  bool claim(uint32_t block) override;
  void release(uint32_t block) override { drop(name_of(block)); }
  bool join(uint32_t block) override { return !is_claimed(block); }
  void leave(uint32_t /*block*/) override {}
  // Throws Error(URMA_ENOMEM) if all ports of the id are taken.
  void reserve(IdKind kind, uint32_t eid_index, uint32_t id) override;
  void unreserve(IdKind kind, uint32_t eid_index, uint32_t id) override {
    drop(name_of(kind, eids()[eid_index], id));
  }
  bool reserved_elsewhere(IdKind kind, uint32_t id) override;

 private:
  struct Name {
    std::shared_ptr<void> claim;
    uint16_t port;  // 0: nobody asks for this kind
  };
  enum class Taken { kNow, kByAnother, kWithoutPort };

  static std::string name_of(IdKind kind, const urma_eid_t& eid, uint32_t id);
  std::string name_of(uint32_t block) const;
  // With a port of `id`, if there is one.
  Taken take(const std::string& name, std::optional<uint32_t> id);
  void drop(const std::string& name);
  uint16_t take_port(uint32_t id) URMA_REQUIRES(mutex_);

  PortHost* const host_;
  const EidTable& eids_;
  const PortRange range_;
  const std::string block_suffix_;
  mutable Mutex mutex_;
  std::map<uint16_t, uint32_t> ports_ URMA_GUARDED_BY(mutex_);  // how many names each has
  std::map<std::string, Name> names_ URMA_GUARDED_BY(mutex_);
};

// The ids of one process; a token id is the port of its process, and an index. Thread-safe.
class PortIds {
 public:
  // As of IdBlocks.
  PortIds(IdClaims* claims, uint64_t random) : ids_(claims, random), tokens_(kMaxTokens) {}

  // As of Transport; `port` is that of the process.
  uint32_t take(IdKind kind, uint32_t eid_index, uint32_t chosen, uint16_t port);
  void free(IdKind kind, uint32_t eid_index, uint32_t id);

 private:
  static constexpr uint32_t kMaxTokens = 65535;

  IdBlocks ids_;
  IdPool tokens_;
};

}  // namespace urma

#endif  // JETTY_PORT_NAMES_H_
