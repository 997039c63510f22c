// SPDX-License-Identifier: MIT
//
// Memory of HSA agents as segments: registered, shared with other processes, and copied.
#ifndef URMA_PROVIDERS_ROCM_TRANSPORT_H_
#define URMA_PROVIDERS_ROCM_TRANSPORT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "urma/base/fd.h"
#include "urma/base/mutex.h"
#include "urma/providers/rocm/attachments.h"
#include "urma/providers/rocm/copies.h"
#include "urma/providers/rocm/hsa_api.h"
#include "urma/providers/rocm/places.h"
#include "urma/providers/shm/opaque_memory.h"
#include "urma/providers/shm/transport.h"

namespace urma::rocm {

struct Segment;

// Memory that the runtime has allocated, until it is freed.
struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;
  uint64_t generation = 0;
  hsa_agent_t agent = {};
  bool host_memory = false;
  Places::Id place = 0;
  // How others reach it; made when the first segment grants something.
  bool shared = false;
  hsa_amd_ipc_memory_t handle = {};
  Fd dmabuf;
  uint64_t dmabuf_offset = 0;
  // Guarded by the transport's mutex.
  std::vector<Segment*> segments;
};

// A signal that other processes may attach.
struct SharedSignal {
  hsa_amd_ipc_signal_t handle = {};
  uint64_t generation = 0;
  alignas(kSignalBytes) char name[kSignalBytes] = {};  // its address is the name that peers use
};

struct Segment : urma::Segment {
  std::shared_ptr<Allocation> allocation;  // of device memory
  std::unique_ptr<SharedSignal> signal;    // where it is not memory at all
  void* locked = nullptr;                  // host memory, at the program's address
  Places::Id place = 0;
};

struct TransportSettings {
  bool share;            // whether memory may be shared with other processes
  uint64_t patience_ns;  // for an attach
  uint64_t cpu_bytes;    // the CPU copies up to this size itself
};

class Transport final : public shm::Transport {
 public:
  // `runtime` outlives it. Throws Error. Made and destroyed on any thread but the service thread.
  Transport(const urma_host& host, const HsaRuntime* runtime, const TransportSettings& settings);
  ~Transport() override { stop(); }

  Copies* copies() { return &copies_; }
  // Makes a handle for it, which a segment then stands for. Throws Error.
  std::unique_ptr<SharedSignal> share_signal(hsa_signal_t signal);
  std::unique_ptr<urma::Segment> make_segment() override;
  void enter(urma::Segment* segment) override;
  std::unique_ptr<TargetPath> make_path(shm::Sender* sender, RemoteQueue* target,
                                        uint32_t hint) override;
  std::unique_ptr<urma::Sender> make_sender(const urma_jfs_cfg_t& cfg,
                                            const QueueIdentity& identity,
                                            const urma_jetty_id_t& id) override;
  std::unique_ptr<shm::OpaqueLanding> land(std::span<const LocalPiece> receive,
                                           uint32_t bytes) override;
  void describe(const urma::Segment& segment,
                const std::function<void(std::span<const int> fds)>& send) override;
  void attach(const std::shared_ptr<shm::Link>& link, const SegmentGrant& granted, Attached& fds,
              shm::OnAttached attached) override;
  uint64_t attach_ns() const override { return settings_.patience_ns; }

 private:
  void service_ends() override;
  void let_go(urma::Segment* segment) override;
  // Finds out whose memory it is, and sets opaque_len.
  void claim(Segment* segment);
  static void on_freed(void* base, void* transport);
  void freed(uint64_t base);
  void lock_host_memory(Segment* segment);
  std::shared_ptr<Allocation> allocation_of(const hsa_amd_pointer_info_t& info)
      URMA_REQUIRES(mutex_);
  void share(Allocation* allocation) URMA_REQUIRES(mutex_);
  void forget(const std::shared_ptr<Allocation>& allocation) URMA_REQUIRES(mutex_);

  const TransportSettings settings_;
  Copies copies_;
  Attachments attachments_;

  Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Allocation>> allocations_ URMA_GUARDED_BY(mutex_);
  uint64_t generations_ URMA_GUARDED_BY(mutex_) = 0;
};

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_TRANSPORT_H_
