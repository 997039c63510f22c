// SPDX-License-Identifier: MIT
//
// Memory that the processor must not touch: no process maps it, and the kernel copies none of it.
// A provider over these rings that has such memory, and a runtime that moves it, fills this in.
#ifndef URMA_PROVIDERS_SHM_OPAQUE_MEMORY_H_
#define URMA_PROVIDERS_SHM_OPAQUE_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "jetty/work_request.h"
#include "segment/segment.h"
#include "urma/base/message_socket.h"
#include "urma_types.h"

namespace urma {
class TargetPath;
struct RemoteQueue;
}  // namespace urma

namespace urma::shm {

class Link;
class Sender;

// Memory of a peer that is attached here. Detached with the last reference.
class OpaqueView {
 public:
  virtual ~OpaqueView() = default;
  // Where the segment begins in this process.
  virtual char* start() const = 0;
  // Whether plain loads and stores reach it all the same, and atomics are atomic with those of all
  // others.
  virtual bool is_host_memory() const = 0;
};

// Where a message is gathered whose receive is such memory. Nothing of the receive is written any
// more when it has gone.
class Landing {
 public:
  virtual ~Landing() = default;
  // Room for the message.
  virtual char* data() const = 0;
  // Whether the memory of the receive is still registered.
  virtual bool stands() const = 0;
  // Once all of the message lies there: takes it to the receive. False while that is under way;
  // *status then says how it ended. Does not throw.
  virtual bool landed(urma_cr_status_t* status) = 0;
};

// All but what is marked may be called on any thread, and throws Error.
class OpaqueMemory {
 public:
  virtual ~OpaqueMemory() = default;

  virtual std::unique_ptr<Segment> make_segment() = 0;
  // Before the table takes the segment in: finds out whose memory it is, and sets opaque_len.
  virtual void enter(Segment* segment) = 0;
  // After it has left the table: returns when nothing is copied from or to it. Does not throw.
  virtual void leave(Segment* segment) = 0;

  // A path for requests from and to such memory, and all others: it derives from QueuePath.
  virtual std::unique_ptr<TargetPath> make_path(Sender* sender, RemoteQueue* target,
                                                uint32_t hint) = 0;
  // For a message of so many bytes. NULL where not all of the receive can be written.
  virtual std::unique_ptr<Landing> land(std::span<const LocalPiece> receive, uint32_t bytes) = 0;

  // Calls send(fds) with the descriptors that tell an importer of a segment with opaque_len; they
  // are open meanwhile. Not where it cannot be shared. Service thread.
  virtual void describe(const Segment& segment,
                        const std::function<void(std::span<const int> fds)>& send) = 0;
  // What came so of a peer: attaches its memory, under a limit of time, and then calls
  // attached(view, status) on the service thread, exactly once: a view, or why there is none. What
  // was attached over the same link is not attached again. Service thread.
  using OnAttached =
      std::function<void(std::shared_ptr<const OpaqueView> view, urma_cr_status_t status)>;
  virtual void attach(const std::shared_ptr<Link>& link, const SegmentGrant& granted, Attached& fds,
                      OnAttached attached) = 0;
  // How long that takes at most.
  virtual uint64_t patience_ns() const = 0;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_OPAQUE_MEMORY_H_
