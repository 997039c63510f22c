// SPDX-License-Identifier: MIT
//
// The owners of ids on this machine. A few ports follow from an id, and its owner listens at one of
// them: so an EID and an id lead to the process. The ports of a block's first id are the block's. A
// token id is the port of its process, and an index.
#ifndef URMA_PROVIDERS_TCP_NAMES_H_
#define URMA_PROVIDERS_TCP_NAMES_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "jetty/wire.h"
#include "urma/base/id_blocks.h"
#include "urma/base/id_pool.h"
#include "urma/base/mutex.h"
#include "urma/base/own_fd.h"
#include "urma/providers/tcp/carrier.h"

namespace urma::tcp {

struct PortRange {
  uint16_t first;
  uint16_t last;

  uint32_t size() const { return uint32_t{last} - first + 1; }
};

// Where the owner of an id may listen, in search order.
std::vector<uint16_t> ports_of(const PortRange& range, IdKind kind, uint32_t id);

// Any thread.
class Names final : public WireNames, private IdClaims {
 public:
  Names(std::vector<urma_eid_t> eids, const PortRange& range, uint64_t random);

  // Before any id is taken.
  void start(Carrier* carrier) { carrier_ = carrier; }
  const PortRange& range() const { return range_; }

  // Whether this process owns the id.
  bool owns(IdKind kind, const urma_eid_t& eid, uint32_t id) const;
  bool is_own(const urma_eid_t& eid) const;

  std::span<const urma_eid_t> eids() const override { return eids_; }
  uint32_t take_id(IdKind kind, uint32_t eid_index, uint32_t chosen) override;
  void free_id(IdKind kind, uint32_t eid_index, uint32_t id) override;

 private:
  struct Name {
    OwnFd claim;
    uint16_t port;  // 0: nobody asks for this kind
  };

  bool claim(uint32_t block) override;
  void release(uint32_t block) override;
  bool join(uint32_t block) override;
  void leave(uint32_t /*block*/) override {}
  void reserve(IdKind kind, uint32_t eid_index, uint32_t id) override;
  void unreserve(IdKind kind, uint32_t eid_index, uint32_t id) override;
  bool reserved_elsewhere(IdKind kind, uint32_t id) override;

  uint16_t take_port(uint32_t id) URMA_REQUIRES(mutex_);
  void drop_port(uint16_t port) URMA_REQUIRES(mutex_);

  const std::vector<urma_eid_t> eids_;
  const PortRange range_;
  Carrier* carrier_ = nullptr;
  IdBlocks ids_;
  IdPool tokens_;
  mutable Mutex mutex_;
  std::map<uint16_t, uint32_t> ports_ URMA_GUARDED_BY(mutex_);  // how many names each has
  std::map<uint32_t, Name> blocks_ URMA_GUARDED_BY(mutex_);
  std::map<std::tuple<IdKind, uint32_t, uint32_t>, Name> chosen_
      URMA_GUARDED_BY(mutex_);  // kind, id, EID index
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_NAMES_H_
