// SPDX-License-Identifier: MIT
#include "urma/providers/local/server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/providers/local/transport.h"

namespace urma::local {
namespace {

// More than any program needs; a bound on what one peer can make this process map.
constexpr size_t kMaxRingsPerPeer = 16384;
// Requests of one peer that are served before others get their turn.
constexpr int kRequestsPerTurn = 64;
constexpr int kAcceptsPerTurn = 64;
// One for each provider and some that are about to close; more is no program's need.
constexpr size_t kMaxConnectionsPerProcess = 16;
constexpr uint64_t kHelloTimeoutNs = 1'000'000'000;
// How long nobody is accepted where the kernel has no means for another connection.
constexpr uint64_t kPauseNs = 10'000'000;

Reply with_answer(Answer answer) {
  Reply reply = {};
  reply.answer = answer;
  return reply;
}

// A fault here would be this process's end, so the page is made writable, or found not to be,
// first.
bool writable(uint64_t va) {
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  // A kernel before 5.14 cannot tell: it refuses the advice for no memory at all, too.
  static const bool can_tell = ::madvise(nullptr, 0, MADV_POPULATE_WRITE) == 0;
  return !can_tell ||
         ::madvise(reinterpret_cast<void*>(va / page * page), page, MADV_POPULATE_WRITE) == 0;
}

// The order between the owner's own accesses and these is made by the programs, through the peer,
// where the thread sanitizer cannot see it.
template <typename Word>
__attribute__((no_sanitize("thread"))) uint64_t execute_atomic(const AtomicRequest& asked) {
  Word* target = reinterpret_cast<Word*>(asked.va);
  // Sequentially consistent, as every lock instruction is: atomics of all callers on one location
  // are atomic with each other and with the program's own.
  if (asked.opcode == URMA_OPC_FADD) {
    return __atomic_fetch_add(target, static_cast<Word>(asked.operand[0]), __ATOMIC_SEQ_CST);
  }
  Word expected = static_cast<Word>(asked.operand[0]);
  __atomic_compare_exchange_n(target, &expected, static_cast<Word>(asked.operand[1]), false,
                              __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}

}  // namespace

Client::Client(Transport* transport, Fd socket)
    : transport_(transport),
      connection_(std::move(socket)),
      process_(std::make_shared<PeerProcess>()) {
  process_->pid = connection_.credentials().pid;
}

Client::~Client() {
  // Release pairs with the acquire in Receiver::advance: what the peer published before its end is
  // delivered first.
  for (auto& [number, ring] : rings_) ring->abandoned.store(true, std::memory_order_release);
  if (!rings_.empty()) transport_->serve_receives();
}

bool Client::on_ready(uint32_t events) {
  // Nobody will ever read what is still queued.
  if ((events & (EPOLLHUP | EPOLLERR)) != 0 && connection_.backlog()) return false;
  if ((events & EPOLLOUT) != 0) {
    if (connection_.flush() == Connection::Sent::kClosed) return false;
    if (connection_.backlog()) return true;
    transport_->service().rewatch(fd(), EPOLLIN);
  }
  for (int turn = 0; turn < kRequestsPerTurn; ++turn) {
    // A peer that does not read its answers gets no more of them.
    if (connection_.backlog()) return true;
    Request request;
    Fd attached;
    switch (connection_.receive(&request, sizeof(request), &attached)) {
      case Connection::Received::kMessage:
        if (!handle(request, std::move(attached))) return false;
        break;
      case Connection::Received::kNothing:
        return true;
      case Connection::Received::kClosed:
        return false;
      case Connection::Received::kMalformed:
        URMA_LOG_LIMITED(WARNING, "process {} sent a malformed control message; it is disconnected",
                         process_->pid);
        return false;
    }
  }
  return true;
}

bool Client::handle(const Request& request, Fd attached) {
  if (!greeted_) return request.type == RequestType::kHello && hello(request);
  switch (request.type) {
    case RequestType::kImportSegment:
      import_segment(request);
      break;
    case RequestType::kOpenRing:
      open_ring(request, std::move(attached));
      break;
    case RequestType::kCloseRing:
      close_ring(request.close_ring);
      break;
    case RequestType::kAtomic:
      atomic(request);
      break;
    case RequestType::kProgress:
      transport_->serve_receives();
      break;
    default:
      reply(with_answer(Answer::kMalformed), request.number);
      break;
  }
  return alive_;
}

bool Client::hello(const Request& request) {
  const PeerCredentials credentials = connection_.credentials();
  if (request.hello.magic != kProtocolMagic || request.hello.version != kProtocolVersion) {
    URMA_LOG(ERR,
             "process {} speaks version {} of the control protocol, this one {}; it is refused",
             credentials.pid, request.hello.version, kProtocolVersion);
    reply(with_answer(Answer::kRefusedVersion), request.number);
    return false;
  }
  if (credentials.uid != ::geteuid() && credentials.uid != 0) {
    URMA_LOG_LIMITED(ERR, "process {} of user {} is refused; peers must be of the same user",
                     credentials.pid, credentials.uid);
    reply(with_answer(Answer::kRefusedUser), request.number);
    return false;
  }
  try {
    process_->pidfd = connection_.open_peer();
  } catch (const Error& error) {
    URMA_LOG_LIMITED(WARNING, "a peer is refused: {}", error.what());
    reply(with_answer(Answer::kNoResources), request.number);
    return false;
  }
  slot_ = request.hello.slot;
  greeted_ = true;
  Reply accepted = with_answer(Answer::kAccepted);
  accepted.hello = {transport_->runtime().nonce(), transport_->runtime().uasid(), 0};
  return reply(accepted, request.number, transport_->segments().words_fd());
}

void Client::import_segment(const Request& request) {
  const ImportSegmentRequest& asked = request.import_segment;
  GrantError error;
  const std::optional<SegmentGrant> grant = transport_->segments().grant(
      asked.eid, asked.token_id, asked.va, asked.len, urma_token_t{asked.token}, &error);
  if (!grant.has_value()) {
    const bool token = error == GrantError::kWrongToken;
    if (token) {
      URMA_LOG_LIMITED(WARNING, "process {} presented a wrong token for token id {:#x}",
                       process_->pid, asked.token_id);
    }
    reply(with_answer(token ? Answer::kWrongToken : Answer::kNoSuchObject), request.number);
    return;
  }
  Reply accepted = with_answer(Answer::kAccepted);
  accepted.import_segment = {grant->base,           grant->len, grant->access, grant->ref.index,
                             grant->ref.generation, 0};
  reply(accepted, request.number);
}

void Client::open_ring(const Request& request, Fd attached) {
  Answer answer;
  try {
    answer = accept_ring(request.open_ring, std::move(attached));
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(WARNING, "ring of process {} is refused: {}", process_->pid, error.what());
    answer = Answer::kNoResources;
  }
  reply(with_answer(answer), request.number);
}

Answer Client::accept_ring(const OpenRingRequest& asked, Fd attached) {
  const bool foreign_sender = asked.sender.id > kMaxChosenId && asked.sender.id >> 16 != slot_;
  if (!attached.valid() || !RingLayout::valid_size(asked.ring_bytes) || foreign_sender ||
      asked.target_type > URMA_JETTY_GROUP || rings_.contains(asked.ring)) {
    return attached.valid() ? Answer::kMalformed : Answer::kNoResources;
  }
  if (rings_.size() >= kMaxRingsPerPeer) return Answer::kNoResources;
  auto ring =
      std::make_shared<IncomingRing>(RingConsumer(std::move(attached), asked.ring_bytes), process_);
  ring->sender = asked.sender;
  Answer answer = Answer::kNoSuchObject;
  const IdKind kind = asked.target_type == URMA_JFR ? IdKind::kJfr : IdKind::kJetty;
  transport_->with_endpoint(kind, asked.target_eid, asked.target_id, [&](const Endpoint& endpoint) {
    if (endpoint.token_policy != URMA_TOKEN_NONE && endpoint.token.token != asked.token) {
      answer = Answer::kWrongToken;
    } else if (endpoint.trans_mode != static_cast<urma_transport_mode_t>(asked.trans_mode)) {
      answer = Answer::kWrongMode;
    } else {
      ring->target = endpoint.identity;
      ring->jfc = endpoint.jfc;
      ring->rnr_limit_ns = endpoint.receiver->rnr_limit_ns(asked.rnr_retry);
      endpoint.receiver->add_ring(ring);
      answer = Answer::kAccepted;
    }
  });
  if (answer == Answer::kAccepted) rings_.emplace(asked.ring, std::move(ring));
  return answer;
}

void Client::close_ring(const CloseRingRequest& asked) {
  auto found = rings_.find(asked.ring);
  if (found == rings_.end()) return;
  // Release pairs with the acquire in Receiver::advance.
  found->second->abandoned.store(true, std::memory_order_release);
  rings_.erase(found);
  transport_->serve_receives();
}

void Client::atomic(const Request& request) {
  const AtomicRequest& asked = request.atomic;
  Reply answer = with_answer(Answer::kAccepted);
  if ((asked.bytes != 4 && asked.bytes != 8) ||
      (asked.opcode != URMA_OPC_CAS && asked.opcode != URMA_OPC_FADD)) {
    answer.answer = Answer::kMalformed;
  } else if (asked.va % asked.bytes != 0) {
    answer.answer = Answer::kMisaligned;
  } else if (!transport_->segments().with_grant(
                 {asked.index, asked.generation}, asked.va, asked.bytes, URMA_ACCESS_ATOMIC, [&] {
                   if (!writable(asked.va)) {
                     answer.answer = Answer::kNoAccess;
                     return;
                   }
                   answer.atomic.old_value = asked.bytes == 4 ? execute_atomic<uint32_t>(asked)
                                                              : execute_atomic<uint64_t>(asked);
                 })) {
    answer.answer = Answer::kNoAccess;
  }
  reply(answer, request.number);
}

bool Client::reply(Reply answer, uint32_t number, int attached) {
  answer.number = number;
  switch (connection_.send(&answer, sizeof(answer), attached)) {
    case Connection::Sent::kAll:
      break;
    case Connection::Sent::kQueued:
      transport_->service().rewatch(fd(), EPOLLOUT);
      break;
    case Connection::Sent::kClosed:
      alive_ = false;
      break;
  }
  return alive_;
}

Server::Server(Transport* transport, const std::string& provider)
    : transport_(transport),
      socket_name_(transport->runtime().socket_name(transport->runtime().slot(), provider.c_str())),
      socket_(listen_at(transport->runtime().dir_fd(), socket_name_.c_str())),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  transport_->service().watch(socket_.get(), EPOLLIN, [this](uint32_t) { accept_some(); });
}

Server::~Server() {
  Service& service = transport_->service();
  service.unwatch(socket_.get());
  if (resume_timer_ != 0) service.cancel(resume_timer_);
  ::unlinkat(transport_->runtime().dir_fd(), socket_name_.c_str(), 0);
  for (auto& [fd, admitted] : clients_) {
    service.unwatch(fd);
    service.cancel(admitted.hello_timer);
  }
}

void Server::accept_some() {
  for (int turn = 0; turn < kAcceptsPerTurn; ++turn) {
    Fd accepted(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (accepted.valid()) {
      admit(std::move(accepted));
    } else if (errno == EMFILE || errno == ENFILE) {
      return refuse_one();
    } else if (errno != ECONNABORTED && errno != EINTR) {
      if (errno != EAGAIN) pause();
      return;
    }
  }
}

void Server::admit(Fd socket) {
  Service& service = transport_->service();
  const int fd = socket.get();
  auto client = std::make_unique<Client>(transport_, std::move(socket));
  const auto connections = std::count_if(clients_.begin(), clients_.end(), [&](const auto& entry) {
    return entry.second.client->pid() == client->pid();
  });
  if (static_cast<size_t>(connections) >= kMaxConnectionsPerProcess) {
    URMA_LOG_LIMITED(WARNING, "process {} is refused: it has {} connections already", client->pid(),
                     connections);
    return;
  }
  Client* served = client.get();
  service.watch(fd, EPOLLIN, [this, served](uint32_t events) {
    if (!served->on_ready(events)) drop(served->fd());
  });
  const Service::TimerId timer = service.after(kHelloTimeoutNs, [this, served] {
    if (!served->greeted()) drop(served->fd());
  });
  clients_.emplace(fd, Admitted{std::move(client), timer});
}

// Without a free descriptor the peer could not even be told no, and would wait for its timeout.
void Server::refuse_one() {
  URMA_LOG_LIMITED(ERR, "a peer is refused: no descriptor is left; raise RLIMIT_NOFILE");
  spare_.reset();
  Fd refused(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool done = refused.valid();
  refused.reset();
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!done || !spare_.valid()) pause();
}

// The listener stays ready while nothing can be accepted; looking again at once would be a spin.
void Server::pause() {
  transport_->service().rewatch(socket_.get(), 0);
  resume_timer_ = transport_->service().after(kPauseNs, [this] {
    resume_timer_ = 0;
    transport_->service().rewatch(socket_.get(), EPOLLIN);
  });
}

void Server::drop(int fd) {
  const auto found = clients_.find(fd);
  transport_->service().unwatch(fd);
  transport_->service().cancel(found->second.hello_timer);
  clients_.erase(found);
}

}  // namespace urma::local
