// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/wire.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "jetty/listing.h"
#include "jetty/network.h"
#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/base/text.h"
#include "urma/providers/tcp/address.h"
#include "urma/providers/tcp/device.h"

namespace urma::tcp {
namespace {

// After this many polls in a row, without sleep, the service thread leaves the sockets to them; it
// checks from time to time whether they go on.
constexpr uint32_t kPollsToSpin = 64;
// The factor by which that number grows each time a program has stopped polling while something
// waited for it, after less than kTicksToTrust checks. A program that spins on memory that a peer
// writes to stops polling each time; the service thread would take over late.
constexpr uint32_t kSpinsLater = 8;
constexpr uint32_t kTicksToTrust = 4;
constexpr uint32_t kMostPollsToSpin = 1U << 14;
constexpr uint64_t kTickNs = 1'000'000;
// Posts count as polls for this number of checks in a row.
constexpr uint32_t kTicksOfPosts = 4;
constexpr uint64_t kLastLookNs = 16'000'000;
constexpr int kEventsPerTurn = 32;
// An awaited peer is checked kBeatsPerTimeout times within its timeout, and is lost after
// kSilentBeats checks in a row without a sign of life.
constexpr uint64_t kBeatsPerTimeout = 4;
constexpr uint32_t kSilentBeats = 3;
// For that many timeouts, addresses of a process are known to belong together after its connection.
constexpr uint64_t kSilencesKept = 16;

// Whether two processes have started these to each other, between the same two addresses: both
// processes see that alike. At another address, another process may claim to be the peer.
bool cross(const Connection& own, const Connection& theirs) {
  return own.began() && !theirs.began() && bytes_of(own.here()) == bytes_of(theirs.here()) &&
         own.peer() == theirs.peer();
}

// Of the connection. A copy: events are packed, and references into them may not be aligned.
uint64_t number_of(const epoll_event& event) { return event.data.u64; }

// Calls `begin`; what it begins clears the flag. Without memory it can be tried again.
template <typename Begin>
void clearing_where_it_fails(std::atomic<bool>* flag, const Begin& begin) {
  try {
    begin();
  } catch (...) {
    flag->store(false);
    throw;
  }
}
// The same, unless the flag is set already.
template <typename Begin>
void once(std::atomic<bool>* flag, const Begin& begin) {
  if (!flag->load() && !flag->exchange(true)) clearing_where_it_fails(flag, begin);
}

}  // namespace

Wire::Wire(const EidTable& eids, const EidTable& addresses, const PortRange& ports, uint64_t random,
           uint64_t timeout_ms)
    : timeout_ns_(timeout_ms * 1'000'000),
      addresses_(addresses),
      names_(eids, ports, random),
      sockets_(::epoll_create1(EPOLL_CLOEXEC)),
      beats_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      polls_to_spin_(kPollsToSpin) {
  if (!sockets_.valid()) fail_errno(URMA_ENOMEM, "making an epoll descriptor");
  if (!beats_.valid()) fail_errno(URMA_ENOMEM, "making a timer");
}

void Wire::start(WireEngine* engine) {
  engine_ = engine;
  watches_.emplace(&service(), [this](IdKind kind, const urma_eid_t& eid, uint32_t id,
                                      PeerWatches::OnFound found) {
    find(kind, eid, id, [found = std::move(found)](Answer, const Ref& connection) {
      found(owner_at(connection));
    });
  });
}

void Wire::open(const std::function<std::unique_ptr<Carrier>()>& make) {
  service().run([&] {
    if (carrier_ != nullptr || stopped_) return;
    std::unique_ptr<Carrier> carrier = make();
    service().watch(carrier->fd(), EPOLLIN, [this](uint32_t) { accept(); });
    try {
      service().watch(sockets_.get(), EPOLLIN, [this](uint32_t) { serve(); });
      service().watch(beats_.get(), EPOLLIN, [this](uint32_t) { beat(); });
    } catch (...) {
      service().unwatch(carrier->fd());
      service().unwatch(sockets_.get());
      throw;
    }
    carrier_ = std::move(carrier);
    names_.start(carrier_.get());
  });
}

void Wire::stop() {
  stopped_ = true;
  watches_->stop();
  if (carrier_ == nullptr) return;
  for (const auto timer : {tick_timer_, look_timer_}) {
    if (timer != 0) service().cancel(timer);
  }
  service().unwatch(sockets_.get());
  service().unwatch(beats_.get());
  service().unwatch(carrier_->fd());
  // No list of all: that would need memory.
  for (const auto& [number, greeting] : std::exchange(greetings_, {})) {
    // An open one is watched through sockets_, and its descriptor may be closed and used again.
    if (greeting.agreed_by_ns == 0) service().unwatch(greeting.connection->fd());
    greeting.connection->end("");
  }
  {
    const MutexLock lock(list_mutex_);
    for (const auto& [number, connection] : open_) connection->end("");
  }
  for (const auto& [key, search] : std::exchange(searches_, {})) {
    end_search(search, Answer::kUnreachable, nullptr);
  }
  // No beat follows that could.
  forget_lost();
}

// -------------------------------------------------------------------------------------------------
// Connections
// -------------------------------------------------------------------------------------------------

std::vector<Wire::Ref> Wire::all() {
  const MutexLock lock(list_mutex_);
  std::vector<Ref> connections;
  connections.reserve(open_.size());
  for (const auto& [number, connection] : open_) connections.push_back(connection);
  return connections;
}

Wire::Ref Wire::add(std::unique_ptr<Stream> stream, bool began) {
  auto connection = std::make_shared<Connection>(this, ++last_number_, std::move(stream), began);
  greetings_[connection->number()] = {connection, {}};
  try {
    service().watch(connection->fd(), EPOLLIN | EPOLLOUT,
                    [this, connection](uint32_t) { greet(connection); });
  } catch (...) {
    greetings_.erase(connection->number());
    throw;
  }
  return connection;
}

void Wire::accept() {
  guarded(URMA_LOG_SITE, [&] {
    while (std::unique_ptr<Stream> stream = carrier_->accept()) add(std::move(stream), false);
  });
}

// For a moment, nobody waits there: requests that wait behind one that had no answer in time end
// with it, not each after a timeout of its own. The same goes for where its process listens too;
// `process`: if it is known, and not only from before.
void Wire::was_silent(const Address& there, const Peer& process) {
  const uint64_t now = monotonic_ns();
  Silence& silence = silences_[there];
  if (process != Peer()) silence.process = process;
  for (auto& [at, other] : silences_) {
    const bool same = silence.process != Peer() && other.process == silence.process;
    if (!same && at != there) continue;
    other.since_ns = now;
    other.until_ns = now + timeout_ns_ / kBeatsPerTimeout;
  }
  std::erase_if(silences_, [&](const auto& entry) {
    return now - entry.second.since_ns > kSilencesKept * timeout_ns_;
  });
}

const Wire::Silence* Wire::silence_at(const Address& there) const {
  const auto found = silences_.find(there);
  const bool counts = found != silences_.end() && monotonic_ns() < found->second.until_ns;
  return counts ? &found->second : nullptr;
}

// The process is there, whatever it or another one at its address was before.
void Wire::lives(const Ref& connection) {
  const Peer process = connection->peer();
  std::erase_if(silences_, [&](const auto& entry) {
    return entry.first == process.listens_at || entry.second.process == process;
  });
}

// However it fails, nobody is left to wait for it.
void Wire::greet(const Ref& connection) {
  try {
    go_on_greeting(connection);
  } catch (const std::exception& failure) {
    // Before its descriptor is closed.
    if (!connection->gone()) service().unwatch(connection->fd());
    connection->end(failure.what());
    end_greeting(connection, nullptr);
  }
}

void Wire::go_on_greeting(const Ref& connection) {
  std::string why;
  const StreamState state = connection->greet(&why);
  if (state == StreamState::kGreeting) {
    return service().rewatch(connection->fd(),
                             connection->wants_room() ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
  service().unwatch(connection->fd());
  if (state == StreamState::kOpen) return opened(connection);
  if (connection->met_peer()) {
    URMA_LOG_LIMITED(WARNING, "no connection to {}: {}", connection->who(), why);
  } else {
    URMA_LOG_LIMITED(DEBUG, "no connection to {}: {}", connection->who(), why);
  }
  // A refusal takes less time.
  const bool late = connection->age_ns() > timeout_ns_ / 2;
  if (connection->began() && late) was_silent(connection->peer().listens_at);
  end_greeting(connection, nullptr);
  connection->end("");
}

// The side that started it keeps it, unless there is one to the same process already. Of two that
// cross, that of the process with the greater number is kept: the other process awaits an answer
// before it uses its own.
void Wire::opened(const Ref& connection) {
  lives(connection);
  if (!connection->began()) {
    end_greeting(connection, connection);
    return use(connection);
  }
  if (const Ref first = first_to(connection->peer())) return join(connection, first);
  use(connection);
  connection->greet_peer();
  if (carrier_->process() < connection->peer().process) {
    greetings_[connection->number()].agreed_by_ns = monotonic_ns() + timeout_ns_ / 2;
    return;
  }
  agree(connection);
}

// The connection to this process, or one that awaits its answer: at most one may, as the peer could
// agree to either of two. NULL if there is none.
Wire::Ref Wire::first_to(const Peer& process) {
  const auto known = by_process_.find(process);
  if (known != by_process_.end() && !known->second->gone()) return known->second;
  for (const auto& [number, greeting] : greetings_) {
    const Ref& other = greeting.connection;
    const bool awaits = greeting.agreed_by_ns != 0 && !other->gone();
    if (awaits && other->peer() == process) return other;
  }
  return nullptr;
}

// Those that wait for `connection` wait for `first` now, or have it.
void Wire::join(const Ref& connection, const Ref& first) {
  for (auto& [address, leads_to] : by_address_) {
    if (leads_to == connection) leads_to = first;
  }
  const auto awaits = greetings_.find(first->number());
  if (awaits == greetings_.end()) {
    end_greeting(connection, first);
  } else {
    auto& waiting = greetings_[connection->number()].told;
    awaits->second.told.reserve(awaits->second.told.size() + waiting.size());
    std::ranges::move(waiting, std::back_inserter(awaits->second.told));
    greetings_.erase(connection->number());
  }
  connection->end("");
}

void Wire::end_greeting(const Ref& connection, const Ref& kept) {
  auto greeting = greetings_.extract(connection->number());
  if (greeting.empty()) return;
  for (const auto& told : greeting.mapped().told) told(kept);
}

void Wire::use(const Ref& connection) {
  // First: once it is listed, polls can lose it and close its descriptor.
  if (!watch(*connection, connection->wants_room(), EPOLL_CTL_ADD)) {
    return connection->end(std::strerror(errno));
  }
  size_t count = 0;
  {
    const MutexLock lock(list_mutex_);
    open_[connection->number()] = connection;
    count = open_.size();
    open_count_.store(count);
  }
  // A stream takes memory also if nothing comes.
  if (HeldBytes::of_all() > most_held_) relieve();
  if (count != kFew + 1) return;
  // SYNC(tcp-spinning): polls no longer send what the kernel holds for them.
  for (const Ref& each : all()) each->push(/*answers=*/false);
}

void Wire::kept(const Ref& connection) {
  service().post([this, connection] {
    if (!stopped_ && !connection->gone()) settle(connection);
  });
}

void Wire::settle(const Ref& connection) {
  try {
    decide(connection);
  } catch (const std::exception& failure) {
    connection->end(failure.what());
  }
}

void Wire::decide(const Ref& connection) {
  if (connection->began()) return agree(connection);
  const Peer process = connection->peer();
  const auto found = by_process_.find(process);
  const bool other = found != by_process_.end() && !found->second->gone();
  if (other && cross(*found->second, *connection)) {
    // A stream to itself has both ends here.
    if (connection->peer().process == carrier_->process()) return;
    // The peer drops its own once it has ours. Unless ours is lost: the ping tells.
    crossed_[process] = connection;
    return found->second->ping();
  }
  if (!other) by_process_[process] = connection;
  give_way(connection);
  connection->greet_peer();
}

// Its peer does not answer the one that crosses it: if that awaits an answer, it goes.
void Wire::give_way(const Ref& theirs) {
  const auto own = std::ranges::find_if(greetings_, [&](const auto& entry) {
    const PendingConnection& pending = entry.second;
    return pending.agreed_by_ns != 0 && cross(*pending.connection, *theirs);
  });
  if (own != greetings_.end()) join(Ref(own->second.connection), theirs);
}

// This is the one to its process.
void Wire::agree(const Ref& connection) {
  by_process_[connection->peer()] = connection;
  end_greeting(connection, connection);
}

bool Wire::watch(const Connection& connection, bool wants_room, int how) {
  epoll_event event = {};
  event.events = wants_room ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = connection.number();
  return ::epoll_ctl(sockets_.get(), how, connection.fd(), &event) == 0;
}

void Wire::leave(const Connection& connection) {
  ::epoll_ctl(sockets_.get(), EPOLL_CTL_DEL, connection.fd(), nullptr);
}

void Wire::lost(Ref connection) {
  {
    const MutexLock lock(lost_mutex_);
    connection->next_lost = std::move(lost_);
    lost_ = std::move(connection);
  }
  const urma_status_t posted = guarded(URMA_LOG_SITE, [this] {
    service().post([this] { forget_lost(); });
    return URMA_SUCCESS;
  });
  if (posted != URMA_SUCCESS) await();
}

// The next beat goes on where one cannot be forgotten for want of memory.
void Wire::forget_lost() {
  Ref first;
  {
    const MutexLock lock(lost_mutex_);
    first = std::exchange(lost_, nullptr);
  }
  while (first != nullptr) {
    const Ref connection = std::move(first);
    first = std::exchange(connection->next_lost, nullptr);
    const urma_status_t forgotten = guarded(URMA_LOG_SITE, [&] {
      connection->tell_ended();
      forget(connection);
      return URMA_SUCCESS;
    });
    if (forgotten == URMA_SUCCESS) continue;
    {
      const MutexLock lock(lost_mutex_);
      connection->next_lost = std::move(lost_);
      lost_ = connection;
    }
    await();
  }
}

void Wire::forget(const Ref& connection) {
  bool was_open = false;
  {
    const MutexLock lock(list_mutex_);
    was_open = open_.erase(connection->number()) != 0;
    open_count_.store(open_.size());
  }
  forget_addresses(connection, was_open);
  const auto is_this = [&](const auto& entry) { return entry.second == connection; };
  std::erase_if(crossed_, is_this);
  const bool was_known = std::erase_if(by_process_, is_this) != 0;
  silent_beats_.erase(connection->number());
  if (stopped_) return;
  // Searches that wait for it look for the process once more.
  end_greeting(connection, connection);
  if (was_known) {
    const auto crossed = crossed_.extract(connection->peer());
    if (!crossed.empty() && !crossed.mapped()->gone()) settle(crossed.mapped());
  }
  watches_->lost({connection->number()});
  engine_->take_over();
}

void Wire::forget_addresses(const Ref& connection, bool was_open) {
  std::vector<Address> all;
  std::erase_if(by_address_, [&](const auto& entry) {
    if (entry.second != connection) return false;
    all.push_back(entry.first);
    return true;
  });
  // One that has ended by itself, in time, says nothing about who listens there next.
  const auto silent = silent_beats_.find(connection->number());
  const bool ended = silent != silent_beats_.end() && silent->second >= kSilentBeats;
  if (!was_open || !ended) return;
  for (const Address& at : all) was_silent(at, connection->peer());
}

void Wire::list_connections(size_t most, std::vector<urma_ext_connection_t>* connections) const {
  service().run([&] {
    if (carrier_ == nullptr || stopped_) return;
    std::vector<urma_ext_connection_t> listed;
    for (const auto& [number, greeting] : greetings_) {
      // Those that await an answer are open.
      if (greeting.agreed_by_ns != 0) continue;
      listed.push_back(greeting.connection->describe(URMA_EXT_CONNECTION_CONNECTING));
    }
    {
      const MutexLock lock(list_mutex_);
      for (const auto& [number, connection] : open_) {
        listed.push_back(connection->describe(URMA_EXT_CONNECTION_READY));
        // Nothing is proved before.
        listed.back().protection = carrier_->protection();
      }
    }
    require_room(*connections, listed.size(), most);
    std::sort(listed.begin(), listed.end(),
              [](const auto& a, const auto& b) { return a.handle < b.handle; });
    for (urma_ext_connection_t& one : listed) {
      copy_text(one.device, kDeviceName);
      one.number = carrier_->port();
    }
    connections->insert(connections->end(), listed.begin(), listed.end());
  });
}

void Wire::unregistered(SegmentRef segment) {
  // One by one, since a list of them would need memory, and this must not fail. A connection that
  // opens meanwhile knows nothing of the segment.
  uint64_t last = 0;
  const auto next = [&]() -> Ref {
    const MutexLock lock(list_mutex_);
    const auto found = open_.upper_bound(last);
    if (found == open_.end()) return nullptr;
    last = found->first;
    return found->second;
  };
  while (const Ref connection = next()) connection->tell_unregistered(segment);
}

// -------------------------------------------------------------------------------------------------
// Who progresses the connections
// -------------------------------------------------------------------------------------------------

bool Wire::progress() {
  // Relaxed: a new connection is the service thread's until a poll sees it.
  if (open_count_.load(std::memory_order_relaxed) == 0) return false;
  return progress_open();
}

// Apart, so that a poll without connections saves no registers.
[[gnu::noinline]] bool Wire::progress_open() {
  if (service().on_thread()) return false;
  // Relaxed: any change of the numbers suffices.
  polls_.fetch_add(1, std::memory_order_relaxed);
  const bool spins = spinning_.load(std::memory_order_relaxed);
  if (!spins && polls_in_a_row_.fetch_add(1, std::memory_order_relaxed) == polls_to_spin_.load()) {
    const urma_status_t posted = guarded(URMA_LOG_SITE, [this] {
      post([this] { begin_spinning(); });
      return URMA_SUCCESS;
    });
    // Later polls count anew.
    if (posted != URMA_SUCCESS) polls_in_a_row_.store(0, std::memory_order_relaxed);
  }
  if (has_debtors_.load()) push_debtors();
  if (!list_mutex_.try_lock()) return false;
  const MutexLock lock(list_mutex_, std::adopt_lock);
  bool moved = false;
  if (open_.size() <= kFew) {
    for (const auto& [number, connection] : open_) moved |= connection->progress();
    return moved;
  }
  epoll_event events[kEventsPerTurn];
  const int count = ::epoll_wait(sockets_.get(), events, kEventsPerTurn, 0);
  for (int i = 0; i < count; ++i) {
    const auto found = open_.find(number_of(events[i]));
    if (found != open_.end()) moved |= found->second->progress();
  }
  return moved;
}

void Wire::add_debtor(const Ref& connection) {
  const MutexLock lock(debtors_mutex_);
  debtors_.push_back(connection);
  has_debtors_.store(true);
}

void Wire::push_debtors() {
  for (;;) {
    Ref debtor;
    {
      const MutexLock lock(debtors_mutex_);
      has_debtors_.store(!debtors_.empty());
      if (debtors_.empty()) return;
      debtor = std::move(debtors_.back());
      debtors_.pop_back();
    }
    debtor->push(/*answers=*/false);
  }
}

void Wire::asleep() {
  polls_in_a_row_.store(0, std::memory_order_relaxed);
  if (!spinning()) return;
  post([this] { stop_spinning(); });
}

// On the service thread: nobody polls.
void Wire::serve() {
  std::array<Ref, kEventsPerTurn> ready;
  const size_t count = find_ready(ready);
  for (size_t i = 0; i < count; ++i) guarded(URMA_LOG_SITE, [&] { ready[i]->serve(); });
}

size_t Wire::find_ready(std::span<Ref> ready) {
  const MutexLock lock(list_mutex_);
  // It must be that one.
  if (open_.size() == 1) {
    ready[0] = open_.begin()->second;
    return 1;
  }
  epoll_event events[kEventsPerTurn];
  const int got = ::epoll_wait(sockets_.get(), events, kEventsPerTurn, 0);
  size_t count = 0;
  for (int i = 0; i < got; ++i) {
    const auto found = open_.find(number_of(events[i]));
    if (found != open_.end()) ready[count++] = found->second;
  }
  return count;
}

void Wire::begin_spinning() {
  // Without a network there are no sockets to look at.
  if (carrier_ == nullptr || spinning_.exchange(true)) return;
  service().rewatch(sockets_.get(), 0);
  polls_seen_ = polls_.load(std::memory_order_relaxed);
  ticks_ = ticks_without_polls_ = 0;
  tick_later();
}

// Without checks nobody would notice that polls have stopped.
void Wire::tick_later() {
  try {
    tick_timer_ = service().after(kTickNs, [this] { tick(); });
  } catch (...) {
    stop_spinning();
    throw;
  }
}

void Wire::tick() {
  tick_timer_ = 0;
  const uint64_t polls = polls_.load(std::memory_order_relaxed);
  const uint64_t posts = posts_.load(std::memory_order_relaxed);
  const bool polled = std::exchange(polls_seen_, polls) != polls;
  const bool posted = std::exchange(posts_seen_, posts) != posts;
  ticks_without_polls_ = polled ? 0 : ticks_without_polls_ + 1;
  if (!polled && posted && ticks_without_polls_ <= kTicksOfPosts) {
    serve();
    push_debtors();
  } else if (!polled) {
    epoll_event waiting;
    const bool soon = ticks_ < kTicksToTrust;
    const bool late = soon && ::epoll_wait(sockets_.get(), &waiting, 1, 0) > 0;
    const uint32_t before = polls_to_spin_.load();
    polls_to_spin_.store(late ? std::min(before * kSpinsLater, kMostPollsToSpin) : kPollsToSpin);
    return stop_spinning();
  }
  ++ticks_;
  guarded(URMA_LOG_SITE, [this] { serve_messages(); });
  tick_later();
}

void Wire::stop_spinning() {
  polls_in_a_row_.store(0, std::memory_order_relaxed);
  // SYNC(tcp-spinning): first, so that debts from now on are sent by themselves.
  if (!spinning_.exchange(false)) return;
  if (tick_timer_ != 0) service().cancel(std::exchange(tick_timer_, 0));
  service().rewatch(sockets_.get(), EPOLLIN);
  {
    // Under the lock, since a list of them needs memory.
    const MutexLock lock(list_mutex_);
    for (const auto& [number, connection] : open_) connection->push(/*answers=*/false);
  }
  once(&looking_, [this] { look_later(kTickNs); });
}

void Wire::messages_wait() {
  if (spinning()) return;
  once(&looking_, [this] { post([this] { look_later(kTickNs); }); });
}

// The next beat tries it again if that fails.
void Wire::look_later(uint64_t delay_ns) {
  const urma_status_t later = guarded(URMA_LOG_SITE, [&] {
    look_delay_ns_ = delay_ns;
    look_timer_ = service().after(delay_ns, [this] { look_at_messages(); });
    return URMA_SUCCESS;
  });
  look_failed_ = later != URMA_SUCCESS;
  if (!look_failed_) return;
  looking_.store(false);
  await();
}

// False if no messages wait. Receives those that a program has left for a while, or ends them if it
// was not ready for too long.
bool Wire::serve_messages() {
  const std::vector<Ref> connections = all();
  bool waiting = false;
  bool stuck = false;
  for (const Ref& connection : connections) waiting |= connection->has_messages(&stuck);
  if (stuck) engine_->serve_receives();
  return waiting;
}

void Wire::look_at_messages() {
  look_timer_ = 0;
  // First: a message from now on restarts it.
  looking_.store(false);
  if (spinning()) return;
  bool waiting = true;
  guarded(URMA_LOG_SITE, [&] { waiting = serve_messages(); });
  if (!waiting) return;
  once(&looking_, [this] { look_later(std::min(2 * look_delay_ns_, kLastLookNs)); });
}

void Wire::serve_senders() {
  if (serving_senders_.exchange(true)) return;
  clearing_where_it_fails(&serving_senders_, [this] {
    service().post([this] {
      // As Transport::tick: sees what was stored before each call that found this one due.
      serving_senders_.exchange(false);
      engine_->serve_senders();
    });
  });
}

// -------------------------------------------------------------------------------------------------
// Peers that hold too much
// -------------------------------------------------------------------------------------------------

void Wire::relieve() {
  once(&relieving_, [this] {
    post([this] {
      // First: what is held from now on restarts it.
      relieving_.store(false);
      end_greediest();
    });
  });
}

// A host that divides what it holds among many streams is as greedy as with one.
void Wire::end_greediest() {
  struct Holder {
    uint64_t bytes;
    Ref connection;
  };
  std::vector<Holder> holders;
  std::map<std::array<uint8_t, sizeof(urma_eid_t)>, uint64_t> of_host;
  uint64_t held = 0;
  for (const Ref& connection : all()) {
    if (connection->gone()) continue;
    holders.push_back({connection->holds(), connection});
    held += holders.back().bytes;
    of_host[bytes_of(connection->peer().listens_at.eid)] += holders.back().bytes;
  }
  std::ranges::sort(holders, std::greater(), [&](const Holder& holder) {
    return std::pair(of_host[bytes_of(holder.connection->peer().listens_at.eid)], holder.bytes);
  });
  for (const Holder& holder : holders) {
    if (held <= most_held_) return;
    held -= holder.bytes;
    holder.connection->end(
        urma::format("it holds {} KiB here, and its host most of all; all peers may hold {} MiB, "
                     "mostly messages that wait for receives",
                     holder.bytes >> 10, most_held_ >> 20));
  }
}

// -------------------------------------------------------------------------------------------------
// Peers that are silent
// -------------------------------------------------------------------------------------------------

void Wire::await() {
  if (beating_.load() || beating_.exchange(true)) return;
  const uint64_t pause = timeout_ns_ / kBeatsPerTimeout;
  itimerspec after = {};
  after.it_value.tv_sec = static_cast<time_t>(pause / 1'000'000'000);
  after.it_value.tv_nsec = static_cast<long>(pause % 1'000'000'000);
  ::timerfd_settime(beats_.get(), 0, &after, nullptr);
}

void Wire::beat() {
  uint64_t times;
  static_cast<void>(!::read(beats_.get(), &times, sizeof(times)));
  // First: a request from now on restarts it.
  beating_.store(false);
  forget_lost();
  bool awaits = true;
  guarded(URMA_LOG_SITE, [&] {
    const uint64_t now = monotonic_ns();
    end_late_searches(now);
    agree_to_unanswered(now);
    awaits = end_silent_peers();
  });
  if (std::exchange(look_failed_, false) && !spinning()) {
    once(&looking_, [this] { look_later(kTickNs); });
  }
  if (awaits) await();
}

void Wire::agree_to_unanswered(uint64_t now) {
  std::vector<Ref> unanswered;
  for (const auto& [number, greeting] : greetings_) {
    const bool due = greeting.agreed_by_ns != 0 && now >= greeting.agreed_by_ns;
    if (due) unanswered.push_back(greeting.connection);
  }
  for (const Ref& connection : unanswered) {
    if (!connection->gone()) agree(connection);
  }
}

// True if a peer must answer.
bool Wire::end_silent_peers() {
  const std::vector<Ref> connections = all();
  bool awaits = !searches_.empty() || !greetings_.empty();
  for (const Ref& connection : connections) {
    if (!connection->awaits()) {
      silent_beats_.erase(connection->number());
      continue;
    }
    awaits = true;
    // Data that arrived while this thread was busy count.
    connection->progress();
    uint32_t& silent = silent_beats_[connection->number()];
    silent = connection->silent() ? silent + 1 : 0;
    if (silent >= kSilentBeats) {
      connection->end(urma::format("it has been silent for {} ms; see URMA_TCP_TIMEOUT_MS",
                                   timeout_ns_ / 1'000'000));
    }
  }
  return awaits;
}

}  // namespace urma::tcp
