// SPDX-License-Identifier: MIT
//
// The sending half of a JFS or jetty that reaches processes of this machine.
#ifndef URMA_PROVIDERS_SHM_SENDER_H_
#define URMA_PROVIDERS_SHM_SENDER_H_

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
  // The result of a request that was to be executed at once. kNot: nothing has happened;
  // kMayBeAwaited: it is in flight, and its receiver may have to be woken.
  enum class Direct { kNot, kDone, kMayBeAwaited };
  // Which simple requests are executed: all, or those that take no call. A call, wherever it
  // stands, makes all others save their registers.
  enum class Reach { kAll, kWithoutCall };

  [[gnu::always_inline]] bool is_simple(const urma_jfs_wr_t& wr) const URMA_REQUIRES(lock());
  Direct post_direct(const urma_jfs_wr_t& wr) URMA_REQUIRES(lock());
  template <DirectKind>
  [[gnu::noinline]] urma_status_t post_run(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept
      URMA_RELEASE(lock());
  template <Reach, DirectKind>
  [[gnu::always_inline]] Direct post_simple(const urma_jfs_wr_t& wr) URMA_REQUIRES(lock());
  template <Reach>
  [[gnu::always_inline]] Direct send_direct(const urma_jfs_wr_t& wr) URMA_REQUIRES(lock());
  [[gnu::always_inline]] urma_status_t post_held(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept
      URMA_RELEASE(lock());
  [[gnu::noinline]] urma_status_t wake_one() noexcept;
  [[gnu::noinline]] urma_status_t post_behind(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept;
  [[gnu::noinline]] urma_status_t post_rest(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr,
                                            Direct first) noexcept URMA_RELEASE(lock());
  QueuePath* short_path() const URMA_REQUIRES(lock()) {
    return static_cast<QueuePath*>(last_path());
  }

  Transport* const transport_;
  ImplicitImports<RemoteSegment> implicit_imports_;
  bool ends_later_ URMA_GUARDED_BY(lock()) = false;
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_SENDER_H_
