// SPDX-License-Identifier: MIT
//
// The public queue objects of a provider of this family, with what stands behind each of them.
#ifndef URMA_PROVIDERS_LOCAL_QUEUES_H_
#define URMA_PROVIDERS_LOCAL_QUEUES_H_

#include <cstdint>
#include <mutex>

#include "jetty/completion_queue.h"
#include "urma/base/runtime.h"
#include "urma/providers/local/receiver.h"
#include "urma/providers/local/sender.h"

namespace urma::local {

class Transport;

// An id for as long as an object lives: the program's own where it chose one, else a fresh one.
class IdLease {
 public:
  // Throws Error(URMA_EEXIST) where the chosen id is taken, (URMA_EINVAL) where it cannot be
  // chosen.
  IdLease(Runtime* runtime, IdKind kind, uint32_t eid_index, uint32_t chosen);
  ~IdLease();
  IdLease(const IdLease&) = delete;
  IdLease& operator=(const IdLease&) = delete;
  uint32_t get() const { return id_; }

 private:
  Runtime* runtime_;
  const IdKind kind_;
  const uint32_t eid_index_;
  uint32_t id_;
};

// Makes a queue known to peers for as long as it lives.
class EndpointLease {
 public:
  EndpointLease(Transport* transport, IdKind kind, const Endpoint& endpoint);
  ~EndpointLease();
  EndpointLease(const EndpointLease&) = delete;
  EndpointLease& operator=(const EndpointLease&) = delete;

 private:
  Transport* transport_;
  const IdKind kind_;
  const Endpoint endpoint_;
};

// Lets the transport move the receives of a receiver for as long as it lives.
class ReceiverLease {
 public:
  ReceiverLease(Transport* transport, Receiver* receiver);
  ~ReceiverLease();
  ReceiverLease(const ReceiverLease&) = delete;
  ReceiverLease& operator=(const ReceiverLease&) = delete;

 private:
  Transport* transport_;
  Receiver* receiver_;
};

class Jfc : public CompletionQueue {
 public:
  Jfc(Transport* transport, urma_context_t* ctx, const urma_jfc_cfg_t& cfg);

 private:
  IdLease id_;
};

class Jfs : public urma_jfs_t {
 public:
  Jfs(Transport* transport, urma_context_t* ctx, const urma_jfs_cfg_t& cfg);
  Sender& sender() { return sender_; }

 private:
  IdLease id_;
  Sender sender_;
  Attachment completions_;
};

class Jfr : public urma_jfr_t {
 public:
  Jfr(Transport* transport, urma_context_t* ctx, const urma_jfr_cfg_t& cfg);
  Receiver& receiver() { return receiver_; }
  // A JFR outlives the jetties that share it: each holds a share.
  void share() { users_.fetch_add(1, std::memory_order_relaxed); }
  void unshare() { users_.fetch_sub(1, std::memory_order_relaxed); }
  bool shared() const { return users_.load(std::memory_order_relaxed) != 0; }

 private:
  IdLease id_;
  Receiver receiver_;
  std::atomic<uint32_t> users_{0};
  ReceiverLease known_receiver_;
  EndpointLease known_;
  Attachment completions_;
};

// A share of a JFR: it outlives all that hold one.
class JfrShare {
 public:
  explicit JfrShare(urma_jfr_t* jfr) : jfr_(static_cast<Jfr*>(jfr)) { jfr_->share(); }
  ~JfrShare() { jfr_->unshare(); }
  JfrShare(const JfrShare&) = delete;
  JfrShare& operator=(const JfrShare&) = delete;

 private:
  Jfr* jfr_;
};

class Jetty : public urma_jetty_t {
 public:
  Jetty(Transport* transport, urma_context_t* ctx, const urma_jetty_cfg_t& cfg);
  Sender& sender() { return sender_; }
  Jfr& jfr() { return *static_cast<Jfr*>(jetty_cfg.shared.jfr); }

  // RC. URMA_EINVAL where another jetty is bound to the target, URMA_EEXIST where this one has
  // another peer. Nothing is asked of the peer: what it sends before waits, see
  // Receiver::from_peer.
  urma_status_t bind(RemoteQueue* target);
  // URMA_EINVAL where it has no peer.
  urma_status_t unbind();

 private:
  JfrShare share_;
  IdLease id_;
  Sender sender_;
  std::mutex binding_;  // guards the next one
  RemoteQueue* bound_ = nullptr;
  Bond bond_;
  CompletionQueue* receive_jfc_;
  EndpointLease known_;
  Attachment send_completions_;
  Attachment receive_completions_;
};

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_QUEUES_H_
