// SPDX-License-Identifier: MIT
//
// Segments that requests name by a user_tseg, or by an import that was granted other memory of the
// token id: imported for the first request that needs them, and kept for the next.
#ifndef JETTY_IMPLICIT_IMPORTS_H_
#define JETTY_IMPLICIT_IMPORTS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "jetty/remote.h"
#include "jetty/send_queue.h"
#include "jetty/work_request.h"

namespace urma {

// What a request wants of a segment.
struct RemoteAccess {
  ImportedSegment** segment;  // replaced if another segment may grant the access
  uint64_t addr;
  uint64_t bytes;
  uint32_t rights;  // URMA_ACCESS_*
};

// Of one send queue, guarded by its lock. `Import` is the provider's type of imported segment.
template <typename Import>
class ImplicitImports {
 public:
  // Imports the described segment for a request, not for a program. Throws Error.
  using Make = std::function<ImportRef<Import>(const urma_seg_t& described, urma_token_t token)>;

  explicit ImplicitImports(Make make) : make_(std::move(make)) {}

  // Finds the segments that a one-sided request names by user_tsegs.
  void look_up(SendEntry* entry, const urma_eid_t& owner) {
    if (entry->remote == nullptr) {
      entry->remote = find(owner, entry->key, entry->remote_addr, entry->bytes, /*access=*/0);
    }
    if (entry->kind == OpKind::kWriteNotify && entry->notified == nullptr) {
      entry->notified =
          find(owner, entry->notified_key, entry->notified_addr, sizeof(uint64_t), /*access=*/0);
    }
  }

  // Another registration of the token id may grant what the imported one does not.
  void look_elsewhere(const RemoteAccess& access) {
    ImportedSegment* const segment = *access.segment;
    *access.segment = find(segment->seg.ubva.eid, {segment->seg.token_id, segment->token().token},
                           access.addr, access.bytes, access.rights);
    segment->drop_ref();
  }

 private:
  // Each may keep memory of its owner mapped.
  static constexpr size_t kMaxKnown = 64;

  struct Known {
    urma_eid_t owner;
    TokenKey key;
    ImportRef<Import> segment;
  };

  // The segment that holds `bytes` bytes at `addr` and allows `access`, with a reference for the
  // caller. As with every import, only its use shows whether it exists and may be used.
  Import* find(const urma_eid_t& owner, const TokenKey& key, uint64_t addr, uint64_t bytes,
               uint32_t access) {
    const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
      return known.key == key && std::memcmp(&known.owner, &owner, sizeof(owner)) == 0 &&
             known.segment->holds(addr, bytes, access);
    });
    if (found != known_.end()) {
      std::rotate(known_.begin(), found, found + 1);
    } else {
      import(owner, key, addr, bytes);
    }
    known_.front().segment->add_ref();
    return known_.front().segment.get();
  }

  void import(const urma_eid_t& owner, const TokenKey& key, uint64_t addr, uint64_t bytes) {
    // Memory that was registered anew is asked for at the address used now: it may begin elsewhere.
    std::erase_if(known_, [](const Known& known) { return known.segment->stale(); });
    if (known_.size() == kMaxKnown) known_.pop_back();
    ImportRef<Import> segment =
        make_(describe_memory(owner, addr, bytes, key.token_id), urma_token_t{key.token});
    known_.insert(known_.begin(), Known{owner, key, std::move(segment)});
  }

  const Make make_;
  std::vector<Known> known_;  // most recently used first
};

}  // namespace urma

#endif  // JETTY_IMPLICIT_IMPORTS_H_
