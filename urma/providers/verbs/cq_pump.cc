// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/cq_pump.h"

#include <utility>

#include "urma/base/error.h"
#include "urma/base/fd.h"
#include "urma/base/log.h"
#include "urma/providers/verbs/device.h"

namespace urma::verbs {
namespace {

// Bounds how many events are left behind.
constexpr uint32_t kDrainsToTheEnd = 64;

}  // namespace

NotifyChannel::NotifyChannel(const Device& device)
    : api_(&device.api()), channel_(api_, api_->create_comp_channel(device.context())) {
  if (!channel_) fail_device(device.info(), "making a completion channel", errno);
  if (make_nonblocking(channel_->fd)) return;
  fail_errno(URMA_FAIL, "making a completion channel non-blocking");
}

// Stops once all armed queues have rung: to learn that there are no more events would take a system
// call. A queue armed twice may have left an event behind, which counts for the next time.
void NotifyChannel::drain() {
  const MutexLock lock(mutex_);
  const bool to_the_end = ++drains_ % kDrainsToTheEnd == 0;
  while (take_event() && (armed_ != 0 || to_the_end)) {
  }
}

bool NotifyChannel::take_event() {
  ibv_cq* cq;
  void* context;
  if (api_->get_cq_event(channel_.get(), &cq, &context) != 0) return false;
  api_->ack_cq_events(cq, 1);
  auto* pump = static_cast<CqPump*>(static_cast<QueueListener*>(context));
  pump->channel_->mutex_.assume_held();
  armed_ -= std::exchange(pump->armed_, false) ? 1 : 0;
  // Release pairs with the acquire in arm().
  pump->rang_.store(true, std::memory_order_release);
  return true;
}

std::shared_ptr<NotifyChannel> NotifyChannels::of(const Device& device,
                                                  const EventChannel* channel) {
  const MutexLock lock(mutex_);
  std::erase_if(channels_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<NotifyChannel>& known = channels_[channel];
  std::shared_ptr<NotifyChannel> made = known.lock();
  if (made == nullptr) known = made = std::make_shared<NotifyChannel>(device);
  return made;
}

CqPump::CqPump(const Device& device, uint32_t entries, std::shared_ptr<NotifyChannel> channel,
               std::function<void()> failed)
    : api_(&device.api()),
      poll_cq_(api_->poll_cq),
      channel_(std::move(channel)),
      failed_(std::move(failed)),
      cq_(api_, api_->create_cq(device.context(), static_cast<int>(entries),
                                static_cast<QueueListener*>(this), channel_->channel_.get(), 0)) {
  if (!cq_) {
    fail_device(device.info(), urma::format("making a completion queue of {} entries", entries),
                errno);
  }
}

CqPump::~CqPump() {
  // No event names it after this.
  const MutexLock lock(channel_->mutex_);
  channel_->armed_ -= armed_ ? 1 : 0;
  cq_.reset();
}

void CqPump::arm(bool solicited_only) {
  // Before the request: a later ring must not be forgotten. Acquire pairs with the release in
  // drain().
  rang_.exchange(false, std::memory_order_acq_rel);
  {
    const MutexLock lock(channel_->mutex_);
    channel_->armed_ += std::exchange(armed_, true) ? 0 : 1;
  }
  const int error = api_->req_notify_cq(cq_.get(), solicited_only ? 1 : 0);
  if (error != 0) [[unlikely]]
    URMA_LOG_LIMITED(ERR, "arming a completion queue failed with errno {}", error);
}

void CqPump::queue_event(ibv_event_type type) {
  URMA_LOG(ERR, "a completion queue is lost: device event {}", static_cast<int>(type));
  lose();
}

// Some devices report a lost queue in no other way.
void CqPump::cannot_poll(int result) {
  if (lost()) return;
  URMA_LOG(ERR, "a completion queue is lost: polling returned {}", result);
  lose();
}

void CqPump::require() const {
  if (!lost()) return;
  fail(URMA_FAIL, "the completion queue is lost; delete and recreate the JFS or JFR and its JFC");
}

void CqPump::lose() {
  if (lost_.exchange(true)) return;
  const MutexLock lock(owner_mutex_);
  if (failed_ != nullptr) failed_();
}

void CqPump::forget_owner() {
  const MutexLock lock(owner_mutex_);
  failed_ = nullptr;
}

}  // namespace urma::verbs
