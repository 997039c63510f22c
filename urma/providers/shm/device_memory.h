// SPDX-License-Identifier: MIT
//
// Memory that the CPU may not touch, as that of a GPU: what a provider brings that can move it. The
// provider of shared memory brings none.
#ifndef URMA_PROVIDERS_SHM_DEVICE_MEMORY_H_
#define URMA_PROVIDERS_SHM_DEVICE_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>

#include "segment/segment.h"
#include "urma/base/fd.h"
#include "urma_types.h"

namespace urma::shm {

// What the owner of a segment of device memory tells an importer whose token it has checked. A
// descriptor of the memory comes along where there is one.
struct MemoryDescription {
  uint64_t nonce;       // of the owner's start
  uint64_t generation;  // of the allocation, never used again by that owner
  uint64_t offset;      // of the segment in what is shared
  uint64_t bytes;       // of what is shared
  uint32_t handle[8];   // where no descriptor came along
  uint32_t has_fd;
  uint32_t kind;  // of what is shared, as the engine has it; 0: memory
};
static_assert(std::is_trivially_copyable_v<MemoryDescription> && sizeof(MemoryDescription) == 72);

// Memory of a peer that is attached here. Detached with the last reference.
class DeviceView {
 public:
  virtual ~DeviceView() = default;
  // Where the segment begins in this process, for the engine.
  virtual char* start() const = 0;
  // Whether that is host memory: plain loads and stores reach it, and atomics are atomic with those
  // of all others.
  virtual bool is_host_memory() const = 0;
};

// A list of copies under way, and the memory of this library that they need. Whoever lets go of it
// waits until nothing is read or written any more.
class DeviceCopy {
 public:
  virtual ~DeviceCopy() = default;
  // Whether all have ended; *status then says how. Costs one load for each that has not.
  virtual bool ended(urma_cr_status_t* status) = 0;
  // Has the service thread look after the queues when they have ended.
  virtual void wake_when_ended() = 0;
};

// Host memory of this library that the engine reaches.
class HostBuffer {
 public:
  virtual ~HostBuffer() = default;
  virtual char* data() const = 0;
};

struct CopyPiece {
  char* to;
  const char* from;
  uint64_t bytes;
};

// All but what is marked may be called on any thread, and throws Error.
class DeviceEngine {
 public:
  virtual ~DeviceEngine() = default;

  virtual std::unique_ptr<Segment> make_segment() = 0;
  // Before the table takes the segment in: finds out whose memory it is, and sets device_len.
  virtual void enter(Segment* segment) = 0;
  // Behind it; does not throw.
  virtual void entered(Segment* segment) = 0;
  // After it has left the table: returns when nothing is copied from or to it. Does not throw.
  virtual void leave(Segment* segment) = 0;

  // What an importer is told of a segment with device_len, and the descriptor or -1, which stays
  // the engine's. False where it cannot be shared. Service thread.
  virtual bool describe(const Segment& segment, MemoryDescription* description, int* fd) = 0;
  // Attaches `len` bytes of a peer's memory, under a limit of time, and then calls
  // attached(view, status) on the service thread, exactly once: a view, or why there is none. What
  // was attached of the same connection is not attached again. Service thread.
  using OnAttached =
      std::function<void(std::shared_ptr<const DeviceView> view, urma_cr_status_t status)>;
  virtual void attach(const std::shared_ptr<const void>& connection,
                      const MemoryDescription& description, uint64_t len, Fd fd,
                      OnAttached attached) = 0;
  // How long that takes at most.
  virtual uint64_t patience_ns() const = 0;

  // Begins to copy; where `after` is given, not before that has ended. Each piece is memory of a
  // registered segment or a view, of a HostBuffer, or any other that the CPU may touch.
  virtual std::unique_ptr<DeviceCopy> copy(std::span<const CopyPiece> pieces,
                                           DeviceCopy* after) = 0;
  virtual std::unique_ptr<HostBuffer> buffer(uint64_t bytes) = 0;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_DEVICE_MEMORY_H_
