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
#include "urma/providers/local/implicit_imports.h"
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

  urma_status_t post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept;

  // RC: where everything that is posted from now on goes. `target` stays until unbind().
  void bind(RemoteQueue* target);
  // Ends what is outstanding: what the peer has received with success, the rest with WR_FLUSH_ERR.
  void unbind();

  // Where the contract allows it, see change_allowed(); the same state again changes nothing.
  void set_state(urma_jetty_state_t state);
  urma_jetty_state_t state();
  // urma_flush_*.
  int hand_back(int count, urma_cr_t* cr);
  uint64_t posted();
  uint64_t retired();

  // By the service thread, once a while: goes on with what waits to be executed, unless the program
  // polls. True where something still waits.
  bool serve();
  // By the service thread, at once, where the JFC is armed: nobody polls. True where there is more
  // to do at once.
  bool serve_armed();

  // Returns when nobody is copying from or to memory that is no longer registered.
  void quiesce();

  SendQueue& queue() { return queue_; }
  // Needs the queue's lock.
  ImplicitImports& implicit_imports() { return implicit_imports_; }
  Transport& transport() { return *transport_; }
  const urma_jfs_cfg_t& config() const { return cfg_; }
  const urma_jetty_id_t& id() const { return id_; }

 private:
  // Executes a request at once where that is simple; false: nothing has happened.
  [[gnu::always_inline]] bool post_direct(const urma_jfs_wr_t& wr);
  [[gnu::always_inline]] bool access_direct(const urma_jfs_wr_t& wr);
  [[gnu::always_inline]] bool send_direct(const urma_jfs_wr_t& wr);
  void post_stopped(SendEntry* entry);
  void flush_paths();
  // Lets the service thread go on where nobody polls.
  void look_after();
  [[gnu::noinline]] urma_status_t post_guarded(const urma_jfs_wr_t& wr) noexcept;
  urma_status_t post_one(const urma_jfs_wr_t& wr);
  urma_status_t fill(const urma_jfs_wr_t& wr, const RequestView& view, SendEntry* entry);
  urma_status_t fill_remote(const urma_jfs_wr_t& wr, const RequestView& view, SendEntry* entry);
  bool refused_by_mode(const urma_jfs_wr_t& wr) const;
  RemoteQueue* target_of(const urma_jfs_wr_t& wr) const;
  QueuePath* path_to(RemoteQueue* target);
  QueuePath* path_to_member(RemoteQueue* group, uint32_t hint);
  void make_room(const RemoteQueue* group);
  const CompletionQueue& jfc() const { return *static_cast<const CompletionQueue*>(cfg_.jfc); }

  Transport* transport_;
  const urma_jfs_cfg_t cfg_;
  const urma_jetty_id_t id_;
  SendQueue queue_;
  ImplicitImports implicit_imports_;
  std::vector<std::unique_ptr<QueuePath>> paths_;  // guarded by the queue's lock
  QueuePath* last_path_ = nullptr;
  RemoteQueue* bound_ = nullptr;  // RC; guarded by the queue's lock
  std::atomic<bool> pending_{false};
  uint64_t polls_seen_ = 0;
  uint32_t rounds_in_flight_ = 0;  // rounds of the service thread without anything to execute
};

// Whether urma_modify_* may lead from one state of a send queue to another.
bool change_allowed(urma_jetty_state_t from, urma_jetty_state_t to);

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_SENDER_H_
