// SPDX-License-Identifier: MIT
#include "urma/providers/local/transport.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/local/network.h"
#include "urma/providers/local/sender.h"
#include "urma/providers/local/server.h"

namespace urma::local {
namespace {

// How long the service thread lets a program be silent before it moves what the program left.
constexpr uint64_t kTickNs = 1'000'000;
// How soon, and how seldom, the owner of a bound queue is looked for that is not there.
constexpr uint64_t kFirstWatchNs = 10'000'000;
constexpr uint64_t kLastWatchNs = 1'000'000'000;
// Pages that are made private before others on this thread get their turn: some milliseconds.
constexpr uint64_t kTakeBackPerTurn = 8 << 20;

}  // namespace

Transport::Transport(const char* name, const urma_host& host, CopyEngine* copy)
    : name_(name),
      service_(host.service),
      runtime_(host.runtime()),
      copy_(copy),
      pages_(host.pages),
      ring_bytes_(
          std::bit_floor(static_cast<uint32_t>(host.settings->number("URMA_SHM_RING_SIZE")))) {
  enter_process_barrier();
  segments_.set_take_back([this](SharedPages::RangeId pages) {
    guarded(URMA_LOG_SITE, [&] { take_back_some(pages); });
  });
  service_->run([this] { server_ = std::make_unique<Server>(this, name_); });
}

Transport::~Transport() { stop(); }

void Transport::stop() {
  if (stopped_) return;
  service_->run([this] {
    stopped_ = true;
    *ended_ = true;
    server_.reset();
    for (auto& [slot, link] : links_) link->stop();
    links_.clear();
  });
  // What was posted while that ran is done before anything it refers to goes.
  service_->run([this] {
    if (tick_timer_ != 0) service_->cancel(tick_timer_);
    tick_timer_ = 0;
    if (watch_timer_ != 0) service_->cancel(watch_timer_);
    watch_timer_ = 0;
    for (auto& [jfc, timer] : delayed_) service_->cancel(timer);
    delayed_.clear();
    watched_.clear();
  });
}

std::shared_ptr<Link> Transport::link_to(IdKind kind, const urma_eid_t& eid, uint32_t id) {
  if (stopped_) return nullptr;
  const std::optional<uint32_t> slot = runtime_->owner_slot(kind, eid, id);
  if (!slot.has_value()) return nullptr;
  std::erase_if(links_, [](const auto& entry) { return entry.second->gone(); });
  const auto known = links_.find(*slot);
  if (known != links_.end()) return known->second;
  auto link = std::make_shared<Link>(
      service_, runtime_, runtime_->socket_name(*slot, name_.c_str()), segments_.words_fd(),
      [this] {
        serve_senders();
        service_->post([this] { guarded(URMA_LOG_SITE, [this] { report_gone_peers(); }); });
      });
  links_.emplace(*slot, link);
  link->start();
  return link;
}

void Transport::add_receiver(Receiver* receiver) {
  std::lock_guard lock(endpoints_mutex_);
  receivers_.push_back(receiver);
}

void Transport::remove_receiver(Receiver* receiver) {
  std::lock_guard lock(endpoints_mutex_);
  std::erase(receivers_, receiver);
}

void Transport::add_endpoint(IdKind kind, const Endpoint& endpoint) {
  std::lock_guard lock(endpoints_mutex_);
  const auto entry = endpoints_.emplace(EndpointKey{kind, endpoint.identity.id}, endpoint);
  try {
    groups_.join(endpoint);
  } catch (...) {
    endpoints_.erase(entry);
    throw;
  }
}

void Transport::remove_endpoint(IdKind kind, const Endpoint& endpoint) {
  std::lock_guard lock(endpoints_mutex_);
  groups_.leave(endpoint);
  auto [first, last] = endpoints_.equal_range({kind, endpoint.identity.id});
  for (auto entry = first; entry != last; ++entry) {
    if (entry->second.identity.user_data == endpoint.identity.user_data) {
      endpoints_.erase(entry);
      break;
    }
  }
  endpoint.receiver->close_rings(endpoint.identity.user_data);
}

bool Transport::with_endpoint(IdKind kind, const urma_eid_t& eid, uint32_t id,
                              const std::function<void(const Endpoint&)>& with_endpoint) {
  std::lock_guard lock(endpoints_mutex_);
  auto [first, last] = endpoints_.equal_range({kind, id});
  for (auto entry = first; entry != last; ++entry) {
    if (!same_eid(entry->second.eid, eid)) continue;
    with_endpoint(entry->second);
    return true;
  }
  return false;
}

void Transport::progress_receives() {
  std::unique_lock lock(endpoints_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (Receiver* receiver : receivers_) receiver->try_progress();
}

void Transport::serve_receives() {
  if (stopped_ || std::exchange(serving_, true)) return;
  service_->post([this] { serve_round(); });
}

// One turn for each receiver; what remains waits behind everything else on this thread.
void Transport::serve_round() {
  serving_ = false;
  bool moved = false;
  {
    std::lock_guard lock(endpoints_mutex_);
    for (Receiver* receiver : receivers_) moved |= receiver->serve();
  }
  if (moved) serve_receives();
}

void Transport::serve_senders() {
  if (stopped_ || std::exchange(serving_senders_, true)) return;
  service_->post([this] { serve_senders_round(); });
}

void Transport::serve_senders_round() {
  serving_senders_ = false;
  bool more = false;
  {
    std::lock_guard lock(senders_mutex_);
    for (Sender* sender : senders_) more |= sender->serve_armed();
  }
  if (more) serve_senders();
}

void Transport::take_over() {
  service_->post([this] {
    serve_receives();
    serve_senders();
  });
}

void Transport::delay_event(CompletionQueue* jfc, uint64_t arming, uint32_t us) {
  service_->post([this, jfc, arming, us] {
    const auto entry = delayed_.emplace(jfc, 0);
    entry->second = service_->after(uint64_t{us} * 1000, [this, entry, arming] {
      CompletionQueue* due = entry->first;
      delayed_.erase(entry);
      due->raise_delayed(arming);
    });
  });
}

void Transport::forget_delayed(CompletionQueue* jfc) {
  service_->run([this, jfc] {
    const auto [first, last] = delayed_.equal_range(jfc);
    for (auto entry = first; entry != last; ++entry) service_->cancel(entry->second);
    delayed_.erase(first, last);
  });
}

void Transport::forget_channel(EventChannel* channel) {
  service_->run([this, channel] {
    if (server_ != nullptr) server_->forget(channel);
    for (auto& [slot, link] : links_) link->wakeups().forget(channel);
  });
}

void Transport::unregister(const Segment* segment) {
  segments_.remove(segment);
  quiesce();
  // With what a peer's invalidation has left to do.
  if (segment->pages != 0) pages_->remove(segment->pages);
}

// What remains waits behind everything else on this thread, or for the unregistration.
void Transport::take_back_some(SharedPages::RangeId pages) {
  service_->post([this, pages, ended = ended_] {
    if (*ended) return;
    guarded(URMA_LOG_SITE, [&] {
      if (!pages_->remove_some(pages, kTakeBackPerTurn)) take_back_some(pages);
    });
  });
}

void Transport::quiesce() {
  {
    std::lock_guard lock(senders_mutex_);
    for (Sender* sender : senders_) sender->quiesce();
  }
  std::lock_guard lock(endpoints_mutex_);
  for (Receiver* receiver : receivers_) receiver->quiesce();
}

void Transport::watch_peer(PeerWatcher* watcher, IdKind kind, const urma_eid_t& eid, uint32_t id,
                           uint64_t target) {
  service_->post([=, this] {
    guarded(URMA_LOG_SITE, [&] {
      if (stopped_) return;
      Watched& watched = watched_[watcher];
      watched = {kind, eid, id, target, link_to(kind, eid, id)};
      watch_delay_ns_ = kFirstWatchNs;
      if (watched.link == nullptr || watched.link->gone()) look_for_peers_later();
    });
  });
}

void Transport::unwatch_peer(PeerWatcher* watcher) {
  service_->run([=, this] { watched_.erase(watcher); });
}

void Transport::unwatch_peer(PeerWatcher* watcher, uint64_t target) {
  service_->run([=, this] {
    const auto found = watched_.find(watcher);
    if (found != watched_.end() && found->second.target == target) watched_.erase(found);
  });
}

// An owner that is not there yet, or with whom a connection ended while it lives, is looked for
// again, ever more seldom.
void Transport::report_gone_peers() {
  if (stopped_) return;
  std::vector<std::pair<PeerWatcher*, uint64_t>> gone;
  bool missing = false;
  for (auto& [watcher, watched] : watched_) {
    if (watched.link != nullptr && watched.link->hung_up()) {
      gone.emplace_back(watcher, watched.target);
      continue;
    }
    if (watched.link == nullptr || watched.link->gone()) {
      std::shared_ptr<Link> link = link_to(watched.kind, watched.eid, watched.id);
      // There was an owner, and no living process has the id any more.
      if (link == nullptr && watched.link != nullptr) {
        gone.emplace_back(watcher, watched.target);
        continue;
      }
      watched.link = std::move(link);
    }
    missing |= watched.link == nullptr || watched.link->gone();
  }
  for (const auto& [watcher, target] : gone) {
    watched_.erase(watcher);
    watcher->peer_gone(target);
  }
  if (missing) look_for_peers_later();
}

void Transport::look_for_peers_later() {
  if (watch_timer_ != 0) return;
  watch_timer_ = service_->after(watch_delay_ns_, [this] {
    watch_timer_ = 0;
    guarded(URMA_LOG_SITE, [this] { report_gone_peers(); });
  });
  watch_delay_ns_ = std::min(2 * watch_delay_ns_, kLastWatchNs);
}

void Transport::add_sender(Sender* sender) {
  std::lock_guard lock(senders_mutex_);
  senders_.push_back(sender);
}

void Transport::remove_sender(Sender* sender) {
  std::lock_guard lock(senders_mutex_);
  std::erase(senders_, sender);
}

void Transport::watch_pending() {
  if (ticking_.exchange(true)) return;
  service_->post([this] { tick_timer_ = service_->after(kTickNs, [this] { tick(); }); });
}

void Transport::tick() {
  tick_timer_ = 0;
  // Cleared before the look at the senders; see Sender::post_one.
  ticking_.store(false);
  bool waiting = false;
  {
    std::lock_guard lock(senders_mutex_);
    for (Sender* sender : senders_) waiting |= sender->serve();
  }
  if (waiting && !ticking_.exchange(true)) {
    tick_timer_ = service_->after(kTickNs, [this] { tick(); });
  }
}

}  // namespace urma::local
