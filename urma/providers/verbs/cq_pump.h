// SPDX-License-Identifier: MIT
//
// The completion queue of one send or receive queue, and what wakes those who sleep on it. It has
// room for all that its queue can have in flight, so it never overflows, and it is polled with the
// lock of that queue held.
#ifndef URMA_PROVIDERS_VERBS_CQ_PUMP_H_
#define URMA_PROVIDERS_VERBS_CQ_PUMP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "jetty/event_channel.h"
#include "urma/base/mutex.h"
#include "urma/providers/verbs/device.h"

namespace urma::verbs {

class CqPump;

// A completion channel. Sleeping on a JFCE means sleeping on its descriptor.
class NotifyChannel : public WakeSource {
 public:
  // Throws Error.
  explicit NotifyChannel(const Device& device);
  NotifyChannel(const NotifyChannel&) = delete;
  NotifyChannel& operator=(const NotifyChannel&) = delete;

  int fd() const override { return channel_->fd; }
  void drain() override;

 private:
  friend class CqPump;

  bool take_event() URMA_REQUIRES(mutex_);

  const Api* const api_;
  Mutex mutex_;  // held while an event may name a completion queue
  const ChannelHandle channel_;
  uint32_t armed_ URMA_GUARDED_BY(mutex_) = 0;  // queues whose event is to come, or is unread
  uint32_t drains_ URMA_GUARDED_BY(mutex_) = 0;
};

// One channel for each JFCE, so that the number of descriptors does not grow with the queues.
// Thread-safe.
class NotifyChannels {
 public:
  // NULL: queues of JFCs without a JFCE; a program may sleep on them nevertheless.
  std::shared_ptr<NotifyChannel> of(const Device& device, const EventChannel* channel);

 private:
  Mutex mutex_;
  std::map<const EventChannel*, std::weak_ptr<NotifyChannel>> channels_ URMA_GUARDED_BY(mutex_);
};

class CqPump : public QueueListener {
 public:
  // `failed` is called once, if the device gives the queue up: by whichever thread notices, with or
  // without the lock of the polling queue. Throws Error.
  CqPump(const Device& device, uint32_t entries, std::shared_ptr<NotifyChannel> channel,
         std::function<void()> failed);
  ~CqPump() override;
  CqPump(const CqPump&) = delete;
  CqPump& operator=(const CqPump&) = delete;

  ibv_cq* cq() const { return cq_.get(); }
  uint32_t entries() const { return static_cast<uint32_t>(cq_->cqe); }
  const std::shared_ptr<NotifyChannel>& channel() const { return channel_; }

  // How many completions it has written.
  int poll(ibv_wc* completions, int count) {
    const int got = poll_cq_(cq_.get(), count, completions);
    if (got >= 0) [[likely]]
      return got;
    cannot_poll(got);
    return 0;
  }
  // Completions not reported by now are never reported.
  bool lost() const { return lost_.load(); }
  // Throws Error if it is lost: nothing new may depend on it.
  void require() const;

  // The next completion wakes the sleepers. Earlier ones do not: poll after this.
  void arm(bool solicited_only);
  // The event that arm() asked for has come: arm again if somebody still waits.
  bool rang() const { return rang_.load(std::memory_order_relaxed); }

  void queue_event(ibv_event_type type) override;
  // `failed` is not called after this returns. A connection that is still being made may keep the
  // queue for longer.
  void forget_owner();

 private:
  friend class NotifyChannel;

  [[gnu::cold, gnu::noinline]] void cannot_poll(int result);
  void lose();

  const Api* const api_;
  int (*const poll_cq_)(ibv_cq* cq, int count, ibv_wc* completions);
  const std::shared_ptr<NotifyChannel> channel_;
  Mutex owner_mutex_;
  std::function<void()> failed_ URMA_GUARDED_BY(owner_mutex_);
  CqHandle cq_;
  std::atomic<bool> rang_{false};
  std::atomic<bool> lost_{false};  // never reset
  bool armed_ URMA_GUARDED_BY(channel_->mutex_) = false;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CQ_PUMP_H_
