// SPDX-License-Identifier: MIT
//
// Memory and signals of other processes that are attached here.
#ifndef URMA_PROVIDERS_ROCM_ATTACHMENTS_H_
#define URMA_PROVIDERS_ROCM_ATTACHMENTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "urma/base/fd.h"
#include "urma/base/service.h"
#include "urma/providers/rocm/copies.h"
#include "urma/providers/rocm/hsa_api.h"
#include "urma/providers/rocm/places.h"
#include "urma/providers/rocm/topology.h"
#include "urma/providers/shm/opaque_memory.h"

namespace urma::rocm {

// MemoryDescription::kind.
enum Kind : uint32_t { kMemory = 0, kSignal = 1 };
// Importers see a signal as a segment of this size.
inline constexpr uint64_t kSignalBytes = 8;

// The owner's description of memory for an importer, in memory that both see; a descriptor may come
// along.
struct MemoryDescription {
  uint64_t nonce;       // of the owner's start
  uint64_t generation;  // of the allocation, never used again by that owner
  uint64_t offset;      // of the segment in what is shared
  uint64_t bytes;       // of what is shared
  uint32_t handle[8];   // if no descriptor came along
  uint32_t has_fd;
  uint32_t kind;  // of what is shared: a Kind
};
static_assert(std::is_trivially_copyable_v<MemoryDescription> && sizeof(MemoryDescription) == 72);

// The result of a runtime call on a thread of its own.
struct Outcome {
  void* base = nullptr;  // of a signal: its handle
  uint64_t bytes = 0;
  uint32_t kind = kMemory;
  bool interop = false;  // how it must be released
  std::string why;       // if it could not be attached
};

// One allocation of a peer, attached as a whole, or one signal.
struct PeerMemory {
  Copies* copies;
  // Its address identifies the connection while this is here.
  std::shared_ptr<const void> connection;
  Outcome memory;
  bool host_memory = false;
  Places::Id place = 0;  // of memory

  PeerMemory() = default;
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;
  ~PeerMemory();
};

// All on the service thread.
class Attachments {
 public:
  // Both outlive it.
  Attachments(Copies* copies, Service* service, uint64_t patience_ns);

  void attach(const std::shared_ptr<const void>& connection, const MemoryDescription& description,
              uint64_t len, Fd fd, shm::OnAttached attached);
  // Ends all attempts in progress; what comes later is released.
  void stop();
  // Any thread. For a view that came from here.
  static Kind kind_of(const shm::OpaqueView& view);

 private:
  // The connection, and the generation of the peer's allocation.
  using Key = std::pair<const void*, uint64_t>;
  struct Waiting {
    uint64_t offset;
    uint64_t len;
    shm::OnAttached attached;
  };
  // One call of the runtime in progress.
  struct Attempt {
    std::shared_ptr<const void> connection;
    uint64_t serial;
    Service::TimerId timer;
    std::vector<Waiting> waiting;

    void refuse(urma_cr_status_t why) const {
      for (const Waiting& each : waiting) each.attached(std::nullopt, why);
    }
  };
  // Shared with calls that outlive this object.
  struct Alive;

  void start(const Key& key, const MemoryDescription& description, Fd fd);
  void finish(const Key& key, uint64_t serial, Outcome result);
  void place(PeerMemory* attachment);
  void time_out(const Key& key, uint64_t serial);
  static void answer(const std::shared_ptr<const PeerMemory>& attachment, const Waiting& waiting);

  Copies* const copies_;
  Service* const service_;
  const uint64_t patience_ns_;
  const std::shared_ptr<Alive> alive_;
  uint64_t serials_ = 0;
  std::map<Key, Attempt> attempts_;
  std::map<Key, std::weak_ptr<const PeerMemory>> known_;
};

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_ATTACHMENTS_H_
