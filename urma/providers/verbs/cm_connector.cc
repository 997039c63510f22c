// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/cm_connector.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/providers/verbs/queue_pair.h"

namespace urma::verbs {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;

const char* failure_text(rdma_cm_event_type type) {
  switch (type) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      return "its address has no route";
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return "there is no route";
    case RDMA_CM_EVENT_UNREACHABLE:
      return "it gives no answer";
    case RDMA_CM_EVENT_REJECTED:
      return "it refuses, or has gone";
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return "the device has gone";
    default:
      return "the connection broke";
  }
}

}  // namespace

// One connection, from the owner's answer until either end goes.
class CmConnector::Link final : public CmHandler {
 public:
  Link(CmConnector* owner, std::shared_ptr<QueuePair> pair, const ConnectRequest& request,
       const ConnectAnswer& answer, std::function<void(const ConnectAnswer&)> answered)
      : owner_(owner),
        pair_(std::move(pair)),
        request_(request),
        answer_(answer),
        host_(address_of(request.target.eid, LinkLayer::kIwarp, answer.reply.cm_port)),
        answered_(std::move(answered)) {}
  ~Link() override {
    cancel_timer();
    id_.reset();
    pair_->let_go();
  }

  void begin();
  // rdma_connect has returned.
  void called(int error);
  // After that, its owner has answered, or not.
  void confirmed(bool there);
  // The context ends: nobody waits for the connection any more.
  void abandon() { give(Answer::kUnreachable); }
  void cm_event(const CmEvent& event) override;

  bool connected() const { return state_ == State::kConnected; }

 private:
  enum class State {
    kResolving,
    kConnecting,  // the kernel has it: ending the id would block
    kConfirming,
    kConnected,
    kOver,
  };

  Service& service() const { return owner_->channel_->device().service(); }
  const Api& api() const { return owner_->channel_->api(); }
  void require(int error, const char* what) const;
  void resolved();
  void call();
  void established();
  void expire();
  void fail(Answer answer, const char* why);
  void give(Answer answer);
  void end() { owner_->links_.erase(request_.connection); }
  void cancel_timer() {
    if (timer_ != 0) service().cancel(std::exchange(timer_, 0));
  }

  CmConnector* const owner_;
  const std::shared_ptr<QueuePair> pair_;
  const ConnectRequest request_;
  const ConnectAnswer answer_;
  const NetAddress host_;
  std::function<void(const ConnectAnswer&)> answered_;
  CmId id_;
  State state_ = State::kResolving;
  bool calling_ = false;  // rdma_connect is under way
  bool early_ = false;    // and has succeeded
  Service::TimerId timer_ = 0;
};

void CmConnector::Link::require(int error, const char* what) const {
  if (error == 0) return;
  errno = error;
  fail_errno(URMA_FAIL, urma::format("{} to {}", what, host_.text()));
}

void CmConnector::Link::begin() {
  const CmConfig& config = owner_->config_;
  id_ = owner_->channel_->make_id(this);
  pair_->hold();
  SocketAddress from;
  SocketAddress to;
  to_socket_address(address_of(config.eid, LinkLayer::kIwarp, 0), config.netdev, &from);
  to_socket_address(host_, config.netdev, &to);
  const auto patience_ms = static_cast<int>(config.patience_ns / kNsPerMs);
  require(api().cm_resolve_addr(id_.get(), &from.any, &to.any, patience_ms), "rdma_resolve_addr");
  timer_ = service().after(config.patience_ns, [this] {
    timer_ = 0;
    expire();
  });
}

void CmConnector::Link::cm_event(const CmEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return resolved();
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return call();
    case RDMA_CM_EVENT_ESTABLISHED:
      // The calling thread has yet to return from rdma_connect.
      if (calling_) {
        early_ = true;
        return;
      }
      return established();
    case RDMA_CM_EVENT_DISCONNECTED:
      if (state_ != State::kConnected) return fail(Answer::kUnreachable, failure_text(event.type));
      owner_->broke_(request_);
      return end();
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return fail(Answer::kUnreachable, failure_text(event.type));
    case RDMA_CM_EVENT_REJECTED:
      return fail(decode_refusal(event.data).value_or(Answer::kUnreachable),
                  failure_text(event.type));
    default:
      return;
  }
}

void CmConnector::Link::resolved() {
  try {
    require_device(owner_->channel_->device(), *id_.get());
    const auto patience_ms = static_cast<int>(owner_->config_.patience_ns / kNsPerMs);
    require(api().cm_resolve_route(id_.get(), patience_ms), "rdma_resolve_route");
  } catch (const std::exception& error) {
    fail(Answer::kUnreachable, error.what());
  }
}

void CmConnector::Link::call() {
  const LinkEnd& end = answer_.reply.end;
  const auto ticket = encode_ticket(
      {owner_->config_.nonce, answer_.owner, request_.connection, request_.end.psn, end.psn});
  const uint8_t reads = reads_at_a_time(owner_->channel_->device(), end);
  auto report = [owner = owner_, stopped = owner_->stopped_,
                 connection = request_.connection](int error) {
    if (*stopped) return;
    // The link lives at least until the call returns.
    owner->links_.at(connection)->called(error);
  };
  state_ = State::kConnecting;
  calling_ = true;
  try {
    owner_->caller_.call(
        host_, request_.connection,
        [=, id = id_.get(), number = pair_->number(), api = &api(), service = &service()] {
          rdma_conn_param param = connection_param(number, reads);
          param.private_data = ticket.data();
          param.private_data_len = static_cast<uint8_t>(ticket.size());
          const int error = api->cm_connect(id, &param);
          service->post([report, error] { report(error); });
        });
  } catch (const std::exception& error) {
    calling_ = false;
    fail(Answer::kNoResources, error.what());
  }
}

void CmConnector::Link::called(int error) {
  calling_ = false;
  if (state_ == State::kOver) return end();
  if (error != 0) return fail(Answer::kUnreachable, std::strerror(error));
  if (early_) established();
}

void CmConnector::Link::established() {
  state_ = State::kConfirming;
  // Nobody waits any more: the peer was too slow.
  if (answered_ == nullptr) return fail(Answer::kUnreachable, "it took too long");
  pair_->let_go();
  owner_->confirm(request_);
}

// Soft-iWARP reports a connection as established while the other end's rdma_accept still runs. Data
// that arrive before that returns stay unread there until more arrive. The owner answers on the
// thread that accepts, and so after it returned.
void CmConnector::Link::confirmed(bool there) {
  if (!there) return fail(Answer::kUnreachable, "it gives no answer");
  state_ = State::kConnected;
  give(Answer::kAccepted);
}

void CmConnector::Link::expire() {
  if (state_ == State::kResolving)
    return fail(Answer::kUnreachable, "its address was not resolved in time");
  if (state_ == State::kConfirming) return fail(Answer::kUnreachable, "it gives no answer");
  // Otherwise calls would pile up, each waiting for those before it.
  if (calling_ && owner_->caller_.withdraw(host_, request_.connection)) {
    calling_ = false;
    return fail(Answer::kUnreachable, "TCP to its host still waits for an answer to another call");
  }
  URMA_LOG_LIMITED(
      WARNING, "iWARP: {} did not answer in time; check that no firewall blocks TCP to that port",
      host_.text());
  give(Answer::kUnreachable);
}

// Ends without a connection. What the kernel still has in flight stays with the kernel.
void CmConnector::Link::fail(Answer answer, const char* why) {
  if (answered_ != nullptr) URMA_LOG_LIMITED(WARNING, "iWARP: calling {}: {}", host_.text(), why);
  state_ = State::kOver;
  give(answer);
  if (!calling_) end();
}

void CmConnector::Link::give(Answer answer) {
  cancel_timer();
  const auto answered = std::exchange(answered_, nullptr);
  if (answered == nullptr) return;
  // `answered` may end this connection at once.
  const ConnectAnswer accepted = answer_;
  if (answer == Answer::kAccepted) return answered(accepted);
  owner_->asking_->disconnect(request_, DisconnectReason::kFailed);
  answered({answer, {}, answer_.owner});
}

CmConnector::CmConnector(CmChannel* channel, Connector* asking, const CmConfig& config,
                         std::function<void(const ConnectRequest& request)> broke)
    : channel_(channel), asking_(asking), config_(config), broke_(std::move(broke)) {}

CmConnector::~CmConnector() = default;

void CmConnector::stop() {
  *stopped_ = true;
  for (const auto& [connection, link] : links_) link->abandon();
}

void CmConnector::connect(const std::shared_ptr<QueuePair>& pair, const ConnectRequest& request,
                          std::function<void(const ConnectAnswer&)> answered) {
  asking_->connect(pair, request,
                   [this, stopped = stopped_, pair, request,
                    answered = std::move(answered)](const ConnectAnswer& answer) {
                     const bool goes_on =
                         answer.answer == Answer::kAccepted && !answer.later() && !*stopped;
                     if (!goes_on) return answered(answer);
                     begin(pair, request, answer, answered);
                   });
}

void CmConnector::begin(const std::shared_ptr<QueuePair>& pair, const ConnectRequest& request,
                        const ConnectAnswer& answer,
                        const std::function<void(const ConnectAnswer&)>& answered) {
  try {
    if (answer.reply.cm_port == 0) urma::fail(URMA_FAIL, "its owner has no port for iWARP");
    const auto link = links_.emplace(request.connection,
                                     std::make_unique<Link>(this, pair, request, answer, answered));
    link.first->second->begin();
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "iWARP: connecting to id {:#x}: {}", request.target.id, error.what());
    links_.erase(request.connection);
    asking_->disconnect(request, DisconnectReason::kFailed);
    answered({Answer::kUnreachable, {}, answer.owner});
  }
}

void CmConnector::confirm(const ConnectRequest& request) {
  asking_->ask_end(request, PingRequest(),
                   [this, stopped = stopped_, connection = request.connection](const Reply& reply,
                                                                               const PeerRef&) {
                     if (*stopped) return;
                     const auto link = links_.find(connection);
                     if (link == links_.end()) return;
                     link->second->confirmed(reply.answer == Answer::kAccepted);
                   });
}

void CmConnector::disconnect(const ConnectRequest& request, DisconnectReason reason) {
  const auto link = links_.find(request.connection);
  if (link != links_.end() && link->second->connected()) links_.erase(link);
  asking_->disconnect(request, reason);
}

}  // namespace urma::verbs
