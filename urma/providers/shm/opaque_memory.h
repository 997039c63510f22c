// SPDX-License-Identifier: MIT
//
// Memory that the processor must not touch: no process maps it, and the kernel does not copy it. A
// provider over these rings implements this if it has such memory, and a runtime that moves it.
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
class Sender;
struct QueueIdentity;
}  // namespace urma

namespace urma::shm {

class Link;

// A peer's memory that is attached here. The last reference detaches it.
class OpaqueView {
 public:
  virtual ~OpaqueView() = default;
  // Where the segment begins in this process.
  virtual char* start() const = 0;
  // Whether plain loads and stores reach it all the same, with atomics that are atomic with those
  // of all others.
  virtual bool is_host_memory() const = 0;
};

// Where a message for a receive in such memory is gathered. Once it is destroyed, the receive is no
// longer written.
class OpaqueLanding {
 public:
  virtual ~OpaqueLanding() = default;
  // Room for the message.
  virtual char* data() const = 0;
  // Whether the memory of the receive is still registered.
  virtual bool stands() const = 0;
  // Call once all of the message lies there: moves it to the receive. False while that is in
  // progress; *status then says how it ended. Does not throw.
  virtual bool landed(urma_cr_status_t* status) = 0;
};

// Any thread, and may throw Error, except where marked.
class OpaqueMemory {
 public:
  virtual ~OpaqueMemory() = default;

  virtual std::unique_ptr<Segment> make_segment() = 0;
  // Before the table takes the segment in: finds out whose memory it is, and sets opaque_len.
  virtual void enter(Segment* segment) = 0;
  // After it has left the table: returns when nothing is copied from or to it. Does not throw.
  virtual void leave(Segment* segment) = 0;

  // A sender for all requests, those from and to such memory too: it derives from shm::Sender, and
  // its paths from QueuePath.
  virtual std::unique_ptr<urma::Sender> make_sender(const urma_jfs_cfg_t& cfg,
                                                    const QueueIdentity& identity,
                                                    const urma_jetty_id_t& id) = 0;
  // For a message of `bytes` bytes. NULL if part of the receive cannot be written.
  virtual std::unique_ptr<OpaqueLanding> land(std::span<const LocalPiece> receive,
                                              uint32_t bytes) = 0;

  // Calls send(fds) with the descriptors that describe a segment with opaque_len to an importer;
  // they are open during the call. Does not call it if the segment cannot be shared. Service
  // thread.
  virtual void describe(const Segment& segment,
                        const std::function<void(std::span<const int> fds)>& send) = 0;
  // With the descriptors from a peer's describe(): attaches its memory, under a time limit, and
  // then calls attached(view, status) on the service thread, exactly once: a view, or why there is
  // none. Memory that was attached over the same link is not attached again. Service thread.
  using OnAttached =
      std::function<void(std::shared_ptr<const OpaqueView> view, urma_cr_status_t status)>;
  virtual void attach(const std::shared_ptr<Link>& link, const SegmentGrant& granted, Attached& fds,
                      OnAttached attached) = 0;
  // The time limit of attach().
  virtual uint64_t patience_ns() const = 0;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_OPAQUE_MEMORY_H_
