// SPDX-License-Identifier: MIT
//
// The sending half of a JFS or jetty: takes work requests in and hands each to the path of its
// target.
#ifndef URMA_PROVIDERS_LOCAL_SENDER_H_
#define URMA_PROVIDERS_LOCAL_SENDER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "jetty/send_queue.h"
#include "urma/providers/local/path.h"
#include "urma/providers/local/remote.h"

namespace urma::local {

class Transport;

class Sender {
 public:
  Sender(Transport* transport, const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
         const urma_jetty_id_t& id);
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  urma_status_t post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr);

  // By the service thread, once a while: goes on with what waits to be executed, unless the program
  // polls. True where something still waits.
  bool serve();

  // Returns when nobody is copying from or to memory that is no longer registered.
  void quiesce();

  SendQueue& queue() { return queue_; }
  Transport& transport() { return *transport_; }
  const urma_jfs_cfg_t& config() const { return cfg_; }
  const urma_jetty_id_t& id() const { return id_; }

 private:
  urma_status_t post_one(const urma_jfs_wr_t& wr);
  urma_status_t fill(const urma_jfs_wr_t& wr, const RequestView& view, SendEntry* entry);
  QueuePath* path_to(RemoteQueue* target);

  Transport* transport_;
  const urma_jfs_cfg_t cfg_;
  const urma_jetty_id_t id_;
  SendQueue queue_;
  std::vector<std::unique_ptr<QueuePath>> paths_;  // guarded by the queue's lock
  QueuePath* last_path_ = nullptr;
  std::atomic<bool> pending_{false};
  uint64_t polls_seen_ = 0;
};

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_SENDER_H_
