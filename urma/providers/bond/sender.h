// SPDX-License-Identifier: MIT
//
// The sending half of a JFS or jetty whose targets are in this directory or behind the network.
#ifndef URMA_PROVIDERS_BOND_SENDER_H_
#define URMA_PROVIDERS_BOND_SENDER_H_

#include <cstdint>
#include <memory>

#include "jetty/wire_engine.h"
#include "jetty/wire_path.h"
#include "urma/providers/shm/path.h"
#include "urma/providers/shm/sender.h"

namespace urma::bond {

class Transport;

// Both find the segments of requests that were imported the other way by a way of their own: an
// owner may have been here, or not, when the program imported them.
class NearPath : public shm::QueuePath {
 public:
  using QueuePath::QueuePath;

 protected:
  void look_up(SendEntry* entry) override;

 private:
  // Another process may have the id now, be it here or behind the network.
  void ring_lost(bool nobody) override { nobody ? give_up_target() : give_up(); }
  void memory_lost(const ImportedSegment& segment) override { give_up_memory(segment); }
};

class FarPath : public WirePath {
 public:
  using WirePath::WirePath;
  // Cold, as all of a network is beside a ring: so the compiler expects that of NearPath, and a
  // poll of near peers makes no virtual call.
  [[gnu::cold]] bool advance() override { return advance_way(); }

 protected:
  void look_up(SendEntry* entry) override;
};

class Sender : public shm::Sender {
 public:
  // For FaultySender.
  using OtherPath = FarPath;

  Sender(Transport* transport, const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
         const urma_jetty_id_t& id);
  ~Sender() override { end(); }

  WireHalf& half() { return half_; }

 protected:
  // Whether requests to the target leave by the network.
  bool takes_other_path(const RemoteQueue& target) const;
  std::unique_ptr<TargetPath> make_path(RemoteQueue* target, uint32_t hint) override;

 private:
  static bool is_far(const TargetPath& path) { return !path.is_near(); }

  shm::QueuePath* as_ring_path(TargetPath* path) const override {
    return is_far(*path) ? nullptr : static_cast<shm::QueuePath*>(path);
  }
  void go_on_posted(TargetPath* path) override URMA_REQUIRES(lock());
  void end_post() override URMA_REQUIRES(lock());
  void push_last() URMA_REQUIRES(lock());

  Transport* const transport_;
  WireHalf half_;
  // What was posted to it leaves together with what follows. It may have gone meanwhile.
  const TargetPath* last_far_ URMA_GUARDED_BY(lock()) = nullptr;
};

}  // namespace urma::bond

#endif  // URMA_PROVIDERS_BOND_SENDER_H_
