// SPDX-License-Identifier: MIT
//
// The sending half of a JFS or jetty that reaches processes of this machine.
#ifndef URMA_PROVIDERS_SHM_SENDER_H_
#define URMA_PROVIDERS_SHM_SENDER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "jetty/implicit_imports.h"
#include "jetty/sender.h"
#include "urma/providers/shm/direct.h"
#include "urma/providers/shm/path.h"

namespace urma::shm {

class Transport;

class Sender : public urma::Sender {
 public:
  Sender(Transport* transport, const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
         const urma_jetty_id_t& id);
  ~Sender() override;

  urma_status_t post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept;
  void finish() override;

  // Calls copy() with the places of the bytes that a peer asks for of a message in flight to it;
  // with no bytes if their memory is no longer registered. False if no message is named.
  // Service thread.
  bool lend(const CopyMessageRequest& asked,
            const std::function<void(std::span<const iovec>)>& copy);

  // A message by reference is sent.
  void note_lent() { lends_.store(true, std::memory_order_relaxed); }
  // Takes back messages by reference whose memory is no longer registered. Any thread, after
  // quiesce().
  void take_back_unregistered();

  Transport& transport() { return *transport_; }
  // Needs the queue's lock.
  ImplicitImports<RemoteSegment>& implicit_imports() { return implicit_imports_; }

 protected:
  // A path as a path to a ring; NULL if it is another kind.
  virtual QueuePath* as_ring_path(TargetPath* path) const { return static_cast<QueuePath*>(path); }
  // Continues with what a post has given to the path, which is not executed by the short way.
  virtual void go_on_posted(TargetPath* path) URMA_REQUIRES(lock()) { go_on(path); }
  // The post in which go_on_posted() called end_later() ends.
  virtual void end_post() URMA_REQUIRES(lock()) {}
  void end_later() URMA_REQUIRES(lock()) { ends_later_ = true; }
  std::unique_ptr<TargetPath> make_path(RemoteQueue* target, uint32_t hint) override;

 private:
  // After a post.
  [[gnu::noinline]] urma_status_t finish_post(urma_status_t status) noexcept URMA_RELEASE(lock());
  bool lends_what_fits();
  // Which simple requests are executed: all, or those that take no call. A call, wherever it
  // stands, makes all others save their registers.
  enum class Simple { kAll, kWithoutCall };

  [[gnu::always_inline]] bool is_simple(const urma_jfs_wr_t& wr) const URMA_REQUIRES(lock());
  [[gnu::always_inline]] urma_status_t post_held(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept
      URMA_RELEASE(lock());
  [[gnu::noinline]] urma_status_t post_behind(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept;
  template <OpKind>
  [[gnu::always_inline]] urma_status_t post_one_or_run(urma_jfs_wr_t* wr,
                                                       urma_jfs_wr_t** bad_wr) noexcept
      URMA_RELEASE(lock());
  template <OpKind>
  [[gnu::noinline]] urma_status_t post_one(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept
      URMA_RELEASE(lock());
  template <OpKind>
  [[gnu::noinline]] urma_status_t post_run(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept
      URMA_RELEASE(lock());
  template <OpKind>
  [[gnu::always_inline]] urma_status_t end_short_post(urma_jfs_wr_t* first, urma_jfs_wr_t* rest,
                                                      urma_jfs_wr_t** bad_wr) noexcept
      URMA_RELEASE(lock());
  [[gnu::noinline]] urma_status_t wake_one() noexcept;
  // Wakes the receiver of the messages before `rest`, which are sent.
  [[gnu::noinline]] urma_status_t wake_and_post_rest(const urma_jfs_wr_t* sent, urma_jfs_wr_t* rest,
                                                     urma_jfs_wr_t** bad_wr) noexcept
      URMA_RELEASE(lock());
  [[gnu::noinline]] urma_status_t post_rest(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept
      URMA_RELEASE(lock());
  // These return false, and have done nothing, if a request is not simple. `taken` counts those of
  // a run that have a place; they are in the queue when end_run() has counted them there.
  bool post_direct(const urma_jfs_wr_t& wr) URMA_REQUIRES(lock());
  template <Simple, OpKind>
  [[gnu::always_inline]] bool post_as_run(const urma_jfs_wr_t& wr) URMA_REQUIRES(lock());
  template <Simple, OpKind>
  [[gnu::always_inline]] bool post_simple(const urma_jfs_wr_t& wr, uint32_t* taken)
      URMA_REQUIRES(lock());
  template <Simple>
  [[gnu::always_inline]] bool send_direct(const urma_jfs_wr_t& wr, uint32_t* taken)
      URMA_REQUIRES(lock());
  // Fills the place of a request that has gone the short way.
  [[gnu::always_inline]] void fill_place(const urma_jfs_wr_t& wr, uint64_t bytes, uint64_t form,
                                         uint32_t place) URMA_REQUIRES(lock());
  template <OpKind>
  [[gnu::always_inline]] void end_run(uint32_t taken) URMA_REQUIRES(lock());
  QueuePath* short_path() const URMA_REQUIRES(lock()) {
    return static_cast<QueuePath*>(last_path());
  }

  Transport* const transport_;
  ImplicitImports<RemoteSegment> implicit_imports_;
  bool ends_later_ URMA_GUARDED_BY(lock()) = false;
  std::atomic<bool> lends_{false};  // perhaps; stored with the queue's lock
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_SENDER_H_
