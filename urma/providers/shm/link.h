// SPDX-License-Identifier: MIT
//
// The importer's end of a control connection: from this process to the owner of queues and segments
// that it uses.
#ifndef URMA_PROVIDERS_SHM_LINK_H_
#define URMA_PROVIDERS_SHM_LINK_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "segment/segment.h"
#include "urma/base/message_socket.h"
#include "urma/base/mutex.h"
#include "urma/base/runtime.h"
#include "urma/base/service.h"
#include "urma/providers/shm/peer.h"
#include "urma/providers/shm/protocol.h"
#include "urma/providers/shm/staging.h"
#include "urma/providers/shm/wakeup.h"

namespace urma::shm {

// kNoResourcesHere if this process lacked memory or descriptors, else `otherwise`.
Answer answer_of(const std::exception& why, Answer otherwise);

// Lives on the service thread; functions for other threads are marked. A link that is gone stays
// gone; the next request makes a new one.
class Link : public std::enable_shared_from_this<Link> {
 public:
  // Called once, on the service thread, with the descriptors that came along. The answer is
  // ended_with() if there is none.
  using OnReply = std::function<void(const Reply&, Attached&)>;

  struct Calls {
    std::function<void(const std::shared_ptr<Link>&)> on_stop;  // this link has ended
    // There is room for a staged copy again; from any thread.
    std::function<void()> on_room;
    std::function<void()> on_grant_ended;  // the owner has ended a registration
  };

  // `region` is the memory of this process that the owner may map. A live owner that says nothing
  // for `patience_ns`, rounded up to whole looks, is given up.
  Link(Service* service, Runtime* runtime, std::string socket_name, int region,
       uint64_t patience_ns, Calls calls);
  ~Link();

  void start();
  // Call before start(): the kernel copies nothing, even if it would permit it.
  void stage_copies() { peer_.refused.store(true, std::memory_order_relaxed); }
  // The descriptors must stay open until the reply. Only a mapping has no time limit.
  void request(Request request, std::vector<int> fds, OnReply on_reply);
  // A request without an answer.
  void notify(const Request& asked) { request(asked, {}, nullptr); }
  // Has the owner copy to or from the place of `copy`; on_end() is called once that has ended.
  void request_copy(const Request& request, std::shared_ptr<StagedCopy> copy,
                    std::function<void()> on_end);
  void stop();
  // The same, if the peer has closed the connection.
  void hang_up();
  Wakeups& wakeups() { return wakeups_; }
  // Tells it from all other links of this process, also earlier ones.
  uint64_t serial() const { return serial_; }
  // Whether it is gone because the owner is gone, or has ended the library.
  bool hung_up() const { return hung_up_; }
  // Why one that is gone answers nothing: kUnreachable or kNoResourcesHere.
  Answer ended_with() const { return ended_with_; }
  const std::shared_ptr<const PeerRegion>& region() const { return region_; }

  // Any thread.
  bool gone() const {
    // Acquire pairs with the release in stop().
    return gone_.load(std::memory_order_acquire);
  }
  // Any thread. Throws Error if memory is short.
  StagingArea& staging();
  // Any thread; the three below only once a request was accepted.
  const PeerProcess& peer() const { return peer_; }
  // False for all once it is gone.
  [[gnu::always_inline]] bool segment_alive(SegmentRef ref) const {
    // Acquire pairs with the release in stop().
    return SegmentTable::alive_in(words_.load(std::memory_order_acquire), ref);
  }
  void hint_progress() const;
  // Identifies the owner's start; valid once a request was accepted.
  uint64_t nonce() const { return nonce_; }

 private:
  struct Waiting {
    Request request;
    std::vector<int> fds;
    OnReply on_reply;
  };
  struct Asked {
    OnReply on_reply;
    uint32_t looks;  // looks that are left
  };

  void try_connect();
  void connect();
  void connected(OwnFd socket);
  void on_ready(uint32_t events);
  void on_hello(const Reply& reply, Attached& fds);
  void dispatch(const Reply& reply, Attached& fds);
  // Takes on_reply over unless it throws; NULL: there is no answer.
  void send(Request request, std::span<const int> fds, OnReply* on_reply);
  void write(const Request& request, std::span<const int> fds = {});
  void look_later();
  void look();
  void give_up(const std::exception& why);
  // To a request that gets no other answer.
  void end(const OnReply& on_reply) const;

  const uint64_t serial_;
  Service* service_;
  Runtime* runtime_;
  const std::string socket_name_;
  const int our_region_;
  const uint32_t looks_;
  const Calls calls_;
  std::unique_ptr<MessageSocket> connection_;
  std::deque<Waiting> before_hello_;
  std::map<uint32_t, Asked> waiting_;  // by number
  uint32_t next_number_ = 1;
  uint32_t hello_looks_ = 0;
  Service::TimerId timer_ = 0;
  bool ready_ = false;
  bool hung_up_ = false;
  Answer ended_with_ = Answer::kUnreachable;
  std::atomic<bool> gone_{false};
  PeerProcess peer_;
  uint64_t nonce_ = 0;
  Wakeups wakeups_;
  Mutex staging_mutex_;
  std::shared_ptr<StagingArea> staging_ URMA_GUARDED_BY(staging_mutex_);  // made once; stays
  bool staging_lent_ = false;
  std::shared_ptr<const PeerRegion> region_;
  std::atomic<const std::atomic<uint32_t>*> words_{nothing_stands_};
  static std::atomic<uint64_t> last_serial_;
  // Not const, so that it takes no room in the module.
  static std::atomic<uint32_t> nothing_stands_[kMaxSegments];
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_LINK_H_
