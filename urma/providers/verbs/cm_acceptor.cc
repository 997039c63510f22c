// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/cm_acceptor.h"

#include <cerrno>
#include <cstring>

#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/providers/verbs/queue_pair.h"

namespace urma::verbs {
namespace {

// Calls not yet looked at.
constexpr int kBacklog = 1024;

}  // namespace

// A called end: expected, or connected.
class CmAcceptor::End final : public CmHandler {
 public:
  End(CmAcceptor* owner, const PeerRef& from, const CmTicket& ticket, uint8_t reads,
      const std::shared_ptr<QueuePair>& pair)
      : owner_(owner), from_(from), ticket_(ticket), reads_(reads), pair_(pair) {}
  ~End() override {
    if (timer_ != 0) service().cancel(timer_);
  }

  // Takes the id over if the call is for this end. 0 or an errno number; ENOENT: it is not.
  int accept(CmId* id, const CmTicket& ticket);
  void finish(std::function<void()> ended);
  void cm_event(const CmEvent& event) override;

 private:
  Service& service() const { return owner_->channel_->device().service(); }
  void over();

  CmAcceptor* const owner_;
  const PeerRef from_;
  const CmTicket ticket_;
  const uint8_t reads_;
  const std::weak_ptr<QueuePair> pair_;
  CmId id_;
  bool called_ = false;
  std::function<void()> ended_;
  Service::TimerId timer_ = 0;
};

int CmAcceptor::End::accept(CmId* id, const CmTicket& ticket) {
  const std::shared_ptr<QueuePair> pair = pair_.lock();
  if (called_ || !(ticket == ticket_) || !same_host(peer_address(*id->get()), from_.address) ||
      pair == nullptr) {
    return ENOENT;
  }
  rdma_conn_param param = connection_param(pair->number(), reads_);
  param.srq = 1;
  // Keeps its number from being reused.
  pair->hold();
  id->get()->context = static_cast<CmHandler*>(this);
  const int error =
      pair->handle() == nullptr ? ENOENT : owner_->channel_->api().cm_accept(id->get(), &param);
  pair->let_go();
  if (error != 0) return error;
  called_ = true;
  id_ = std::move(*id);
  return 0;
}

void CmAcceptor::End::cm_event(const CmEvent& event) {
  if (event.type != RDMA_CM_EVENT_ESTABLISHED) over();
}

void CmAcceptor::End::finish(std::function<void()> ended) {
  if (ended_ != nullptr) return;
  ended_ = std::move(ended);
  if (!id_) return over();
  timer_ = service().after(owner_->config_.patience_ns, [this] {
    timer_ = 0;
    over();
  });
}

// Nothing more arrives.
void CmAcceptor::End::over() {
  id_.reset();
  if (ended_ == nullptr) return;
  const auto ended = std::move(ended_);
  owner_->ends_.erase({ticket_.caller, ticket_.connection});
  ended();
}

CmAcceptor::CmAcceptor(CmChannel* channel, const CmConfig& config)
    : channel_(channel), config_(config), listening_(channel->make_id(this)) {
  const Api& api = channel_->api();
  const NetAddress local = address_of(config_.eid, LinkLayer::kIwarp, 0);
  SocketAddress address;
  to_socket_address(local, config_.netdev, &address);
  int error = api.cm_bind_addr(listening_.get(), &address.any);
  if (error == 0) {
    require_device(channel_->device(), *listening_.get());
    error = api.cm_listen(listening_.get(), kBacklog);
  }
  if (error != 0) {
    errno = error;
    fail_errno(URMA_FAIL, urma::format("listening for iWARP connections at {}", local.text()));
  }
  port_ = api.cm_get_src_port(listening_.get());
}

CmAcceptor::~CmAcceptor() = default;

void CmAcceptor::expect(const PeerRef& from, const ConnectRequest& request, const LinkEnd& end,
                        const std::shared_ptr<QueuePair>& pair) {
  const CmTicket ticket = {from.nonce, config_.nonce, request.connection, request.end.psn, end.psn};
  const uint8_t reads = reads_at_a_time(channel_->device(), request.end);
  std::unique_ptr<End>& known = ends_[{from.nonce, request.connection}];
  if (known == nullptr) known = std::make_unique<End>(this, from, ticket, reads, pair);
}

void CmAcceptor::forget(uint64_t nonce, uint64_t connection) { ends_.erase({nonce, connection}); }

void CmAcceptor::finish(uint64_t nonce, uint64_t connection, std::function<void()> ended) {
  const auto known = ends_.find({nonce, connection});
  if (known == ends_.end()) return ended();
  known->second->finish(std::move(ended));
}

void CmAcceptor::cm_event(const CmEvent& event) {
  if (event.caller == nullptr) return;
  event.caller->context = static_cast<CmHandler*>(this);
  CmId id(&channel_->api(), event.caller);
  const auto ticket = decode_ticket(event.data);
  const auto known =
      ticket.has_value() ? ends_.find({ticket->caller, ticket->connection}) : ends_.end();
  const int error = known == ends_.end() ? ENOENT : known->second->accept(&id, *ticket);
  if (error == 0) return;
  URMA_LOG_LIMITED(WARNING, "iWARP: connection from {} to port {} refused: {}",
                   peer_address(*id.get()).text(), port_,
                   error == ENOENT ? "it is not expected" : std::strerror(error));
  const auto refusal =
      encode_refusal(error == ENOENT ? Answer::kNoSuchObject : Answer::kNoResources);
  channel_->api().cm_reject(id.get(), refusal.data(), static_cast<uint8_t>(refusal.size()));
}

}  // namespace urma::verbs
