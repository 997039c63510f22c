// SPDX-License-Identifier: MIT
#include "urma/providers/shm/server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "jetty/memory_access.h"
#include "segment/mapped_view.h"
#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/shm/sender.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {
namespace {

// More than any program needs; limits what one peer can make this process map.
constexpr size_t kMaxRingsPerPeer = 16384;
// Requests of one peer that are served before others get their turn.
constexpr int kRequestsPerTurn = 64;
constexpr int kAcceptsPerTurn = 64;
// One for each provider and some that are about to close; no program needs more.
constexpr size_t kMaxConnectionsPerProcess = 16;
// Of all processes in other pid namespaces together, which cannot be distinguished.
constexpr size_t kMaxConnectionsOfStrangers = 1024;
// Connections that a process may make at once, and how long it then waits for each further one. All
// bring rings to map and to unmap, which stops the program's threads: a process that comes again
// and again would take most of their time.
constexpr uint64_t kConnectionsAtOnce = 32;
constexpr uint64_t kConnectionIntervalNs = 20'000'000;
// A peer has a second to greet, in looks: each comes this long after the one before, so that on an
// overloaded machine, where this thread is late, the peer, which waits for a processor as well,
// gets more time.
constexpr uint64_t kHelloLookNs = 100'000'000;
constexpr int kHelloLooks = 10;
// How long none is accepted if the kernel lacks memory or descriptors for another connection.
constexpr uint64_t kPauseNs = 10'000'000;

// Bytes of pages made shareable before other work on this thread gets its turn: some milliseconds.
constexpr uint64_t kSharePerTurn = 8 << 20;
// Segments that one peer may wait for at a time; the others are copied.
constexpr uint32_t kMaxMappingsAtOnce = 4096;
// Of answers that one peer has not read: some twenty, each of which may bring kMaxAttached
// descriptors. In flight they count for the user of this process.
constexpr int kUnreadBytes = 8192;

// Calls send(count, fds) with the descriptors that describe these parts to an importer.
template <typename Send>
void describe(const std::vector<SharedPart>& parts, const Send& send) {
  const SharedMemory memory =
      SharedMemory::create("urma-parts", parts.size() * sizeof(PartDescription), PeerMay::kRead);
  std::vector<int> fds = {memory.fd()};
  // Parts from more files than fit are not mapped.
  const auto file_of = [&fds](int fd) {
    if (fd < 0) return kNoFile;
    const auto known = std::find(fds.begin() + 1, fds.end(), fd);
    const auto number = static_cast<uint32_t>(known - fds.begin()) - 1;
    if (known != fds.end()) return number;
    if (fds.size() == kMaxAttached) return kNoFile;
    fds.push_back(fd);
    return number;
  };
  auto* described = static_cast<PartDescription*>(memory.data());
  for (const SharedPart& part : parts) {
    *described++ = {part.va, part.len, part.offset, file_of(part.fd), part.reason};
  }
  send(static_cast<uint32_t>(parts.size()), fds);
}

Reply with_answer(Answer answer) {
  Reply reply = {};
  reply.answer = answer;
  return reply;
}

}  // namespace

// -------------------------------------------------------------------------------------------------
// One client: a peer
// -------------------------------------------------------------------------------------------------

Client::Client(Server* server, Transport* transport, OwnFd socket)
    : server_(server),
      transport_(transport),
      connection_(std::move(socket)),
      process_(std::make_shared<PeerProcess>()) {
  const PeerCredentials credentials = connection_.credentials();
  process_->pid = credentials.pid;
  ::setsockopt(fd(), SOL_SOCKET, SO_SNDBUF, &kUnreadBytes, sizeof(kUnreadBytes));
  process_->may_help.store(is_open_to(credentials.uid), std::memory_order_relaxed);
}

Client::~Client() {
  // Tells the peer at once, also if a cloned process has a copy of the descriptor.
  ::shutdown(fd(), SHUT_RDWR);
  if (region_ != nullptr) transport_->peer_writes().remove(region_.get());
  // What the peer published before its end is delivered first.
  for (auto& [number, ring] : rings_) ring->abandon(/*still_lends=*/false);
  if (!rings_.empty()) transport_->serve_receives();
}

bool Client::on_ready(uint32_t events) {
  // Nobody will read what is still queued.
  if ((events & (EPOLLHUP | EPOLLERR)) != 0 && connection_.backlog()) return false;
  if ((events & EPOLLOUT) != 0) {
    if (connection_.flush() == MessageSocket::Sent::kClosed) return false;
    if (connection_.backlog()) {
      connection_.await_flush(&transport_->service(), 0);
      return true;
    }
    transport_->service().rewatch(fd(), EPOLLIN);
    catch_up();
  }
  for (int turn = 0; turn < kRequestsPerTurn; ++turn) {
    // A peer that does not read its answers gets no more of them.
    if (connection_.backlog()) return true;
    Request request;
    Attached fds;
    switch (connection_.receive(&request, sizeof(request), &fds)) {
      case MessageSocket::Received::kMessage:
        if (!serve(request, fds)) return false;
        break;
      case MessageSocket::Received::kNothing:
        return true;
      case MessageSocket::Received::kClosed:
        return false;
      case MessageSocket::Received::kMalformed:
        URMA_LOG_LIMITED(WARNING, "process {} sent a malformed control message; it is disconnected",
                         process_->pid);
        return false;
    }
  }
  return true;
}

// Without memory or descriptors, the peer learns so at once.
bool Client::serve(const Request& request, Attached& fds) {
  try {
    return handle(request, fds);
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "a request of process {} fails: {}", process_->pid, error.what());
    // One of number 0 awaits no answer.
    return request.number == 0 || reply(with_answer(Answer::kNoResources), request.number);
  }
}

bool Client::handle(const Request& request, Attached& fds) {
  if (!greeted_) return request.type == RequestType::kHello && hello(request, fds);
  switch (request.type) {
    case RequestType::kImportSegment:
      import_segment(request);
      break;
    case RequestType::kMapSegment:
      map_segment(request);
      break;
    case RequestType::kOpenRing:
      open_ring(request, fds);
      break;
    case RequestType::kCloseRing:
      close_ring(request);
      break;
    case RequestType::kAtomic:
      atomic(request);
      break;
    case RequestType::kProgress:
      transport_->serve_hint();
      break;
    case RequestType::kProbe:
      probe(request);
      break;
    case RequestType::kStage:
      reply(with_answer(take_staging(fds)), request.number);
      break;
    case RequestType::kCopySegment:
      reply(with_answer(copy_segment(request.copy_segment)), request.number);
      break;
    case RequestType::kCopyMessage:
      reply(with_answer(copy_message(request.copy_message)), request.number);
      break;
    default:
      reply(with_answer(Answer::kMalformed), request.number);
      break;
  }
  return alive_;
}

bool Client::hello(const Request& request, Attached& fds) {
  const PeerCredentials credentials = connection_.credentials();
  if (request.hello.magic != kProtocolMagic || request.hello.version != kProtocolVersion) {
    URMA_LOG(ERR,
             "process {} speaks version {} of the control protocol for ELF machine {}, this one {} "
             "for {}; it is refused",
             credentials.pid, number_of(request.hello.version), machine_of(request.hello.version),
             number_of(kProtocolVersion), machine_of(kProtocolVersion));
    reply(with_answer(Answer::kRefusedVersion), request.number);
    return false;
  }
  if (!transport_->runtime().admits(credentials.uid)) {
    URMA_LOG_LIMITED(ERR,
                     "process {} of user {} is refused; peers must be of the same user, or of one "
                     "that URMA_SHM_PEERS names",
                     credentials.pid, credentials.uid);
    reply(with_answer(Answer::kRefusedUser), request.number);
    return false;
  }
  try {
    if (fds.size() != 1) fail(URMA_FAIL, "its greeting came with {} descriptors", fds.size());
    region_ = std::make_shared<const PeerRegion>(std::move(fds[0]),
                                                 (request.hello.flags & kHasProcessBarrier) != 0);
    process_->pidfd = connection_.open_peer();
    transport_->peer_writes().add(region_);
  } catch (const Error& error) {
    URMA_LOG_LIMITED(WARNING, "a peer is refused: {}", error.what());
    reply(with_answer(Answer::kNoResources), request.number);
    return false;
  }
  process_->slot = request.hello.slot;
  process_->refused.store(transport_->staged(), std::memory_order_relaxed);
  greeted_ = true;
  Reply accepted = with_answer(Answer::kAccepted);
  accepted.hello = {transport_->runtime().nonce(), transport_->runtime().uasid(),
                    enter_process_barrier() ? kHasProcessBarrier : 0U};
  const int words = transport_->segments().words_fd();
  return reply(accepted, request.number, {&words, 1});
}

// Returns nothing, after the answer, if the peer may not have it.
std::optional<SegmentGrant> Client::grant(const Request& request) {
  const ImportSegmentRequest& asked = request.import_segment;
  SegmentGrant granted;
  const Answer answer = transport_->grant(
      {asked.eid, asked.token_id, asked.token, {asked.va, asked.len, asked.access}},
      name_of(*process_), &granted_, &granted);
  if (answer == Answer::kAccepted) return granted;
  reply(with_answer(answer), request.number);
  return std::nullopt;
}

// The answer to a peer about the queue or group that it asks for.
Answer Client::judged(Answer answer, const ProbeTarget& target) const {
  if (answer == Answer::kWrongToken) {
    URMA_LOG_LIMITED(WARNING, "{} presented a wrong token for {} {:#x}", name_of(*process_),
                     target_name(target.type), target.id);
  }
  if (answer != Answer::kNoSuchObject || target.type == URMA_JETTY_GROUP) return answer;
  const bool jfr = target.type == URMA_JFR;
  const IdKind other = jfr ? IdKind::kJetty : IdKind::kJfr;
  if (!transport_->with_endpoint(other, target.eid, target.id, [](const Endpoint&) {})) {
    return answer;
  }
  // Or it is only not READY.
  const auto asked = jfr ? URMA_EXT_QUEUE_JFR : URMA_EXT_QUEUE_JETTY;
  if (!transport_->queues().has(asked, target.eid, target.id)) {
    URMA_LOG_LIMITED(WARNING, "process {} imports {} {:#x} as a {}; import it as its own kind",
                     process_->pid, jfr ? "jetty" : "JFR", target.id, target_name(target.type));
  }
  return answer;
}

void Client::import_segment(const Request& request) {
  const std::optional<SegmentGrant> granted = grant(request);
  if (!granted.has_value()) return;
  Reach reach = granted->opaque ? Reach::kOpaque : Reach::kCopied;
  if (granted->pages != 0 && transport_->pages()->imported(granted->pages)) reach = Reach::kMapped;
  Reply accepted = with_answer(Answer::kAccepted);
  accepted.import_segment = {granted->base,           granted->len,
                             granted->access,         granted->ref.index,
                             granted->ref.generation, reach};
  reply(accepted, request.number);
}

// A peer that reads no answers gets one notice later, for all that have ended.
void Client::end_grant(SegmentRef ref) {
  if (!granted_.remove(ref)) return;
  owes_news_ = connection_.backlog();
  if (!owes_news_) reply(with_answer(Answer::kNoSuchObject), /*number=*/0);
}

void Client::catch_up() {
  if (std::exchange(owes_news_, false)) reply(with_answer(Answer::kNoSuchObject), /*number=*/0);
  for (int turn = 0; alive_ && !shared_.empty() && !connection_.backlog(); ++turn) {
    // The rest after others had their turn.
    if (turn == kRequestsPerTurn) {
      return transport_->service().rewatch(fd(), EPOLLIN | EPOLLOUT);
    }
    const auto [grant, number] = shared_.front();
    shared_.pop_front();
    --mapping_;
    hand_out(grant, number);
  }
}

void Client::map_segment(const Request& request) {
  const std::optional<SegmentGrant> granted = grant(request);
  if (!granted.has_value()) return;
  if (granted->opaque) {
    hand_out(*granted, request.number);
  } else if (granted->pages == 0) {
    reply(with_answer(Answer::kNoAccess), request.number);
  } else if (mapping_ == kMaxMappingsAtOnce) {
    reply(with_answer(Answer::kNoResources), request.number);
  } else {
    server_->share(shared_from_this(), *granted, request.number);
    ++mapping_;
  }
}

void Client::shared(const SegmentGrant& grant, uint32_t number) {
  if (!alive_) return;
  if (connection_.backlog()) return static_cast<void>(shared_.emplace_back(grant, number));
  --mapping_;
  hand_out(grant, number);
}

void Client::not_shared(uint32_t number) {
  --mapping_;
  reply(with_answer(Answer::kNoResources), number);
}

// The descriptors stay open while the segment stands, and it does while they are sent.
void Client::hand_out(const SegmentGrant& grant, uint32_t number) {
  Reply answer = with_answer(Answer::kNoSuchObject);
  const auto send = [&](uint32_t parts, std::span<const int> fds) {
    answer.answer = Answer::kAccepted;
    answer.map_segment = {parts, grant.ref.index, grant.ref.generation, grant.opaque ? 1U : 0U};
    reply(answer, number, fds);
  };
  try {
    transport_->segments().with_segment(grant.ref, [&](const Segment& segment) {
      // Otherwise a peer has ended it.
      if (!transport_->segments().granted(grant.ref)) return;
      if (!grant.opaque) return describe(transport_->pages()->parts(grant.pages), send);
      answer.answer = Answer::kNoAccess;
      transport_->describe(segment, [&](std::span<const int> fds) { send(0, fds); });
    });
    if (answer.answer == Answer::kAccepted) return;
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(WARNING, "process {} cannot map a segment: {}", process_->pid, error.what());
    answer.answer = Answer::kNoResources;
  }
  reply(answer, number);
}

void Client::open_ring(const Request& request, Attached& fds) {
  Reply answer = {};
  std::shared_ptr<const Wakeup> wakeup;
  try {
    answer.answer = accept_ring(request.open_ring, fds, &answer.open_ring, &wakeup);
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(WARNING, "ring of process {} is refused: {}", process_->pid, error.what());
    answer.answer = Answer::kNoResources;
  }
  if (answer.answer == Answer::kAccepted && wakeup != nullptr) {
    const int fd = wakeup->there.get();
    reply(answer, request.number, {&fd, 1});
  } else {
    reply(answer, request.number);
  }
}

Answer Client::accept_ring(const OpenRingRequest& asked, Attached& fds, OpenRingAnswer* given,
                           std::shared_ptr<const Wakeup>* wakeup) {
  const bool has_bell = asked.sender_jfc.bell != kNoBell;
  const size_t descriptors = has_bell ? 2 : 1;
  if (fds.size() < descriptors) return Answer::kNoResources;
  if (fds.size() != descriptors || !RingLayout::valid_size(asked.ring_bytes) ||
      asked.sender.id > kMaxChosenId || asked.target_type > URMA_JETTY_GROUP ||
      rings_.contains(asked.ring)) {
    return Answer::kMalformed;
  }
  if (rings_.size() >= kMaxRingsPerPeer) return Answer::kNoResources;
  auto ring = std::make_shared<IncomingRing>(std::move(fds[0]), asked.ring_bytes, process_);
  ring->key = asked.key;
  if (has_bell) ring->bell = wakeups_.accept(asked.sender_jfc, region_, std::move(fds[1]));
  const WayRequest way = {
      {asked.target_eid, asked.target_id, asked.target_type, asked.trans_mode, asked.token},
      asked.sender,
      asked.rnr_retry,
      asked.hint};
  const Answer answer = transport_->admit(way, &given->members, [&](const Endpoint& endpoint) {
    auto* receiver = static_cast<Receiver*>(endpoint.receiver);
    *wakeup =
        wakeups_.offer(endpoint.jfc->channel(), endpoint.jfc->bell_index(), &given->receiver_jfc);
    receiver->describe(endpoint, way, ring.get());
    return receiver->add_way(ring);
  });
  if (answer != Answer::kAccepted) return judged(answer, way);
  URMA_LOG(DEBUG, "process {} sends to queue {:#x} from queue {:#x}", process_->pid,
           asked.target_id, asked.sender.id);
  rings_.emplace(asked.ring, std::move(ring));
  return answer;
}

void Client::probe(const Request& request) {
  const ProbeRequest& asked = request.probe;
  const ProbeTarget target = {asked.target_eid, asked.target_id, asked.target_type,
                              asked.trans_mode, asked.token};
  reply(with_answer(judged(transport_->judge(target), target)), request.number);
}

void Client::close_ring(const Request& request) {
  const bool lends = request.close_ring.lends == 1;
  auto found = rings_.find(request.close_ring.ring);
  if (found != rings_.end()) {
    found->second->abandon(lends);
    if (!lends) rings_.erase(found);
    transport_->serve_receives();
  }
  if (lends) reply(with_answer(Answer::kAccepted), request.number);
}

// A peer whose answer cannot even wait learns that from the end of the connection.
bool Client::reply(Reply answer, uint32_t number, std::span<const int> fds) {
  answer.number = number;
  auto sent = MessageSocket::Sent::kClosed;
  guarded(URMA_LOG_SITE, [&] {
    sent = connection_.send(&answer, sizeof(answer), fds);
    if (sent == MessageSocket::Sent::kQueued) connection_.await_flush(&transport_->service(), 0);
  });
  if (sent == MessageSocket::Sent::kClosed) break_off();
  return alive_;
}

void Client::break_off() {
  alive_ = false;
  // The service thread notices, whatever it does now.
  ::shutdown(fd(), SHUT_RDWR);
}

// -------------------------------------------------------------------------------------------------
// What a client may do to memory of this process: atomics, and staged copies if the kernel refuses
// -------------------------------------------------------------------------------------------------

void Client::atomic(const Request& request) {
  const AtomicRequest& asked = request.atomic;
  Reply answer = {};
  answer.answer = Answer::kAccepted;
  const uint32_t access =
      asked.opcode == URMA_OPC_WRITE_ATOMIC ? URMA_ACCESS_WRITE : URMA_ACCESS_ATOMIC;
  if (!valid_width(asked.opcode, asked.bytes)) {
    answer.answer = Answer::kMalformed;
  } else if (asked.va % asked.bytes != 0) {
    answer.answer = Answer::kMisaligned;
  } else if (!granted_.has({asked.index, asked.generation}) ||
             !transport_->segments().with_grant(
                 {asked.index, asked.generation}, asked.va, asked.bytes, access, [&] {
                   if (!populate(asked.va, asked.bytes, /*for_writing=*/true)) {
                     answer.answer = Answer::kNoAccess;
                     return;
                   }
                   execute_wide(asked.opcode, reinterpret_cast<void*>(asked.va), asked.bytes,
                                asked.operand, answer.atomic.old_value);
                 })) {
    answer.answer = Answer::kNoAccess;
  }
  reply(answer, request.number);
}

// Only once: otherwise a peer could have this process hold ever more.
Answer Client::take_staging(Attached& fds) {
  if (staging_.has_value()) return Answer::kMalformed;
  if (fds.size() != 1) return Answer::kNoResources;
  try {
    staging_.emplace(std::move(fds[0]));
    return Answer::kAccepted;
  } catch (const Error& error) {
    URMA_LOG_LIMITED(WARNING, "process {}: {}", process_->pid, error.what());
    return Answer::kMalformed;
  }
}

// The registration cannot end meanwhile. A peer could guess the name of one that it was not
// granted.
Answer Client::copy_segment(const CopySegmentRequest& asked) {
  const auto direction = static_cast<Direction>(asked.direction);
  const bool write = direction == Direction::kWrite;
  const SegmentRef ref = {asked.index, asked.generation};
  if (!staging_.has_value()) return Answer::kNoResources;
  if (!valid_place(asked.place, asked.bytes) || (!write && direction != Direction::kRead)) {
    return Answer::kMalformed;
  }
  Answer answer = Answer::kNoAccess;
  if (!granted_.has(ref)) return answer;
  transport_->segments().with_grant(
      ref, asked.va, asked.bytes, write ? URMA_ACCESS_WRITE : URMA_ACCESS_READ, [&] {
        const iovec own = {reinterpret_cast<void*>(asked.va), asked.bytes};
        answer = staging_->copy(direction, asked.place, {&own, 1});
      });
  return answer;
}

// A message gives its receiver alone the right to the memory that it names, while it is in flight;
// the key says that the peer is that receiver.
Answer Client::copy_message(const CopyMessageRequest& asked) {
  if (!staging_.has_value()) return Answer::kNoResources;
  if (!valid_place(asked.place, asked.bytes)) return Answer::kMalformed;
  Answer answer = Answer::kNoSuchObject;
  transport_->find_sender([&](urma::Sender& sender) {
    return sender.id().id == asked.sender &&
           static_cast<Sender&>(sender).lend(asked, [&](std::span<const iovec> own) {
             answer = own.empty() ? Answer::kNoAccess
                                  : staging_->copy(Direction::kRead, asked.place, own);
           });
  });
  return answer;
}

// -------------------------------------------------------------------------------------------------
// All clients
// -------------------------------------------------------------------------------------------------

Server::Server(Transport* transport, const std::string& provider)
    : transport_(transport),
      socket_name_(transport->runtime().socket_name(transport->runtime().slot(), provider.c_str())),
      socket_(listen_at(transport->runtime().dir_fd(), socket_name_.c_str(),
                        transport->runtime().file_mode())),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
      pace_(kConnectionsAtOnce, kConnectionIntervalNs) {
  transport_->service().watch(socket_.get(), EPOLLIN, [this](uint32_t) { accept_some(); });
}

Server::~Server() {
  Service& service = transport_->service();
  service.unwatch(socket_.get());
  if (resume_timer_ != 0) service.cancel(resume_timer_);
  ::unlinkat(transport_->runtime().dir_fd(), socket_name_.c_str(), 0);
  for (auto& [fd, client] : clients_) {
    service.unwatch(fd);
    service.cancel(client->timer);
  }
}

void Server::forget(EventChannel* channel) {
  for (auto& [fd, client] : clients_) client->forget(channel);
}

void Server::end_grant(SegmentRef ref) {
  for (auto& [fd, client] : clients_) client->end_grant(ref);
}

// However many peers ask for a segment, it is shared once. That begins later, once the asker has
// counted its request.
void Server::share(const std::shared_ptr<Client>& asker, const SegmentGrant& grant,
                   uint32_t number) {
  if (!sharing_later_) share_later();
  auto known = std::find_if(sharing_.begin(), sharing_.end(),
                            [&](const Sharing& each) { return each.pages == grant.pages; });
  if (known == sharing_.end()) known = sharing_.insert(known, {grant.pages, {}});
  known->askers.push_back({asker, grant, number});
}

void Server::share_later() {
  transport_->service().post([this, ended = transport_->ended()] {
    if (!*ended) share_some();
  });
  sharing_later_ = true;
}

// One turn; the rest waits after everything else on this thread. A segment that goes meanwhile has
// nothing left to share.
void Server::share_some() {
  sharing_later_ = false;
  if (sharing_.empty()) return;
  Sharing& front = sharing_.front();
  // Nothing is shared for peers that have gone.
  std::erase_if(front.askers, [](const Asker& each) { return each.client.expired(); });
  bool failed = false;
  if (front.askers.empty() || share_turn(front, &failed)) answer_askers(&front, failed);
  if (front.askers.empty()) {
    sharing_.pop_front();
  } else {
    std::rotate(sharing_.begin(), sharing_.begin() + 1, sharing_.end());
  }
  if (sharing_.empty()) return;
  const urma_status_t status = guarded(URMA_LOG_SITE, [this] {
    share_later();
    return URMA_SUCCESS;
  });
  // Nobody would go on.
  if (status != URMA_SUCCESS) refuse_askers();
}

// True if all of the segment is shared, as far as possible, or if sharing has failed: what was
// shared until then is not sealed, and no peer may have it.
bool Server::share_turn(const Sharing& sharing, bool* failed) {
  bool done = true;
  *failed = true;
  guarded(URMA_LOG_SITE, [&] {
    done = transport_->pages()->share(sharing.pages, kSharePerTurn);
    *failed = false;
  });
  return done;
}

// As many as get their turn, in the order in which they have asked: those that ask again and again
// keep none from its answer.
void Server::answer_askers(Sharing* sharing, bool failed) {
  auto& askers = sharing->askers;
  const auto end = askers.begin() + std::min<ptrdiff_t>(std::ssize(askers), kRequestsPerTurn);
  for (auto asker = askers.begin(); asker != end; ++asker) {
    const auto client = asker->client.lock();
    if (client == nullptr) continue;
    if (failed) {
      client->not_shared(asker->number);
      continue;
    }
    const urma_status_t told = guarded(URMA_LOG_SITE, [&] {
      client->shared(asker->grant, asker->number);
      return URMA_SUCCESS;
    });
    if (told != URMA_SUCCESS) client->break_off();
  }
  askers.erase(askers.begin(), end);
}

void Server::refuse_askers() {
  for (const Sharing& sharing : sharing_) {
    for (const Asker& asker : sharing.askers) {
      if (const auto client = asker.client.lock()) client->not_shared(asker.number);
    }
  }
  sharing_.clear();
}

void Server::accept_some() {
  for (int turn = 0; turn < kAcceptsPerTurn; ++turn) {
    OwnFd accepted = OwnFd::accept(socket_.get());
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

// The task becomes a Service::Task inside, since that may fail too.
template <typename Task>
void Server::set_timer(Client* client, uint64_t delay_ns, const Task& task) {
  try {
    client->timer = transport_->service().after(delay_ns, task);
  } catch (...) {
    drop(client->fd());
    throw;
  }
}

void Server::admit(OwnFd socket) {
  const int fd = socket.get();
  auto client = std::make_shared<Client>(this, transport_, std::move(socket));
  const auto connections = std::count_if(clients_.begin(), clients_.end(), [&](const auto& entry) {
    return entry.second->pid() == client->pid();
  });
  const bool stranger = client->pid() == 0;
  const size_t most = stranger ? kMaxConnectionsOfStrangers : kMaxConnectionsPerProcess;
  if (static_cast<size_t>(connections) >= most) {
    URMA_LOG_LIMITED(WARNING, "process {} is refused: it has {} connections already", client->pid(),
                     connections);
    return;
  }
  const uint64_t now = monotonic_ns();
  const uint64_t due = stranger ? now : pace_.due(client->pid(), now);
  Client* served = client.get();
  clients_.emplace(fd, std::move(client));
  if (due == now) return begin(served);
  set_timer(served, due - now, [this, served] { begin(served); });
}

void Server::begin(Client* client) {
  try {
    transport_->service().watch(client->fd(), EPOLLIN, [this, client](uint32_t events) {
      if (!client->on_ready(events)) drop(client->fd());
    });
  } catch (...) {
    drop(client->fd());
    throw;
  }
  await_hello(client, kHelloLooks);
}

void Server::await_hello(Client* client, int looks) {
  const auto look = [this, client, looks] {
    if (client->greeted()) return;
    if (looks > 1) return await_hello(client, looks - 1);
    // A greeting that has arrived is still heard: this thread may not have had its turn since.
    if (!client->on_ready(EPOLLIN) || !client->greeted()) drop(client->fd());
  };
  set_timer(client, kHelloLookNs, look);
}

// Without a free descriptor the peer could not even be refused, and would wait for its timeout.
void Server::refuse_one() {
  URMA_LOG_LIMITED(ERR, "a peer is refused: no descriptor is left; raise RLIMIT_NOFILE");
  spare_.reset();
  const bool done = OwnFd::accept(socket_.get()).valid();
  spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!done || !spare_.valid()) pause();
}

// The listener stays ready while nothing can be accepted; without a pause this thread would spin.
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
  transport_->service().cancel(found->second->timer);
  clients_.erase(found);
}

}  // namespace urma::shm
