// SPDX-License-Identifier: MIT
//
// Copies by the runtime's engines, and by the CPU where that is faster.
#ifndef URMA_PROVIDERS_ROCM_COPIES_H_
#define URMA_PROVIDERS_ROCM_COPIES_H_

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "urma/base/mutex.h"
#include "urma/providers/rocm/places.h"
#include "urma/providers/rocm/runtime.h"
#include "urma/providers/rocm/signals.h"
#include "urma_types.h"

namespace urma::rocm {

class Copies;

struct CopyPiece {
  char* to;
  const char* from;
  uint64_t bytes;
};

// Host memory of this library that is locked to all agents.
class Buffer {
 public:
  // Throws Error.
  Buffer(Copies* copies, uint64_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  char* data() const { return data_; }

 private:
  Copies* const copies_;
  const uint64_t bytes_;
  char* data_ = nullptr;
  Places::Id place_ = 0;
};

// A list of copies in progress, and the memory of this library that they need.
class Copy {
 public:
  explicit Copy(Copies* copies) : copies_(copies) {}
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  // Whether all have ended; *status then says how. Costs one load for each that has not.
  bool ended(urma_cr_status_t* status);
  // Has the service thread look at the queues when all have ended.
  void wake_when_ended();
  // Waits until nothing is read or written any more.
  struct End {
    void operator()(Copy* copy) const { copy->end(); }
  };

 private:
  friend class Copies;

  // A copy in progress, with the memory that it uses.
  struct Part {
    Signal* signal;
    uint64_t to;
    uint64_t from;
    uint64_t bytes;
  };
  bool touches(uint64_t begin, uint64_t bytes) const;
  // False if it takes longer than any copy should.
  bool wait();
  void end();

  Copies* const copies_;
  std::list<Copy>::iterator place_;  // in the list of Copies that has it
  std::vector<Part> parts_;
  size_t ended_ = 0;  // of parts_, from the front on
  urma_cr_status_t status_ = URMA_CR_SUCCESS;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

using CopyHandle = std::unique_ptr<Copy, Copy::End>;

class Copies {
 public:
  // `runtime` outlives it. The CPU copies pieces of up to `cpu_bytes` bytes that it may touch.
  // Throws Error.
  Copies(const HsaRuntime* runtime, uint64_t cpu_bytes)
      : runtime_(runtime), cpu_bytes_(cpu_bytes), signals_(&runtime->api()) {}

  const HsaApi& api() const { return runtime_->api(); }
  const Topology& topology() const { return runtime_->topology(); }
  // What the engines reach.
  Places& places() { return places_; }

  // Begins to copy. Each piece is memory of a registered segment or a view, of a Buffer, or other
  // memory that the CPU may touch. Throws Error.
  CopyHandle begin(std::span<const CopyPiece> pieces);
  std::unique_ptr<Buffer> buffer(uint64_t bytes) { return std::make_unique<Buffer>(this, bytes); }
  // Returns when nothing is copied from or to that memory.
  void settle(uint64_t begin, uint64_t bytes);
  int wake_fd() const { return signals_.wake_fd(); }

 private:
  friend class Copy;

  // One end of a piece, as the engine addresses it.
  struct End {
    uint64_t addr;
    hsa_agent_t agent;
  };

  void add_piece(Copy* copy, const CopyPiece& piece);
  End end_of(const Place& place, uint64_t addr) const;
  void start(Copy* copy, const CopyPiece& piece, End to, End from);
  uint32_t engines_between(hsa_agent_t to, hsa_agent_t from) const;

  const HsaRuntime* const runtime_;
  Places places_;
  const uint64_t cpu_bytes_;
  Signals signals_;
  Mutex mutex_;
  std::list<Copy> active_ URMA_GUARDED_BY(mutex_);  // none of them ends while it is held
  std::list<Copy> idle_ URMA_GUARDED_BY(mutex_);    // the next ones, which allocate nothing then
};

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_COPIES_H_
