// SPDX-License-Identifier: MIT
#include "urma/providers/shm/link.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "urma/base/error.h"
#include "urma/base/log.h"

namespace urma::shm {
namespace {

// A live peer answers within microseconds; only a stopped or overloaded one is looked for this
// often. Each look comes this long after the one before: on an overloaded machine, where this
// thread is late, the peer, which waits for a processor as well, gets more time.
constexpr uint64_t kLookNs = 100'000'000;
// For an answer without a time limit.
constexpr uint32_t kNoLook = 0;
constexpr uint64_t kConnectRetryNs = 1'000'000;
// Answers taken before other work on the service thread gets its turn.
constexpr int kAnswersPerTurn = 64;

}  // namespace

Answer answer_of(const std::exception& why, Answer otherwise) {
  const auto* error = dynamic_cast<const Error*>(&why);
  const bool lacks = error == nullptr || error->status() == URMA_ENOMEM;
  return lacks ? Answer::kNoResourcesHere : otherwise;
}

std::atomic<uint64_t> Link::last_serial_;
std::atomic<uint32_t> Link::nothing_stands_[kMaxSegments];

Link::Link(Service* service, Runtime* runtime, std::string socket_name, int region,
           uint64_t patience_ns, Calls calls)
    // Relaxed: it only has to differ.
    : serial_(last_serial_.fetch_add(1, std::memory_order_relaxed)),
      service_(service),
      runtime_(runtime),
      socket_name_(std::move(socket_name)),
      our_region_(region),
      looks_(static_cast<uint32_t>((patience_ns + kLookNs - 1) / kLookNs)),
      calls_(std::move(calls)) {}

Link::~Link() = default;

void Link::start() {
  hello_looks_ = looks_;
  try_connect();
}

// On any failure, the waiting requests still get their answer.
void Link::try_connect() {
  if (gone()) return;
  try {
    look_later();
    connect();
  } catch (const std::exception& error) {
    give_up(error);
  }
}

void Link::give_up(const std::exception& why) {
  URMA_LOG_LIMITED(ERR, "connecting to socket {}: {}", socket_name_, why.what());
  ended_with_ = answer_of(why, Answer::kUnreachable);
  stop();
}

void Link::connect() {
  OwnFd socket;
  switch (connect_to(runtime_->dir_fd(), socket_name_.c_str(), &socket)) {
    case Connect::kDone:
      connected(std::move(socket));
      break;
    case Connect::kAgain:
      service_->after(kConnectRetryNs, [self = shared_from_this()] { self->try_connect(); });
      break;
    case Connect::kRefused:
      stop();
      break;
  }
}

void Link::connected(OwnFd socket) {
  connection_ = std::make_unique<MessageSocket>(std::move(socket));
  const PeerCredentials credentials = connection_->credentials();
  if (!runtime_->admits(credentials.uid)) {
    URMA_LOG_LIMITED(
        ERR,
        "socket {} in {} belongs to user {}; peers must be of the same user, or of one "
        "that URMA_SHM_PEERS names",
        socket_name_, runtime_->path(), credentials.uid);
    stop();
    return;
  }
  peer_.pid = credentials.pid;
  peer_.may_help.store(is_open_to(credentials.uid), std::memory_order_relaxed);
  peer_.pidfd = connection_->open_peer();
  service_->watch(connection_->fd(), EPOLLIN,
                  [self = shared_from_this()](uint32_t events) { self->on_ready(events); });
  Request hello = {};
  hello.type = RequestType::kHello;
  hello.hello = {kProtocolMagic,
                 kProtocolVersion,
                 runtime_->nonce(),
                 runtime_->slot(),
                 runtime_->uasid(),
                 enter_process_barrier() ? kHasProcessBarrier : 0U,
                 0};
  write(hello, {&our_region_, 1});
}

void Link::request(Request request, std::vector<int> fds, OnReply on_reply) {
  if (gone()) {
    end(on_reply);
  } else if (!ready_) {
    before_hello_.push_back({request, std::move(fds), std::move(on_reply)});
  } else {
    send(request, fds, &on_reply);
  }
}

void Link::end(const OnReply& on_reply) const {
  Attached none;
  if (on_reply != nullptr) on_reply({0, ended_with_, {}}, none);
}

void Link::send(Request request, std::span<const int> fds, OnReply* on_reply) {
  if (*on_reply == nullptr) return write(request, fds);
  request.number = next_number_;
  if (++next_number_ == 0) next_number_ = 1;
  const bool patient = request.type == RequestType::kMapSegment;
  // A look that is already due, for earlier requests, comes too early for this one.
  const uint32_t looks = timer_ != 0 ? looks_ + 1 : looks_;
  const auto asked = waiting_.emplace(request.number, Asked{nullptr, patient ? kNoLook : looks});
  try {
    if (!patient) look_later();
    write(request, fds);
  } catch (...) {
    waiting_.erase(asked.first);
    throw;
  }
  asked.first->second.on_reply = std::move(*on_reply);
}

void Link::write(const Request& request, std::span<const int> fds) {
  switch (connection_->send(&request, sizeof(request), fds)) {
    case MessageSocket::Sent::kAll:
      break;
    case MessageSocket::Sent::kQueued:
      connection_->await_flush(service_, EPOLLIN);
      break;
    case MessageSocket::Sent::kClosed:
      // Later: the caller may be in the middle of a list of requests.
      service_->post([self = shared_from_this()] { self->hang_up(); });
      break;
  }
}

void Link::hang_up() {
  if (!gone()) hung_up_ = true;
  stop();
}

void Link::on_ready(uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    if (connection_->flush() == MessageSocket::Sent::kClosed) return hang_up();
    connection_->backlog() ? connection_->await_flush(service_, EPOLLIN)
                           : service_->rewatch(connection_->fd(), EPOLLIN);
  }
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) == 0) return;
  const auto self = shared_from_this();
  for (int turn = 0; turn < kAnswersPerTurn && !gone(); ++turn) {
    Reply reply;
    Attached fds;
    switch (connection_->receive(&reply, sizeof(reply), &fds)) {
      case MessageSocket::Received::kMessage:
        // No peer says what only this side can.
        if (reply.answer >= Answer::kUnreachable) reply.answer = Answer::kMalformed;
        dispatch(reply, fds);
        break;
      case MessageSocket::Received::kNothing:
        return;
      case MessageSocket::Received::kClosed:
        return hang_up();
      case MessageSocket::Received::kMalformed:
        return stop();
    }
  }
}

void Link::dispatch(const Reply& reply, Attached& fds) {
  if (!ready_) return on_hello(reply, fds);
  if (reply.number == 0) return calls_.on_grant_ended();
  auto found = waiting_.find(reply.number);
  // An answer without a request is the peer's mistake, and harmless.
  if (found == waiting_.end()) return;
  const OnReply on_reply = std::move(found->second.on_reply);
  waiting_.erase(found);
  if (waiting_.empty() && timer_ != 0) service_->cancel(std::exchange(timer_, 0));
  on_reply(reply, fds);
}

void Link::on_hello(const Reply& reply, Attached& fds) {
  if (reply.answer != Answer::kAccepted) {
    URMA_LOG_LIMITED(ERR, "process at socket {} refused the connection: {}", socket_name_,
                     answer_text(reply.answer));
    return stop();
  }
  try {
    if (fds.empty()) fail(URMA_ENOMEM, "no descriptor arrived; raise RLIMIT_NOFILE");
    region_ = std::make_shared<const PeerRegion>(std::move(fds[0]),
                                                 (reply.hello.flags & kHasProcessBarrier) != 0);
  } catch (const std::exception& error) {
    return give_up(error);
  }
  // Release pairs with the acquire in segment_alive().
  words_.store(static_cast<const std::atomic<uint32_t>*>(region_->memory.data()),
               std::memory_order_release);
  nonce_ = reply.hello.nonce;
  ready_ = true;
  URMA_LOG(DEBUG, "the way to process {} at socket {} is open", peer_.pid, socket_name_);
  if (before_hello_.empty() && timer_ != 0) service_->cancel(std::exchange(timer_, 0));
  try {
    for (; !before_hello_.empty(); before_hello_.pop_front()) {
      Waiting& waiting = before_hello_.front();
      send(waiting.request, waiting.fds, &waiting.on_reply);
    }
  } catch (const std::exception& error) {
    give_up(error);
  }
}

void Link::look_later() {
  if (timer_ != 0) return;
  timer_ = service_->after(kLookNs, [self = shared_from_this()] { self->look(); });
}

// Gives up a peer that has had all of its looks.
void Link::look() {
  timer_ = 0;
  if (gone()) return;
  bool more = false, last = false;
  const auto count = [&](uint32_t& looks) {
    if (looks == kNoLook) return;
    more = true;
    last |= --looks == 0;
  };
  if (ready_) {
    for (auto& [number, asked] : waiting_) count(asked.looks);
  } else {
    count(hello_looks_);
  }
  if (last) {
    URMA_LOG_LIMITED(WARNING,
                     "process at socket {} did not answer within {} ms; its requests end; raise "
                     "URMA_SHM_TIMEOUT_MS if it is only stopped",
                     socket_name_, looks_ * kLookNs / 1'000'000);
    stop();
  } else if (more) {
    look_later();
  }
}

void Link::stop() {
  if (gone()) return;
  URMA_LOG(DEBUG, "the way to process {} at socket {} closes{}", peer_.pid, socket_name_,
           hung_up_ ? ": it has ended" : "");
  const auto self = shared_from_this();
  // Release pairs with the acquire in gone() and segment_alive().
  gone_.store(true, std::memory_order_release);
  words_.store(nothing_stands_, std::memory_order_release);
  if (timer_ != 0) service_->cancel(std::exchange(timer_, 0));
  wakeups_.clear();
  if (connection_ != nullptr) {
    service_->unwatch(connection_->fd());
    connection_->end_await();
    // Tells the owner at once, also if others still hold this link and its descriptor.
    ::shutdown(connection_->fd(), SHUT_RDWR);
  }
  auto waiting = std::exchange(waiting_, {});
  auto before = std::exchange(before_hello_, {});
  for (auto& [number, asked] : waiting) end(asked.on_reply);
  for (Waiting& request : before) end(request.on_reply);
  calls_.on_stop(self);
}

StagingArea& Link::staging() {
  const MutexLock lock(staging_mutex_);
  if (staging_ == nullptr) staging_ = std::make_shared<StagingArea>(calls_.on_room);
  return *staging_;
}

void Link::request_copy(const Request& asked, std::shared_ptr<StagedCopy> copy,
                        std::function<void()> on_end) {
  if (!staging_lent_) {
    Request lend = {};
    lend.type = RequestType::kStage;
    // If the owner cannot take it now, it refuses the copies; the next one lends it again.
    request(lend, {staging().fd()}, [this](const Reply& reply, Attached&) {
      if (reply.answer != Answer::kAccepted) staging_lent_ = false;
    });
    staging_lent_ = true;
  }
  request(asked, {},
          [copy = std::move(copy), on_end = std::move(on_end)](const Reply& reply, Attached&) {
            copy->end(reply.answer);
            on_end();
          });
}

void Link::hint_progress() const {
  Request request = {};
  request.type = RequestType::kProgress;
  send_hint(connection_->fd(), &request, sizeof(request));
}

}  // namespace urma::shm
